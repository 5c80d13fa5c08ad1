"""Channels of commands and tests, which are no process of a suite. A service opens those of its `Transport`."""

from __future__ import annotations

import grpc

from services.runtime.transport import PLAIN


def open_channel(address: str) -> grpc.Channel:
    """Open a channel that connects on first use; see `Transport.open_channel`. The caller closes it."""
    return PLAIN.open_channel(address, "")  # nobody shows a name in plain text
