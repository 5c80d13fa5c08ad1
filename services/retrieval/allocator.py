"""The C allocator of the process."""

from __future__ import annotations

import ctypes


def release_free_memory() -> None:
    """Give memory that was freed back to the system. Does nothing where the C library is not glibc.

    Loading a partition passes tens of megabytes through short-lived objects, most of which glibc would keep for later.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
