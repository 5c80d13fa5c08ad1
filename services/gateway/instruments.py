"""What the gateway measures."""

from __future__ import annotations

from typing import Final

from prometheus_client import Histogram

from services.runtime.metrics import REGISTRY, SECONDS_BUCKETS, CallTimes

HTTP_SECONDS: Final = Histogram(
    "waggle_http_seconds",
    "Time from the header of an HTTP request to its answer.",
    ("route", "method", "status"),
    buckets=SECONDS_BUCKETS,
    registry=REGISTRY,
)
HTTP_TIMES: Final = CallTimes(HTTP_SECONDS)

_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


def observe_request(seconds: float, *, route: str, method: str, status: int) -> None:
    """Count one request.

    Args:
        seconds: How long it took.
        route: Template of the route, "-" for none.
        method: As the client wrote it; unusual ones are counted together.
        status: 0 when the client had gone.
    """
    HTTP_TIMES.observe(seconds, route, method if method in _METHODS else "other", str(status))
