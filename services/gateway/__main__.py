"""The gateway process: `python -m services.gateway --listen HOST:PORT`.

The environment gives the address of each service (WAGGLE_IDENTITY_ADDRESS, WAGGLE_MEMORY_ADDRESS,
WAGGLE_RETRIEVAL_ADDRESS and so on, one for each package with routes) and, where wanted, the HTTP limits.
"""

from __future__ import annotations

import sys

from services.gateway.server import run_gateway
from services.runtime.main import run_process


def main(arguments: list[str] | None = None) -> int:
    """Serve until told to stop, and return the exit code; see `run_process` for the arguments."""
    return run_process(
        "gateway",
        run_gateway,
        arguments,
        description="Serve the documented JSON routes.",
        listen_default="127.0.0.1:7474",
        listen_help="HOST:PORT; port 0 picks a free one",
    )


if __name__ == "__main__":
    sys.exit(main())
