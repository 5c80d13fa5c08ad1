"""gRPC channels with the limits that the contract needs."""

from __future__ import annotations

import grpc

MESSAGE_BYTES_MAX = 64 * 1024 * 1024
"""Greatest size of one message in either direction; gRPC's own default of 4 MiB is below documented answers."""

CHANNEL_OPTIONS: tuple[tuple[str, int], ...] = (
    ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
    ("grpc.max_send_message_length", MESSAGE_BYTES_MAX),
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.http2.max_pings_without_data", 0),
    # A restarted service is found again within this time instead of gRPC's two minutes.
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.min_reconnect_backoff_ms", 50),
    ("grpc.max_reconnect_backoff_ms", 500),
    ("grpc.enable_http_proxy", 0),
)
"""Options of every channel, the gateway's asynchronous ones included."""


def open_channel(address: str) -> grpc.Channel:
    """Open a channel that connects on first use.

    Args:
        address: `unix:/path/to.sock` or `host:port`. Plain text: processes of one suite share a machine or a
            network that encrypts for them.

    Returns:
        A channel with 64 MiB message limits, keepalive and quick reconnection. The caller closes it.
    """
    return grpc.insecure_channel(address, options=CHANNEL_OPTIONS)
