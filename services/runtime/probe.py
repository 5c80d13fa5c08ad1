"""Ask a process for its health: `python -m services.runtime.probe 127.0.0.1:7480`, for hosts whose probes are commands.

Kubernetes asks by itself. `http://HOST:PORT/PATH` asks the edge, whose word is the status 200.
"""

from __future__ import annotations

import argparse
import http.client
import sys
import urllib.request
from typing import Any, cast

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from services.runtime.transport import PLAIN

_HTTP_PREFIX = "http://"


def is_serving(address: str, name: str, timeout_s: float) -> bool:
    """Return whether a process says that it serves.

    Args:
        address: `host:port` of its health service, or an `http://` URL.
        name: What is asked for, see `health_names`; of no meaning to a URL.
        timeout_s: How long an answer is waited for.
    """
    return _is_ok(address, timeout_s) if address.startswith(_HTTP_PREFIX) else _is_healthy(address, name, timeout_s)


def _is_healthy(address: str, name: str, timeout_s: float) -> bool:
    with PLAIN.open_channel(address, "") as channel:
        # The published types of this stub do not declare its methods.
        check = cast(Any, health_pb2_grpc.HealthStub(channel)).Check
        try:
            response = check(health_pb2.HealthCheckRequest(service=name), timeout=timeout_s, wait_for_ready=True)
        except grpc.RpcError:
            return False
        return bool(response.status == health_pb2.HealthCheckResponse.SERVING)


def _is_ok(url: str, timeout_s: float) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=timeout_s) as response:  # noqa: S310 - http:// and nothing else
            return bool(response.status == http.HTTPStatus.OK)
    except (OSError, http.client.HTTPException):
        return False


def main(arguments: list[str] | None = None) -> int:
    """Return 0 when the process serves, else 1."""
    parser = argparse.ArgumentParser(
        prog="python -m services.runtime.probe", description="Ask a process for its health."
    )
    parser.add_argument("address", help="HOST:PORT of the health service, or http://HOST:PORT/PATH")
    parser.add_argument("--name", default="", help='"liveness", "calls", or, as it stands, readiness')
    parser.add_argument("--timeout-s", type=float, default=2.0, help="how long an answer is waited for")
    flags = parser.parse_args(arguments)
    return 0 if is_serving(flags.address, flags.name, flags.timeout_s) else 1


if __name__ == "__main__":
    sys.exit(main())
