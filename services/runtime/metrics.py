"""What a process counts and measures, for Prometheus: the instruments that all processes have, and where they are read.

Instruments that only one service has stand in its `instruments.py`, in the same registry. Labels take few values, all
of them named by this program: never an identifier, a name or a text that a caller chose.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Final

from prometheus_client import GC_COLLECTOR, PROCESS_COLLECTOR, CollectorRegistry, Gauge, Histogram, start_http_server

from services.runtime.http_address import parse_http_address
from services.runtime.settings import TextVariable
from services.runtime.start_failure import CannotStart

METRICS_VARIABLE: Final = "WAGGLE_METRICS_LISTEN"
SECONDS_BUCKETS: Final = (
    0.0005, 0.001, 0.002, 0.003, 0.0045, 0.006, 0.01, 0.015, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
)  # fmt: skip
"""Upper bounds of durations, in seconds; the budgets of the suite are among them."""

REGISTRY: Final = CollectorRegistry(auto_describe=True)
REGISTRY.register(PROCESS_COLLECTOR)
REGISTRY.register(GC_COLLECTOR)

RPC_SECONDS: Final = Histogram(
    "waggle_rpc_seconds",
    "Time from the arrival of a gRPC call to its answer.",
    ("method", "code"),
    buckets=SECONDS_BUCKETS,
    registry=REGISTRY,
)
ADMISSION_SLOTS: Final = Gauge("waggle_admission_slots", "Retrievals that run at once at most.", registry=REGISTRY)
ADMISSION_SLOTS_TAKEN: Final = Gauge("waggle_admission_slots_taken", "Retrievals that run now.", registry=REGISTRY)
BUILD: Final = Gauge(
    "waggle_build", "Always 1; which service and version this is.", ("service", "version"), registry=REGISTRY
)
CERTIFICATE_END: Final = Gauge(
    "waggle_certificate_end_seconds",
    "When the certificate that a process shows ends, in seconds since 1970; only where connections are mutual TLS.",
    ("service",),
    registry=REGISTRY,
)


class CallTimes:
    """Times of the calls of one histogram with two labels; finds the histogram's child without its lock.

    Args:
        histogram: Labelled by method and outcome.
    """

    def __init__(self, histogram: Histogram) -> None:
        self._histogram = histogram
        self._children: dict[tuple[str, ...], Histogram] = {}

    def observe(self, seconds: float, *labels: str) -> None:
        """Count one call.

        Args:
            seconds: How long it took.
            labels: In the histogram's order.
        """
        child = self._children.get(labels)
        if child is None:
            child = self._children[labels] = self._histogram.labels(*labels)
        child.observe(seconds)


@dataclass(frozen=True, slots=True)
class MetricsSettings:
    """Where the metrics of a process are read.

    Attributes:
        listen: HOST:PORT, plain HTTP, any path; empty for nowhere. Port 0 picks a free one.
    """

    listen: Annotated[str, TextVariable(METRICS_VARIABLE)] = ""


@dataclass(frozen=True, slots=True)
class MetricsServer:
    """A running server of metrics.

    Attributes:
        port: The bound one.
        close: Ends it.
    """

    port: int
    close: Callable[[], None]


def serve_metrics(listen: str) -> MetricsServer:
    """Let Prometheus read the registry over HTTP.

    Args:
        listen: HOST:PORT.

    Raises:
        CannotStart: The address is malformed or cannot be bound.
    """
    try:
        host, port = parse_http_address(listen)
        server, thread = start_http_server(port, host, REGISTRY)
    except (OSError, ValueError) as error:
        raise CannotStart(f"cannot serve metrics on {listen}: {error}") from error

    def close() -> None:
        server.shutdown()
        server.server_close()
        thread.join()

    return MetricsServer(server.server_port, close)
