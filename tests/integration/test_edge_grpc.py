"""gRPC, gRPC-Web and the transcoder through the deployed edge, to a whole suite: what arrives, what is out of reach."""

from __future__ import annotations

import base64
import json
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest

from services.runtime.server import THREAD_COUNT
from services.runtime.status import error_info
from services.runtime.transport import REQUEST_BYTES_MAX
from tests.harness.edge import Edge, running_edge, suit_tests
from tests.harness.memory_messages import SCOPE, SPACE, import_create, import_requests
from tests.harness.silent_streams import silent_streams
from tests.harness.suite import Suite
from waggle.identity.v1 import credentials_pb2, identity_service_pb2, identity_service_pb2_grpc
from waggle.memory.v1 import import_service_pb2_grpc
from waggle.retrieval.v1 import retrieval_service_pb2, retrieval_service_pb2_grpc, searches_pb2

TIMEOUT_S = 30.0
IDENTITY = "/waggle.identity.v1.IdentityService/GetIdentity"
TRAILER_FLAG = 0x80


def open_channel(edge: Edge) -> grpc.Channel:
    """A channel as a client outside of the cluster has it."""
    credentials = grpc.ssl_channel_credentials(edge.certificate.read_bytes())
    return grpc.secure_channel(f"127.0.0.1:{edge.door.port}", credentials)


@pytest.fixture
def channel(edge: Edge) -> Iterator[grpc.Channel]:
    with open_channel(edge) as opened:
        yield opened


@pytest.fixture
def bearer(plain_suite: Suite) -> tuple[tuple[str, str], ...]:
    """The writer's key as metadata."""
    return (("authorization", f"Bearer {plain_suite.writer_key}"),)


@pytest.fixture
def web(edge: Edge) -> Iterator[httpx.Client]:
    """An HTTP/2 client of the main listener."""
    with httpx.Client(
        base_url=f"https://127.0.0.1:{edge.door.port}", verify=edge.tls("h2"), http2=True, http1=False
    ) as client:
        yield client


@pytest.fixture
def transcoder(edge: Edge, plain_suite: Suite) -> Iterator[httpx.Client]:
    """A client of the transcoder, with the writer's key."""
    with httpx.Client(
        base_url=f"https://127.0.0.1:{edge.ports['transcoder']}",
        verify=edge.tls(),
        headers={"authorization": f"Bearer {plain_suite.writer_key}"},
    ) as client:
        yield client


def refusal(channel: grpc.Channel, method: str, message: bytes = b"") -> grpc.RpcError:
    """The status of a call that must fail."""
    with pytest.raises(grpc.RpcError) as caught:
        channel.unary_unary(method)(message, timeout=TIMEOUT_S)
    return caught.value


def test_every_service_of_clients_answers(channel: grpc.Channel, plain_suite: Suite, bearer: Any) -> None:
    """Each in its own process, with the details of its errors."""
    identity = identity_service_pb2_grpc.IdentityServiceStub(channel)
    answer, call = identity.GetIdentity.with_call(
        identity_service_pb2.GetIdentityRequest(), metadata=bearer, timeout=TIMEOUT_S
    )
    assert "writer" == answer.credential.spec.subject_id
    assert ("cache-control", "no-store") in [tuple(pair) for pair in call.initial_metadata()]
    for service, method in (
        ("identity.v1.IdentityService", "GetIdentity"),
        ("memory.v1.MemoryService", "QueryRecords"),
        ("memory.v1.RelationService", "InspectRelation"),
        ("retrieval.v1.RetrievalService", "SearchLexical"),
        ("consolidation.v1.ConsolidationService", "InspectJob"),
    ):
        found = error_info(refusal(channel, f"/waggle.{service}/{method}"))
        assert found is not None, service
        assert found[0].reason in ("unauthorized", "unsupported_contract_version"), service


@pytest.mark.parametrize(
    "method",
    [
        "/waggle.storage.v1.StorageService/Status",
        "/waggle.storage.v1.StorageService/Read",
        "/waggle.nowhere.v1.NoService/Nothing",
        "/grpc.health.v1.Health/Check",
        "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    ],
)
def test_internal_services_are_as_good_as_none(channel: grpc.Channel, method: str) -> None:
    """Storage cannot be told from a service that does not exist."""
    error = refusal(channel, method)
    assert grpc.StatusCode.UNIMPLEMENTED == error.code()  # type: ignore[attr-defined]
    assert "waggle" not in error.details()  # type: ignore[attr-defined]


@pytest.mark.parametrize("content_type", ["application/json", "application/grpc", "application/grpc-web"])
def test_storage_is_out_of_reach_in_any_dress(web: httpx.Client, edge: Edge, content_type: str) -> None:
    """As JSON, gRPC or gRPC-Web, at the main listener and at the transcoder."""
    path = "/waggle.storage.v1.StorageService/Status"
    headers = {"content-type": content_type}
    with httpx.Client(base_url=f"https://127.0.0.1:{edge.ports['transcoder']}", verify=edge.tls()) as transcoder:
        answers = [client.post(path, content=bytes(5), headers=headers) for client in (web, transcoder)]
    for answer in answers:
        # UNIMPLEMENTED, or the 404 that clients of gRPC-Web read as that.
        assert "12" == answer.headers.get("grpc-status") or 404 == answer.status_code
        assert "no-store" == answer.headers["cache-control"]


def test_a_vector_larger_than_json_bodies_travels(channel: grpc.Channel, bearer: Any) -> None:
    """The limits of JSON bodies are none of gRPC's: 32,768 dimensions in 128 KiB."""
    space = type(SPACE)()
    space.CopyFrom(SPACE)
    space.dimensions = 32_768
    query = searches_pb2.SemanticQuery(space=space, vector=[0.5] * 32_768, limit=1)
    request = retrieval_service_pb2.SearchSemanticRequest(contract_version=1, scope=SCOPE, query=query)
    assert request.ByteSize() > 65_536
    stub = retrieval_service_pb2_grpc.RetrievalServiceStub(channel)
    assert 0 == len(stub.SearchSemantic(request, metadata=bearer, timeout=TIMEOUT_S).page.hits)


def test_an_import_streams_both_ways(channel: grpc.Channel, bearer: Any) -> None:
    """Nothing is held back until the end: a batch is reported before the next one is sent, 5 MB in all."""
    groups = [[import_create(f"edge-{at}-{number}", "x" * 5_000) for number in range(100)] for at in range(10)]
    was_reported = threading.Semaphore(1)

    def requests() -> Iterator[Any]:
        opening, *rest = import_requests(*groups, batch_commands=100)
        yield opening
        for request in rest:
            assert was_reported.acquire(timeout=TIMEOUT_S)
            yield request

    reports = 0
    stub = import_service_pb2_grpc.ImportServiceStub(channel)
    for _report in stub.ImportCommands(requests(), metadata=bearer, timeout=TIMEOUT_S):
        reports += 1
        was_reported.release()
    assert reports >= len(groups)


def test_requests_that_stall_hold_nobody_up(channel: grpc.Channel, bearer: Any) -> None:
    """More of them than a service has threads, begun without a key and never finished."""
    stub = identity_service_pb2_grpc.IdentityServiceStub(channel)
    with silent_streams(channel.stream_unary(IDENTITY).future, 2 * THREAD_COUNT) as begun:
        for _ in range(3):
            stub.GetIdentity(identity_service_pb2.GetIdentityRequest(), metadata=bearer, timeout=TIMEOUT_S)
        assert not any(call.done() for call in begun)


def test_a_request_over_the_limit_is_refused_in_the_form_of_grpc(channel: grpc.Channel) -> None:
    """At the edge, which takes it whole: RESOURCE_EXHAUSTED, as a service would say."""
    error = refusal(channel, IDENTITY, bytes(REQUEST_BYTES_MAX - 4))
    assert grpc.StatusCode.RESOURCE_EXHAUSTED == error.code()  # type: ignore[attr-defined]
    assert "the request is over the limit of the edge" == error.details()  # type: ignore[attr-defined]
    fits = error_info(refusal(channel, IDENTITY, bytes(REQUEST_BYTES_MAX - 5)))
    assert fits is not None
    assert "invalid_request" == fits[0].reason


def test_two_keys_are_none(channel: grpc.Channel, bearer: Any) -> None:
    """Repeated metadata is joined on the way, and a joined key is no key."""
    stub = identity_service_pb2_grpc.IdentityServiceStub(channel)
    with pytest.raises(grpc.RpcError) as caught:
        stub.GetIdentity(identity_service_pb2.GetIdentityRequest(), metadata=bearer * 2, timeout=TIMEOUT_S)
    assert grpc.StatusCode.UNAUTHENTICATED == caught.value.code()  # type: ignore[attr-defined]


def test_without_a_service_grpc_is_told_so_in_its_own_form(tmp_path: Path) -> None:
    """UNAVAILABLE, which clients repeat; no JSON in its message."""
    with running_edge(tmp_path, suit_tests) as alone, open_channel(alone) as channel:
        error = refusal(channel, IDENTITY)
    assert grpc.StatusCode.UNAVAILABLE == error.code()  # type: ignore[attr-defined]
    assert "{" not in error.details()  # type: ignore[attr-defined]


@pytest.mark.parametrize("is_text", [False, True])
def test_grpc_web_is_spoken(web: httpx.Client, plain_suite: Suite, is_text: bool) -> None:
    """Binary and base64: the message, then the trailers as a frame, an error included."""
    content_type = "application/grpc-web-text+proto" if is_text else "application/grpc-web+proto"
    for key, status in ((plain_suite.writer_key, "0"), ("qdb1_none", "16")):
        headers = {"content-type": content_type, "accept": content_type, "authorization": f"Bearer {key}"}
        content = base64.b64encode(bytes(5)) if is_text else bytes(5)
        response = web.post(IDENTITY, content=content, headers=headers)
        assert (200, "no-store") == (response.status_code, response.headers["cache-control"])
        frames = frames_of(unpacked(response.content) if is_text else response.content)
        trailers = frames.get(TRAILER_FLAG, b"").decode()
        assert response.headers.get("grpc-status", "") == status or f"grpc-status:{status}\r\n" in trailers
        if status == "0":
            answer = identity_service_pb2.GetIdentityResponse.FromString(frames[0])
            assert isinstance(answer.credential, credentials_pb2.Credential)
            assert "writer" == answer.credential.spec.subject_id


def unpacked(body: bytes) -> bytes:
    """Base64 in pieces, each with padding of its own."""
    return b"".join(base64.b64decode(piece) for piece in re.findall(rb"[^=]+=*", body))


def frames_of(body: bytes) -> dict[int, bytes]:
    """Flag -> content of the frames of a gRPC-Web body."""
    found = {}
    while body:
        size = int.from_bytes(body[1:5], "big")
        found[body[0]], body = body[5 : 5 + size], body[5 + size :]
    return found


def test_the_transcoder_speaks_standard_json(transcoder: httpx.Client) -> None:
    """Names in camel case, 64-bit integers as strings, enums by their names."""
    response = transcoder.get("/api/v1/identity")
    assert (200, "no-store") == (response.status_code, response.headers["cache-control"])
    credential = response.json()["credential"]
    assert "writer" == credential["spec"]["subjectId"]
    assert "1" == credential["revision"]
    assert "CAPABILITY_MEMORY_READ" in credential["spec"]["capabilities"]


def test_the_transcoder_writes_and_reads(transcoder: httpx.Client) -> None:
    """A command by its annotation, and the record in its path and query."""
    scope = {"projectId": "standard", "agentId": "a", "visibility": "VISIBILITY_SHARED"}
    record = {
        "episodeType": {"standard": "STANDARD_EPISODE_TYPE_OBSERVATION"},
        "content": {"primary": "in standard JSON"},
        "eventTimeMillis": "1700000000000",
    }
    body = {
        "contractVersion": 1,
        "idempotencyKey": "standard-1",
        "scope": scope,
        "operation": {"create": {"record": record}},
    }
    receipt = transcoder.post("/api/v1/memory/commands", json=body).json()["receipt"]
    found = transcoder.get(f"/api/v1/memory/records/{receipt['recordId']}", params={"contractVersion": 1, **scope})
    assert "in standard JSON" == found.json()["record"]["payload"]["content"]["primary"]


def test_errors_of_the_transcoder_are_standard_statuses(transcoder: httpx.Client) -> None:
    """google.rpc.Status with the ErrorInfo of the service, or of Envoy's own making."""
    refused = transcoder.post("/api/v1/memory/query", json={"contractVersion": 2})
    assert (400, "no-store") == (refused.status_code, refused.headers["cache-control"])
    document = refused.json()
    assert (3, "unsupported_contract_version") == (document["code"], document["details"][0]["reason"])
    for response, code in (
        (transcoder.get("/api/v1/nope"), 5),
        (transcoder.get("/api/v1/identity", params={"verbose": 1}), 3),
        (transcoder.post("/api/v1/memory/query", content=b"{"), 3),
    ):
        assert code == json.loads(response.text)["code"], response.text
        assert "no-store" == response.headers["cache-control"]


def test_bodies_of_the_transcoder_are_bounded(transcoder: httpx.Client) -> None:
    """2 MiB, whatever the framing."""
    whole = json.dumps({"contractVersion": 1, "filter": {"textContains": "x" * 2_097_152}}).encode()
    for content in (whole, iter([whole[:1_000_000], whole[1_000_000:]])):
        response = transcoder.post("/api/v1/memory/query", content=content)
        assert (413, 8) == (response.status_code, response.json()["code"])
