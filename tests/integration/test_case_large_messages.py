"""C11: the largest answers and requests that the contract allows, and what is one byte larger."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import grpc
import httpx
import numpy as np
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from services.runtime.channel import open_channel
from services.runtime.transport import MESSAGE_BYTES_MAX, REQUEST_BYTES_MAX
from tests.harness import builders, verdict
from tests.harness.api import Api
from tests.harness.both_ways import BothWays
from tests.harness.bulk import import_records, import_relations, space_json
from tests.harness.suite import Suite

MIB = 1024 * 1024
PROBE_S = 5.0
"""What a probe of a running suite waits for an answer."""
SERVICES = {
    "storage": "/waggle.storage.v1.StorageService/Read",
    "identity": "/waggle.identity.v1.IdentityService/GetIdentity",
    "memory": "/waggle.memory.v1.MemoryService/QueryRecords",
    "retrieval": "/waggle.retrieval.v1.RetrievalService/SearchLexical",
    "consolidation": "/waggle.consolidation.v1.ConsolidationService/QueryJobs",
}
Json = dict[str, Any]


@pytest.fixture(autouse=True)
def goes_on(suite: Suite, scope: dict[str, Any]) -> Iterator[None]:
    """Afterwards nothing is written by half; an ordinary write and search go on, beside what fills a whole scan."""
    yield
    suite.wait_healthy()
    verdict.check_partition(suite, scope)
    verdict.check_ordinary(suite, {**scope, "agent_id": "beside"})


def empty_record_bytes(suite: Suite, api: Api) -> int:
    """Canonical bytes of a record of these tests without its text."""
    (record_id,) = import_records(suite, api.scope, ["x"], prefix="measure")
    batch = api.expect("memory/records/batch", {"record_ids": [record_id]})["batch"]
    return int(batch["record_bytes"]) - 1


@contextmanager
def probed(suite: Suite) -> Iterator[None]:
    """While the body runs every service and the gateway are asked for their health over and over, and all answer."""
    stop = threading.Event()
    failures: list[str] = []
    answered = 0

    def probe() -> None:
        nonlocal answered
        channels = {name: open_channel(suite.address(name)) for name in SERVICES}
        with httpx.Client(base_url=suite.url, timeout=PROBE_S, trust_env=False) as client:
            while not stop.is_set() or not answered:
                try:
                    assert 200 == client.get("/health").status_code
                    for name, channel in channels.items():
                        request = health_pb2.HealthCheckRequest(service="")
                        answer = health_pb2_grpc.HealthStub(channel).Check(request, timeout=PROBE_S)
                        assert health_pb2.HealthCheckResponse.SERVING == answer.status, name
                    answered += 1
                except Exception as error:  # noqa: BLE001  # told by the test's own thread
                    failures.append(repr(error))
                    break
        for channel in channels.values():
            channel.close()

    thread = threading.Thread(target=probe, name="probe")
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
    assert [] == failures
    assert answered > 0


def test_a_batch_of_all_its_bytes_arrives(suite: Suite, both: BothWays, api: Api) -> None:
    """A hundred records of 8 MiB together come whole, both ways; one byte more and the whole batch is refused."""
    overhead = empty_record_bytes(suite, api)
    whole, rest = divmod(8 * MIB, 100)
    sizes = [whole + (number < rest) - overhead for number in range(100)]
    ids = import_records(suite, api.scope, ["x" * size for size in sizes])
    with probed(suite):
        batch = both.post("memory/records/batch", {"scope": api.scope, "record_ids": ids}).document["batch"]
    assert 8 * MIB == batch["record_bytes"]
    assert sizes == [len(entry["record"]["payload"]["content"]["primary"]) for entry in batch["entries"]]
    (larger,) = import_records(suite, api.scope, ["y" * (sizes[0] + 1)], prefix="larger")
    over = both.post("memory/records/batch", {"scope": api.scope, "record_ids": [larger, *ids[1:]]})
    assert (400, "invalid_request") == over.verdict


def test_a_job_context_of_all_its_bytes_arrives(suite: Suite, both: BothWays, api: Api) -> None:
    """Sixteen sources of 8 MiB together come whole, both ways; a job over one byte more is not created."""
    overhead = empty_record_bytes(suite, api)
    size = 8 * MIB // 16 - overhead
    ids = import_records(suite, api.scope, ["x" * size] * 16 + ["y" * (size + 1)])
    sources = [builders.reference(record_id) for record_id in ids]
    spec = {
        "objective": "o", "policy_ref": "p", "extractor": builders.provenance_json(), "max_relations": 1,
        "max_attempts": 1, "lease_millis": 900_000, "max_attempt_millis": 900_000,
    }  # fmt: skip

    def run(operation: Json) -> Any:
        body = {"scope": api.scope, "idempotency_key": builders.new_key(), "operation": operation}
        return both.post("memory/consolidation/commands", body)

    refused = run({"type": "create", "spec": {**spec, "sources": sources[1:]}})
    assert (400, "invalid_request") == refused.verdict
    job_id = run({"type": "create", "spec": {**spec, "sources": sources[:16]}}).document["receipt"]["job_id"]
    run({"type": "claim", "job_id": job_id, "expected_revision": 1, "worker_id": "w"})
    asked: Json = {"scope": api.scope, "job_id": job_id}
    fence = both.post("memory/consolidation/inspect", asked).document["inspection"]["job"]["attempts"][0]["fence"]
    with probed(suite):
        outcome = both.post("memory/consolidation/context", {**asked, "expected_revision": 2, "fence": fence})
    context = outcome.document["context"]
    assert (8 * MIB, ids[:16]) == (context["record_bytes"], [record["record_id"] for record in context["records"]])


def test_a_graph_of_all_its_bytes_arrives(suite: Suite, both: BothWays, api: Api) -> None:
    """Records of almost 8 MiB and relations of almost 4 MiB in one answer, both ways, from walk and search alike."""
    overhead = empty_record_bytes(suite, api)
    texts = ["alpha " + "x" * (8 * MIB // 256 - overhead - 6)] + ["x" * (8 * MIB // 256 - overhead)] * 255
    origin = {"method": "m" * 256, "method_revision": "r" * 256, "evidence_ref": "e" * 2048}
    links = [(number // 4, number + 1) for number in range(255)] + [(0, 255)]
    links += [(number % 256, (number * 7 + 3) % 256) for number in range(770) if number % 256 != (number * 7 + 3) % 256]
    ids, relation_ids = import_relations(suite, api.scope, texts, links[:1024], **origin)
    limits = {"direction": "both", "max_depth": 8, "node_limit": 256, "edge_limit": 1024, "scan_limit": 4096}
    with probed(suite):
        walk = {"root_record_ids": ids[:1], **limits}
        graph = both.post("memory/graph/typed", {"scope": api.scope, "query": walk}).document["graph"]
        seed = {"mode": "lexical", "text": "alpha"}
        query = {"ranking_version": "typed_path_balanced_v1", "seed": seed, "limit": 100}
        query["expansion"] = {**limits, "embedding_bytes_limit": 1}
        page = both.post("memory/search/graph", {"scope": api.scope, "query": query}).document["page"]
    assert (256, len(relation_ids)) == (len(graph["nodes"]), len(graph["edges"]))
    assert 8 * MIB == graph["coverage"]["record_bytes"] == page["graph_coverage"]["record_bytes"]
    assert 3 * MIB < graph["coverage"]["relation_bytes"] <= 4 * MIB
    assert graph["coverage"]["complete"]
    assert 100 == len(page["hits"])


def test_a_vector_of_all_dimensions_travels_and_is_found(suite: Suite, api: Api) -> None:
    """32,768 numbers in a body of just 2 MiB are bound, found with cosine 1, and nothing of them is lost."""
    random = np.random.default_rng(11)
    vector = [float(number) for number in random.normal(size=32_768).astype(np.float32)]
    record = api.create("bound")
    body = json.dumps(builders.attach_body(api.scope, record["record_id"], vector)).encode()
    assert len(body) < 2 * MIB
    body = body[:-1] + b" " * (2 * MIB - len(body)) + b"}"
    headers = {"content-type": "application/json"}
    with probed(suite):
        attached = api.client.post("/api/v1/memory/embeddings", content=body, headers=headers)
        assert 200 == attached.status_code
        query = {"space": space_json(32_768), "vector": vector, "limit": 1}
        (hit,) = api.expect("memory/search", {"query": query})["page"]["hits"]
    assert abs(1.0 - hit["score"]) < 1e-9
    assert attached.json()["receipt"] == hit["embedding"]


@pytest.mark.parametrize("name", SERVICES)
def test_a_request_over_the_maximum_names_the_size(suite: Suite, scope: Json, name: str) -> None:
    """Over gRPC one byte more is RESOURCE_EXHAUSTED with both sizes; exactly the maximum is read and judged."""
    most = MESSAGE_BYTES_MAX if name == "storage" else REQUEST_BYTES_MAX
    understood = {grpc.StatusCode.OK, grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.UNAUTHENTICATED}
    options = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]
    with grpc.insecure_channel(suite.address(name), options=options) as channel:
        call = channel.unary_unary(SERVICES[name])
        with probed(suite):
            over, details = status_of(call, most + 1)
            assert grpc.StatusCode.RESOURCE_EXHAUSTED == over
            assert str(most + 1) in details
            assert str(most) in details
            at, details = status_of(call, most)
            assert at in understood, details


@pytest.mark.parametrize("name", SERVICES)
def test_packed_requests_are_not_unpacked(suite: Suite, name: str) -> None:
    """A few kilobytes could be many megabytes, and nobody asks for a key before: UNIMPLEMENTED, whatever is in it."""
    with grpc.insecure_channel(suite.address(name)) as channel, probed(suite):
        call = channel.unary_unary(SERVICES[name])
        with pytest.raises(grpc.RpcError) as caught:
            call(unknown_field(MIB), timeout=60.0, compression=grpc.Compression.Gzip)
    assert grpc.StatusCode.UNIMPLEMENTED == caught.value.code()


def status_of(call: Any, size: int) -> tuple[grpc.StatusCode, str]:
    """How a call with a message of this size ends."""
    try:
        call(unknown_field(size), timeout=60.0)
    except grpc.RpcError as error:
        return error.code(), error.details()  # type: ignore[attr-defined]
    return grpc.StatusCode.OK, ""


def unknown_field(size: int) -> bytes:
    """A message of exactly this size: one field of bytes with a number that no message uses."""
    tag, digits = b"\xfa\x7f", 4  # field 2047, length-delimited; the length takes four bytes at this size
    length = size - len(tag) - digits
    varint = bytes(((length >> shift) & 0x7F) | (0x80 if shift < 21 else 0) for shift in (0, 7, 14, 21))
    return tag + varint + bytes(length)


@pytest.mark.deep
def test_a_partition_of_ten_thousand_large_vectors(suite: Suite, api: Api) -> None:
    """10,000 records with 1,536 dimensions reach the replica in pages, while probes and small queries are answered."""
    random = np.random.default_rng(1536)
    vectors = random.normal(size=(10_000, 1_536)).astype(np.float32)
    ids = import_records(suite, api.scope, ["the hive"] * 10_000, vectors=vectors)
    small = Api(api.client, builders.scope_json("beside a large partition"))
    small.create("a small hive")
    stop = threading.Event()
    asked: list[int] = []

    def ask() -> None:
        with suite.client() as client:
            beside = Api(client, small.scope)
            while not stop.is_set():
                asked.append(len(beside.expect("memory/query", {"filter": {"limit": 1}})["page"]["records"]))

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        query = {"space": space_json(1_536), "vector": vectors[7].tolist(), "limit": 1}
        for _ in range(2):
            with probed(suite):
                page = api.expect("memory/search", {"query": query})["page"]
            assert (ids[7], 10_000) == (page["hits"][0]["record"]["record_id"], page["scanned_embeddings"])
            suite.kill("retrieval")
            # Waits for the new process.
            small.expect("memory/search/lexical", {"mode": "lexical", "query": {"text": "hive", "limit": 1}})
    finally:
        stop.set()
        thread.join()
    assert {1} == set(asked)
