"""The gateway process: `python -m services.gateway --listen HOST:PORT`.

The environment gives the address of each service (WAGGLE_IDENTITY_ADDRESS, WAGGLE_MEMORY_ADDRESS,
WAGGLE_RETRIEVAL_ADDRESS and so on, one for each package with routes) and, where wanted, the HTTP limits.
"""

from __future__ import annotations

import argparse
import os
import sys

from services.gateway.server import run_gateway
from services.gateway.settings import BadSetting, parse_listen, read_http_limits
from services.runtime.logging import configure_logging, get_logger

EXIT_CANNOT_START = 3

log = get_logger()


def main() -> int:
    """Read the settings, serve until SIGTERM, drain."""
    parser = argparse.ArgumentParser(prog="python -m services.gateway", description="Serve the documented JSON routes.")
    parser.add_argument("--listen", default="127.0.0.1:7474", metavar="HOST:PORT", help="port 0 picks a free one")
    arguments = parser.parse_args()
    configure_logging("gateway")
    try:
        host, port = parse_listen(arguments.listen)
        return run_gateway(host, port, environment=os.environ, limits=read_http_limits(os.environ))
    except (BadSetting, OSError) as error:
        log.error("cannot_start", message=str(error))
        return EXIT_CANNOT_START


if __name__ == "__main__":
    sys.exit(main())
