"""Asking a process whether it is ready, and whether it lives at all."""

from __future__ import annotations

import http.client
import ssl
from pathlib import Path
from typing import Any, cast

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from services.runtime.channel import open_channel
from services.runtime.health_names import LIVENESS

PROBE_TIMEOUT_S = 1.0
# The gateway waits two seconds for a service that is away, and the edge four for the gateway, before they say so.
_HEALTH_S = 6.0


class GrpcProbe:
    """Asks the standard health service of one address."""

    def __init__(self, address: str) -> None:
        self._channel = open_channel(address)
        # The published types of this stub do not declare its methods.
        self._check = cast(Any, health_pb2_grpc.HealthStub(self._channel)).Check

    def is_ready(self) -> bool:
        """Return whether the process answers SERVING, without waiting for one that is not there."""
        try:
            response = self._check(health_pb2.HealthCheckRequest(), timeout=PROBE_TIMEOUT_S)
        except grpc.RpcError:
            return False
        return bool(response.status == health_pb2.HealthCheckResponse.SERVING)

    def is_answering(self, timeout_s: float) -> bool:
        """Return whether the process answers at all within this time."""
        try:
            self._check(health_pb2.HealthCheckRequest(service=LIVENESS), timeout=timeout_s)
        except grpc.RpcError as error:
            code = cast(grpc.Call, error).code()
            return code not in (grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.UNAVAILABLE)
        except ValueError:
            return False  # the channel was closed meanwhile
        return True

    def close(self) -> None:
        """Close the channel."""
        self._channel.close()


class HttpProbe:
    """Asks `GET /health` of the gateway, or of the edge before it.

    Args:
        host, port: Where it listens.
        certificate: PEM file of the certificate that it must show, when it speaks TLS.
    """

    def __init__(self, host: str, port: int, *, certificate: Path | None = None) -> None:
        # A server that listens on every address is asked on the loopback one.
        self._host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - compared, not bound
        self._port = port
        self._certificate = certificate

    def is_ready(self) -> bool:
        """Return whether it answers that the suite is healthy."""
        status, body = self._ask(PROBE_TIMEOUT_S) or (0, b"")
        return status == 200 and b'"healthy"' in body

    def is_answering(self, timeout_s: float) -> bool:
        """Return whether it answers at all, be it that the suite is not healthy."""
        return self._ask(max(timeout_s, _HEALTH_S)) is not None

    def _ask(self, timeout_s: float) -> tuple[int, bytes] | None:
        try:
            connection = self._connection(timeout_s)
        except (OSError, ValueError):
            return None  # the certificate is not there yet, or is none
        try:
            connection.request("GET", "/health")
            response = connection.getresponse()
            return response.status, response.read()
        except (OSError, ValueError, http.client.HTTPException):
            return None
        finally:
            connection.close()

    def _connection(self, timeout_s: float) -> http.client.HTTPConnection:
        if self._certificate is None:
            return http.client.HTTPConnection(self._host, self._port, timeout=timeout_s)
        context = ssl.create_default_context(cafile=str(self._certificate))
        # This certificate and no other, whoever has signed it and whatever names it has.
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        context.check_hostname = False
        return http.client.HTTPSConnection(self._host, self._port, timeout=timeout_s, context=context)

    def close(self) -> None:
        """Nothing is kept open between questions."""
