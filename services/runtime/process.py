"""Run a module as the child of a supervisor: `python -m services.runtime.process services.storage --listen ...`.

The kernel kills the child when the thread that started it ends, so that no service outlives its supervisor, even one
that was killed with SIGKILL. The child gets SIGKILL as well: a drain needs the other services, so this one would go on
for seconds without order, and keep store, sockets and port from the next supervisor. An orderly stop drains first.
"""

from __future__ import annotations

import ctypes
import os
import runpy
import signal
import sys

_PR_SET_PDEATHSIG = 1
SUPERVISOR_VARIABLE = "WAGGLE_SUPERVISOR_PID"


def die_with_parent(parent_id: int | None) -> None:
    """Ask the kernel for SIGKILL at the parent's death. Does nothing where the system is not Linux.

    Args:
        parent_id: The parent as it should be; another one means that it died before this took effect, which ends the
            process at once. None where that is not known.
    """
    if sys.platform != "linux":
        return
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if parent_id is not None and os.getppid() != parent_id:
        sys.exit(1)


def main() -> None:
    """Bind to the parent and become the named module."""
    supervisor = os.environ.get(SUPERVISOR_VARIABLE)
    die_with_parent(None if supervisor is None else int(supervisor))
    module = sys.argv[1]
    del sys.argv[1]
    # With `-m` the working directory stands first on the path; keep that for the module.
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
