"""Who is at the other end of a connection under mutual TLS: the names in a process's certificate.

Each certificate of the suite carries the URI `waggle://service/<name>`, by which servers know their callers, and the
DNS name `waggle-<name>`, by which callers know the server that they have reached.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, cast

import grpc

from services.runtime.status import RpcFailure

_URI_PREFIX: Final = "waggle://service/"
_PEER_URI_KEY: Final = "peer_uri"

CheckPeer = Callable[[grpc.ServicerContext], None]


def service_uri(name: str) -> str:
    """Return the URI in the certificate of a service, such as "storage"."""
    return f"{_URI_PREFIX}{name}"


def server_name(name: str) -> str:
    """Return the DNS name in the certificate of a service."""
    return f"waggle-{name}"


def admit_only(names: Iterable[str]) -> CheckPeer:
    """Return a check that lets through calls of these services and no others.

    Returns:
        A function of the call's context that raises RpcFailure with PERMISSION_DENIED. A connection without a verified
        certificate has no name, so it is refused.
    """
    admitted = frozenset(service_uri(name).encode("ascii") for name in names)

    def check(context: grpc.ServicerContext) -> None:
        # The published type says that values are text; they are lists of bytes.
        uris = cast(Any, context).auth_context().get(_PEER_URI_KEY, ())
        if admitted.isdisjoint(uris):
            raise RpcFailure(grpc.StatusCode.PERMISSION_DENIED, "this service does not serve this peer")

    return check
