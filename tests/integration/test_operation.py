"""What an operator sees of a running suite: metrics as Prometheus reads them, traces as a collector receives them."""

from __future__ import annotations

import socket
import threading
from concurrent import futures
from contextlib import ExitStack
from typing import Any

import grpc
import httpx
import pytest
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc
from prometheus_client.parser import text_string_to_metric_families

from tests.harness import builders
from tests.harness.api import Api
from tests.harness.suite import SERVICES, Suite, running_suite

SECRET_TEXT = "The queen sleeps beneath the third frame."
SPAN_HTTP = "POST /api/v1/memory/search/lexical"
SPAN_SEARCH = "/waggle.retrieval.v1.RetrievalService/SearchLexical"
SPAN_READ = "/waggle.storage.v1.StorageService/Read"


class Collector(trace_service_pb2_grpc.TraceServiceServicer):
    """Keeps the spans that it is sent."""

    def __init__(self) -> None:
        self.requests: list[trace_service_pb2.ExportTraceServiceRequest] = []
        self._lock = threading.Lock()

    def Export(self, request: Any, context: grpc.ServicerContext) -> Any:
        with self._lock:
            self.requests.append(request)
        return trace_service_pb2.ExportTraceServiceResponse()

    def spans(self) -> list[tuple[str, Any]]:
        """Every span with the name of the process that it is from."""
        return [
            (attribute.value.string_value, span)
            for request in self.requests
            for resource in request.resource_spans
            for attribute in resource.resource.attributes
            if attribute.key == "service.name"
            for scope in resource.scope_spans
            for span in scope.spans
        ]


def consecutive_ports(count: int) -> int:
    """The first of so many free ports in a row."""
    while True:
        with ExitStack() as held:
            first: int = held.enter_context(socket.create_server(("127.0.0.1", 0))).getsockname()[1]
            try:
                for port in range(first + 1, first + count):
                    held.enter_context(socket.create_server(("127.0.0.1", port)))
            except (OSError, OverflowError):
                continue
            return first


class Watched:
    """A suite that was used once, with what its operator has seen.

    Attributes:
        samples: Process -> name and labels of a sample -> its value.
    """

    def __init__(self, suite: Suite, first_port: int) -> None:
        self.samples: dict[str, dict[tuple[str, frozenset[tuple[str, str]]], float]] = {}
        self.exposed = ""
        for index, name in enumerate(SERVICES):
            page = httpx.get(f"http://127.0.0.1:{first_port + index}/metrics", trust_env=False)
            assert page.status_code == 200
            self.exposed += page.text
            self.samples[name] = {
                (sample.name, frozenset(sample.labels.items())): sample.value
                for family in text_string_to_metric_families(page.text)
                for sample in family.samples
            }

    def value(self, process: str, name: str, **labels: str) -> float:
        """Value of one sample, 0 when it is not there."""
        return self.samples[process].get((name, frozenset(labels.items())), 0.0)


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> tuple[Watched, Collector, str]:
    """A suite that created a memory, searched it and refused a search; its metrics, its spans and its keys."""
    collector = Collector()
    server = grpc.server(futures.ThreadPoolExecutor(4))
    trace_service_pb2_grpc.add_TraceServiceServicer_to_server(collector, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    first_port = consecutive_ports(len(SERVICES))
    environment = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{port}",
        "WAGGLE_METRICS_LISTEN": f"127.0.0.1:{first_port}",
    }
    with running_suite(tmp_path_factory.mktemp("operation"), environment) as suite:
        with suite.client() as client:
            api = Api(client, builders.scope_json("hive"))
            api.create(SECRET_TEXT)
            query = {"mode": "lexical", "query": {"text": "queen", "limit": 5}}
            assert 1 == len(api.expect("memory/search/lexical", query)["page"]["hits"])
            assert (
                400
                == api.post(
                    "memory/search/lexical", {"mode": "lexical", "query": {"text": "!!!", "limit": 5}}
                ).status_code
            )
            assert 404 == client.request("PROPFIND", "/teapot").status_code
        watched = Watched(suite, first_port)
        key = suite.writer_key
    server.stop(None).wait()
    return watched, collector, key


def test_requests_are_counted_by_route_and_status(seen: tuple[Watched, Collector, str]) -> None:
    """The gateway tells served from refused requests of a route."""
    watched = seen[0]
    route = {"route": "/api/v1/memory/search/lexical", "method": "POST"}
    assert 1 == watched.value("gateway", "waggle_http_seconds_count", status="200", **route)
    assert 1 == watched.value("gateway", "waggle_http_seconds_count", status="400", **route)


def test_a_client_cannot_make_labels(seen: tuple[Watched, Collector, str]) -> None:
    """A path or a method of a client's own never becomes a label: they would fill the memory of Prometheus."""
    watched = seen[0]
    assert 1 == watched.value("gateway", "waggle_http_seconds_count", route="-", method="other", status="404")
    assert "teapot" not in watched.exposed
    assert "PROPFIND" not in watched.exposed


def test_calls_are_counted_by_method_and_code(seen: tuple[Watched, Collector, str]) -> None:
    """Each service tells which of its methods were served and which were refused."""
    watched = seen[0]
    assert 1 == watched.value("retrieval", "waggle_rpc_seconds_count", method=SPAN_SEARCH, code="OK")
    assert 1 == watched.value("retrieval", "waggle_rpc_seconds_count", method=SPAN_SEARCH, code="INVALID_ARGUMENT")
    assert 1 <= watched.value("storage", "waggle_rpc_seconds_count", method=SPAN_READ, code="OK")


def test_the_replica_is_measured(seen: tuple[Watched, Collector, str]) -> None:
    """Partitions, their memory and the time to load them."""
    watched = seen[0]
    assert 1 == watched.value("retrieval", "waggle_replica_partitions")
    assert 0 < watched.value("retrieval", "waggle_replica_bytes")
    assert 1 == watched.value("retrieval", "waggle_replica_load_seconds_count")


def test_slots_are_free_again_after_the_requests(seen: tuple[Watched, Collector, str]) -> None:
    """The slots that are taken are told beside those that there are."""
    watched = seen[0]
    assert (2, 0) == (
        watched.value("retrieval", "waggle_admission_slots"),
        watched.value("retrieval", "waggle_admission_slots_taken"),
    )


def test_every_process_says_what_it_is(seen: tuple[Watched, Collector, str]) -> None:
    """Name and version, and the memory that the process takes."""
    watched = seen[0]
    named = {
        dict(labels)["service"]
        for samples in watched.samples.values()
        for name, labels in samples
        if name == "waggle_build"
    }
    assert set(SERVICES) == named
    assert all(0 < watched.value(name, "process_resident_memory_bytes") for name in SERVICES)


def test_one_trace_leads_from_the_gateway_to_storage(seen: tuple[Watched, Collector, str]) -> None:
    """The spans of one request have one trace, each below the one that caused it."""
    spans = seen[1].spans()
    by_id = {span.span_id: (service, span) for service, span in spans}
    read = next(
        span
        for service, span in spans
        if service == "waggle-storage"
        and span.name.endswith("Read")
        and any(
            by_id[other.span_id][0] == "waggle-gateway" and other.name == SPAN_HTTP and other.trace_id == span.trace_id
            for _, other in spans
        )
    )
    way = []
    found = read.span_id
    while found in by_id:
        service, span = by_id[found]
        way.append(service)
        found = span.parent_span_id
    assert ["waggle-storage", "waggle-retrieval", "waggle-retrieval", "waggle-gateway", "waggle-gateway"] == way


def test_nothing_of_a_message_is_told(seen: tuple[Watched, Collector, str]) -> None:
    """Neither metrics nor traces hold text of a memory, of a query, or a key."""
    watched, collector, key = seen
    told = watched.exposed.encode() + b"".join(request.SerializeToString() for request in collector.requests)
    assert all(text.encode() not in told for text in (SECRET_TEXT, "queen", key, key.split("_", 2)[2]))
