"""A suite begins when the last process of the former one has ended."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cli.succession import FormerSuiteRemains, succeed_former


def test_a_process_that_inherited_the_lock_keeps_the_successor_waiting(tmp_path: Path) -> None:
    """The supervisor itself may have ended long before."""
    with succeed_former(tmp_path) as descriptor:
        service = subprocess.Popen(
            [sys.executable, "-c", "input()"], stdin=subprocess.PIPE, pass_fds=(descriptor,), text=True
        )
    with pytest.raises(FormerSuiteRemains, match=str(tmp_path.parent)), succeed_former(tmp_path, wait_s=0):
        pass
    service.communicate("\n")
    with succeed_former(tmp_path, wait_s=0):
        pass


def test_nobody_else_inherits_the_lock(tmp_path: Path) -> None:
    """A process that is started without it does not keep it."""
    with succeed_former(tmp_path) as descriptor:
        assert not os.get_inheritable(descriptor)
