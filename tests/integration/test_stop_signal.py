"""A process that is told to stop ends, whichever of its threads the kernel hands the signal to."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

# The thread takes the signal itself, as the kernel may let any thread do: Python's main thread sleeps on.
SERVICE = """
import signal, sys, threading
from services.runtime.main import run_service

def take_signal():
    sys.stdin.readline()
    signal.pthread_kill(threading.get_ident(), signal.SIGTERM)

def build(registry, process):
    threading.Thread(target=take_signal, daemon=True).start()

sys.exit(run_service("signalled", build, None, description="A service without methods."))
"""
ENDS_WITHIN_S = 60.0


def test_a_signal_that_another_thread_takes_ends_the_process(tmp_path: Path) -> None:
    """The main thread notices it by itself: no second signal and no call has to wake it."""
    command = [sys.executable, "-c", SERVICE, "--listen", f"unix:{tmp_path / 'service.sock'}"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        for line in process.stderr:
            if '"listening"' in line:
                break
        try:
            _, rest = process.communicate("now\n", timeout=ENDS_WITHIN_S)
        finally:
            process.kill()
    assert (0, True) == (process.returncode, '"stopped"' in rest)
