"""How the processes of a suite reach each other: the one place that binds gRPC servers and opens channels.

Whatever holds for every connection stands here: limits, keepalive, reconnection, interceptors.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent import futures
from dataclasses import dataclass
from typing import Any, Final

import grpc
import grpc.aio

from services.runtime.start_failure import CannotStart

MESSAGE_BYTES_MAX: Final = 64 * 1024 * 1024
"""Greatest size of one message in either direction; gRPC's own default of 4 MiB is below documented answers."""

_MESSAGE_LIMITS: Final = (
    ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
    ("grpc.max_send_message_length", MESSAGE_BYTES_MAX),
)
_CHANNEL_OPTIONS: Final[tuple[tuple[str, int], ...]] = (
    *_MESSAGE_LIMITS,
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.http2.max_pings_without_data", 0),
    # A restarted service is found again within this time instead of gRPC's two minutes.
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.min_reconnect_backoff_ms", 50),
    ("grpc.max_reconnect_backoff_ms", 500),
    ("grpc.enable_http_proxy", 0),
)
_SERVER_OPTIONS: Final[tuple[tuple[str, int], ...]] = (
    *_MESSAGE_LIMITS,
    # Two servers on one port would share its calls without either noticing.
    ("grpc.so_reuseport", 0),
    ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
)


@dataclass(frozen=True, slots=True)
class Transport:
    """The connections of one process, all alike. Immutable and safe to share between threads.

    Plain text: processes of one suite share a machine or a network that encrypts for them.

    Attributes:
        server_interceptors: Around every call that this process serves, the outermost first.
        channel_interceptors: Around every call that it makes.
        async_channel_interceptors: The same for calls made inside an event loop.
    """

    server_interceptors: Sequence[grpc.ServerInterceptor] = ()
    channel_interceptors: Sequence[Any] = ()
    async_channel_interceptors: Sequence[grpc.aio.ClientInterceptor] = ()

    def make_server(self, thread_count: int) -> grpc.Server:
        """Return a server that is neither bound nor started.

        Args:
            thread_count: Calls that run at once; more wait.
        """
        return grpc.server(
            futures.ThreadPoolExecutor(thread_count, thread_name_prefix="rpc"),
            interceptors=list(self.server_interceptors),
            options=_SERVER_OPTIONS,
        )

    def bind(self, server: grpc.Server, listen: str) -> int:
        """Bind a server to an address.

        Args:
            server: Not yet started.
            listen: `unix:/path.sock`, made with mode 0600, or `host:port`; port 0 picks a free one.

        Returns:
            The bound TCP port, or 1 for a Unix socket.

        Raises:
            CannotStart: The address cannot be bound.
        """
        previous_mask = os.umask(0o077)
        try:
            return server.add_insecure_port(listen)
        except RuntimeError as error:
            raise CannotStart(f"cannot listen on {listen}: {error}") from error
        finally:
            os.umask(previous_mask)

    def open_channel(self, address: str) -> grpc.Channel:
        """Open a channel that connects on first use.

        Args:
            address: `unix:/path/to.sock` or `host:port`.

        Returns:
            A channel with 64 MiB message limits, keepalive and quick reconnection. The caller closes it.
        """
        return grpc.intercept_channel(
            grpc.insecure_channel(address, options=_CHANNEL_OPTIONS), *self.channel_interceptors
        )

    def open_async_channel(self, address: str) -> grpc.aio.Channel:
        """Open a channel of the running event loop; see `open_channel`."""
        return grpc.aio.insecure_channel(
            address, options=_CHANNEL_OPTIONS, interceptors=list(self.async_channel_interceptors)
        )


PLAIN: Final = Transport()
"""For commands and tests that are no process of a suite."""
