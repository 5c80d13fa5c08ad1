"""Channels of probes and tests, which are no process of a suite. A service opens those of its `Transport`."""

from __future__ import annotations

import grpc

from services.runtime.transport import PLAIN


def open_channel(address: str) -> grpc.Channel:
    """Open a plain channel to whatever service listens there; see `Transport.open_channel`. The caller closes it."""
    return PLAIN.open_channel(address, "")
