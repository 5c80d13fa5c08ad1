"""A second, plain server in a process, for probes that speak no TLS. It serves `grpc.health.v1` and nothing else.

Names: "" for readiness (`server.Registry.is_in_service`), "liveness", "calls", and those that the process reports.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Final

from grpc_health.v1 import health_pb2_grpc

from services.runtime.health import Check, HealthServicer
from services.runtime.settings import TextVariable, read_settings
from services.runtime.transport import PLAIN

_THREAD_COUNT: Final = 2


@dataclass(frozen=True, slots=True)
class HealthSettings:
    """Where probes are answered.

    Attributes:
        listen: `host:port`; empty for nowhere but on the process's own address.
    """

    listen: Annotated[str, TextVariable("WAGGLE_HEALTH_LISTEN")] = ""


class HealthListener:
    """A started server that answers probes; see the module.

    Args:
        listen: `host:port`; empty to listen nowhere, in which case this does nothing.
        checks: See `HealthServicer`.

    Raises:
        CannotStart: The address cannot be bound.
    """

    def __init__(self, listen: str, checks: Mapping[str, Check]) -> None:
        self._health = HealthServicer(checks)
        self._server = PLAIN.make_server(_THREAD_COUNT)
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        self.port = PLAIN.bind(self._server, listen) if listen else 0
        if listen:
            self._server.start()

    def drain(self) -> None:
        """Answer NOT_SERVING for every name but "liveness"."""
        self._health.drain()

    def close(self) -> None:
        """Stop to answer."""
        self._health.close()
        self._server.stop(None).wait()


def open_health_listener(environment: Mapping[str, str], checks: Mapping[str, Check]) -> HealthListener:
    """Open the listener that the environment asks for; see `HealthListener`.

    Raises:
        CannotStart: WAGGLE_HEALTH_LISTEN cannot be taken.
    """
    return HealthListener(read_settings(HealthSettings, environment).listen, checks)
