"""How the processes of a suite reach each other: the one place that binds gRPC servers and opens channels.

Whatever holds for every connection stands here: limits, keepalive, reconnection, interceptors.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from concurrent import futures
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import grpc
import grpc.aio

from services.runtime.health_names import CALLS
from services.runtime.invariant import invariant
from services.runtime.key_material import KeyMaterial, ReloadedKeyMaterial, read_tls_files
from services.runtime.peer import server_name
from services.runtime.renewed_async_channel import RenewedAsyncChannel
from services.runtime.renewed_channel import RenewedChannel
from services.runtime.start_failure import CannotStart

_UNIX_PREFIX: Final = "unix:"
MESSAGE_BYTES_MAX: Final = 64 * 1024 * 1024
"""Greatest size of one answer, and of a request to storage; gRPC's own default is below documented answers."""
REQUEST_BYTES_MAX: Final = 4 * 1024 * 1024
"""Greatest size of one request to a service of clients, who may send it without a key: twice the largest JSON body."""

CONNECTION_AGE_MS: Final = 300_000
"""After this time, more or less a tenth, a server asks its callers to connect anew, so that they find new processes."""

# Calls are spread over all processes behind an address.
_SPREAD: Final[dict[str, object]] = {"loadBalancingConfig": [{"round_robin": {}}]}
_SERVICE_CONFIG: Final = json.dumps(_SPREAD)
# None is sent to a process that has begun to drain.
_WATCHING_SERVICE_CONFIG: Final = json.dumps({**_SPREAD, "healthCheckConfig": {"serviceName": CALLS}})
_CHANNEL_OPTIONS: Final[tuple[tuple[str, int | str], ...]] = (
    ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
    ("grpc.max_send_message_length", MESSAGE_BYTES_MAX),
    # Only this process says how it calls, never the name service.
    ("grpc.service_config_disable_resolution", 1),
    # A name is looked up again whenever a connection ends, instead of at most every half minute.
    ("grpc.dns_min_time_between_resolutions_ms", 1_000),
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.http2.max_pings_without_data", 0),
    # A restarted service is found again within this time instead of gRPC's two minutes.
    ("grpc.initial_reconnect_backoff_ms", 50),
    # Despite its name, how long one attempt to connect may take; a handshake on a busy machine needs a while.
    ("grpc.min_reconnect_backoff_ms", 5_000),
    ("grpc.max_reconnect_backoff_ms", 500),
    ("grpc.enable_http_proxy", 0),
)
_SERVER_OPTIONS: Final[tuple[tuple[str, int], ...]] = (
    ("grpc.max_send_message_length", MESSAGE_BYTES_MAX),
    # Only plain messages, by the bit of "identity": a few kilobytes of packed zeros are many megabytes.
    ("grpc.compression_enabled_algorithms_bitset", 1),
    # Two servers on one port would share its calls without either noticing.
    ("grpc.so_reuseport", 0),
    ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
)


@dataclass(frozen=True, slots=True)
class Transport:
    """The connections of one process, all alike. Immutable and safe to share between threads.

    Attributes:
        server_interceptors: Around every call that this process serves, the outermost first.
        channel_interceptors: Around every call that it makes.
        async_channel_interceptors: The same for calls made inside an event loop.
        key_material: Both ends show a certificate of the authority under TLS, and this is that of this process. None
            for plain text, where processes share a machine or a network that encrypts for them.
        connection_age_ms: See CONNECTION_AGE_MS. What runs on a connection of that age may take as long as it wants.
    """

    server_interceptors: Sequence[grpc.ServerInterceptor] = ()
    channel_interceptors: Sequence[Any] = ()
    async_channel_interceptors: Sequence[grpc.aio.ClientInterceptor] = ()
    key_material: ReloadedKeyMaterial | None = None
    connection_age_ms: int = CONNECTION_AGE_MS

    def make_server(self, thread_count: int, request_bytes_max: int = REQUEST_BYTES_MAX) -> grpc.Server:
        """Return a server that is neither bound nor started.

        Args:
            thread_count: Calls that run at once; more wait.
            request_bytes_max: Greatest size of one message that it takes.
        """
        return grpc.server(
            futures.ThreadPoolExecutor(thread_count, thread_name_prefix="rpc"),
            interceptors=list(self.server_interceptors),
            options=(
                *_SERVER_OPTIONS,
                ("grpc.max_receive_message_length", request_bytes_max),
                ("grpc.max_connection_age_ms", self.connection_age_ms),
            ),
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
            port = self._add_port(server, listen)
        except RuntimeError as error:
            raise CannotStart(f"cannot listen on {listen}: {error}") from error
        finally:
            os.umask(previous_mask)
        if listen.startswith(_UNIX_PREFIX):
            Path(listen.removeprefix(_UNIX_PREFIX)).chmod(0o600)
        return port

    def _add_port(self, server: grpc.Server, listen: str) -> int:
        if self.key_material is None:
            return server.add_insecure_port(listen)
        return server.add_secure_port(listen, _server_credentials(self.key_material))

    def open_channel(self, address: str, service: str) -> grpc.Channel:
        """Open a channel that connects on first use.

        Args:
            address: `unix:/path/to.sock`, `host:port`, or any other target of gRPC: `dns:///name:port` and
                `ipv4:host:port,host:port` stand for several processes, which are called in turn.
            service: Name of the service there, such as "storage". Under TLS its certificate must say so. Empty in plain
                text for whoever answers, also while it drains: for probes.

        Returns:
            A channel with 64 MiB message limits, keepalive and quick reconnection. The caller closes it.
        """
        if self.key_material is None:
            channel = grpc.insecure_channel(address, options=_options(service))
        else:
            channel = RenewedChannel(
                self.key_material,
                lambda material: grpc.secure_channel(address, _credentials(material), _secure_options(service)),
            )
        return grpc.intercept_channel(channel, *self.channel_interceptors)

    def open_async_channel(self, address: str, service: str) -> grpc.aio.Channel:
        """Open a channel of the running event loop; see `open_channel`."""
        interceptors = list(self.async_channel_interceptors)
        if self.key_material is None:
            return grpc.aio.insecure_channel(address, options=_options(service), interceptors=interceptors)
        return RenewedAsyncChannel(
            self.key_material,
            lambda material: grpc.aio.secure_channel(
                address, _credentials(material), _secure_options(service), interceptors=interceptors
            ),
        )


def read_transport(environment: Mapping[str, str]) -> Transport:
    """Return the transport that the environment asks for: mutual TLS when it names the files, else plain text.

    Raises:
        CannotStart: One of the variables is missing, or the files cannot be used.
    """
    files = read_tls_files(environment)
    return Transport() if files is None else Transport(key_material=ReloadedKeyMaterial(files))


def _options(service: str) -> Sequence[tuple[str, int | str]]:
    return (*_CHANNEL_OPTIONS, ("grpc.service_config", _WATCHING_SERVICE_CONFIG if service else _SERVICE_CONFIG))


def _secure_options(service: str) -> Sequence[tuple[str, int | str]]:
    invariant(service, "under TLS a channel names the service that it leads to")
    return (*_options(service), ("grpc.ssl_target_name_override", server_name(service)))


def _credentials(material: KeyMaterial) -> grpc.ChannelCredentials:
    return grpc.ssl_channel_credentials(material.authority, material.key, material.certificate)


def _server_credentials(key_material: ReloadedKeyMaterial) -> grpc.ServerCredentials:
    """Credentials that ask for the present key material at every handshake."""
    served = key_material.current()

    def fetch() -> Any:
        nonlocal served
        present = key_material.newest()
        if present is served:
            return None  # which means: as before
        served = present
        return _server_configuration(present)

    return grpc.dynamic_ssl_server_credentials(_server_configuration(served), fetch, require_client_authentication=True)


def _server_configuration(material: KeyMaterial) -> grpc.ServerCertificateConfiguration:
    return grpc.ssl_server_certificate_configuration([(material.key, material.certificate)], material.authority)


PLAIN: Final = Transport()
"""For commands and tests that are no process of a suite."""
