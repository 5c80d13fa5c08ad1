"""Run a module as the child of a supervisor: `python -m services.runtime.process services.storage --listen ...`.

The kernel sends the child SIGTERM when the thread that started it ends, so that no service outlives its supervisor,
even one that was killed with SIGKILL.
"""

from __future__ import annotations

import ctypes
import os
import runpy
import signal
import sys

_PR_SET_PDEATHSIG = 1
SUPERVISOR_VARIABLE = "WAGGLE_SUPERVISOR_PID"


def die_with_parent() -> None:
    """Ask the kernel for SIGTERM at the parent's death. Does nothing where the system is not Linux."""
    if sys.platform != "linux":
        return
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    expected = os.environ.get(SUPERVISOR_VARIABLE)
    if expected is not None and os.getppid() != int(expected):
        # The supervisor died before the request took effect.
        sys.exit(1)


def main() -> None:
    """Bind to the parent and become the named module."""
    die_with_parent()
    module = sys.argv[1]
    del sys.argv[1]
    # With `-m` the working directory stands first on the path; keep that for the module.
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
