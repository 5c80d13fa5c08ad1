"""A small file system of its own, on which a disk can really be full."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def small_volume(path: Path, size_bytes: int) -> Iterator[Path]:
    """Mount one at a path that is made; the test is skipped where that is not allowed."""
    path.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size_bytes}", "tmpfs", str(path)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("mounting a small volume needs root")
    try:
        yield path
    finally:
        subprocess.run(["umount", str(path)], check=True)


def fill(volume: Path, name: str = "filler", *, leave_bytes: int = 0) -> Path:
    """Take all the room that is left, or all but some of it; removing the file gives it back."""
    path = volume / name
    with path.open("wb", buffering=0) as file:
        try:
            while file.write(bytes(4096)):
                pass
        except OSError:
            file.truncate(max(file.tell() - leave_bytes, 0))
    return path
