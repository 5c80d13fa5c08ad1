"""MemoryService and RelationService on a real socket: shapes, codes, members, slots."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from services.domain.records import SourceRef
from tests.harness.memory_calls import Call, made_by, refusal, whole_store
from tests.harness.memory_messages import (
    SCOPE,
    assertion,
    attach,
    command,
    create,
    get,
    provenance,
    ref,
    relation_command,
    review,
)
from tests.harness.memory_server import MemoryClient, running_memory
from tests.harness.memory_world import START_MS, MemoryWorld
from waggle.common.v1 import embeddings_pb2, records_pb2, relations_pb2
from waggle.memory.v1 import (
    commands_pb2,
    memory_service_pb2,
    reads_pb2,
    relation_service_pb2,
    reviews_pb2,
)

ABSENT = "00000000-0000-4000-8000-00000000dead"


def test_free_form_members_come_back_as_they_were(world: MemoryWorld, client: MemoryClient) -> None:
    """Texts, data, metadata, tags, custom type and anonymous vector survive exactly, 64-bit integers included."""
    content = records_pb2.EpisodeContent(
        primary="",
        secondary="zwei \x01",
        data='{"n":18446744073709551615,"s":"é","l":[1.5,null,true]}',
        embedding=records_pb2.AnonymousVector(values=[1.0, -0.25]),
    )
    wanted = records_pb2.RecordInput(
        episode_type=records_pb2.EpisodeType(custom="note"),
        content=content,
        event_time_millis=-5,
        valid_until_millis=START_MS + 10,
        tags=["b", "a", "b"],
        metadata='{"k":{"z":1,"a":2}}',
    )
    request = command("k", create=commands_pb2.CreateRecord(record=wanted))
    receipt = client.memory.ExecuteCommand(request, metadata=world.authorization()).receipt
    answer = client.memory.GetRecord(get(receipt.record_id), metadata=world.authorization())
    payload = answer.record.payload
    assert payload.content.data == '{"l":[1.5,null,true],"n":18446744073709551615,"s":"é"}'
    assert payload.metadata == '{"k":{"a":2,"z":1}}'
    payload.content.data, payload.metadata = content.data, wanted.metadata
    assert payload == wanted
    assert answer.scope == SCOPE
    assert not answer.record.HasField("review")
    assert not answer.record.HasField("derivation")
    assert answer.record.author.subject_id == "svc"


def test_unset_members_stay_unset(world: MemoryWorld, client: MemoryClient) -> None:
    """Absent optional members are absent in the answer, so that JSON writes null; metadata is an object."""
    at = made_by(world, client, "k")
    content = client.memory.GetRecord(get(at.record_id), metadata=world.authorization()).record.payload.content
    assert [content.HasField(name) for name in ("secondary", "context", "data", "embedding")] == [False] * 4


@pytest.mark.parametrize(
    ("members", "member"),
    [
        ({"metadata": "[1]"}, "operation.record.metadata"),
        ({"metadata": '{"a":NaN}'}, "operation.record.metadata.a"),
        ({"metadata": '{"a":1,"\\u0061":2}'}, "operation.record.metadata.a"),
        ({"event_time_millis": 253_402_300_800_000}, "operation.record.event_time_millis"),
        ({"event_time_millis": None}, "operation.record.event_time_millis"),
        ({"episode_type": None}, "operation.record.episode_type"),
    ],
)
def test_bad_payloads_name_their_member(
    world: MemoryWorld, client: MemoryClient, members: dict[str, Any], member: str
) -> None:
    """400 with the documented path, and nothing changed."""
    before = whole_store(world)
    call = lambda: client.memory.ExecuteCommand(create("k", **members), metadata=world.authorization())  # noqa: E731
    assert refusal(call) == ("invalid_request", member)
    assert whole_store(world) == before


def test_shape_comes_before_authentication(world: MemoryWorld, client: MemoryClient) -> None:
    """A malformed request is 400 without any key; a well-formed one is 401; two keys are 401."""
    bad = create("")
    assert refusal(lambda: client.memory.ExecuteCommand(bad)) == ("invalid_request", "idempotency_key")
    assert refusal(lambda: client.memory.ExecuteCommand(create("k"))) == ("unauthorized", None)
    twice = (*world.authorization(), *world.authorization())
    assert refusal(lambda: client.memory.ExecuteCommand(create("k"), metadata=twice)) == ("unauthorized", None)


@pytest.mark.parametrize(
    ("vector", "expected"),
    [
        ([float("nan"), 1], "refused"),
        ([float("inf"), 0], "refused"),
        ([0, 0], "refused"),
        ([-0.0, 0], "refused"),
        ([1e-46, 0], "refused"),
        ([3.5e38, 0], "refused"),
        ([1], "refused"),
        ([1, 2, 3], "refused"),
        ([], "refused"),
        ([1e-45, 0], "bound"),
        ([1e-30, 1e-30], "bound"),
        ([3e38, 3e38], "bound"),
    ],
)
def test_odd_vectors(world: MemoryWorld, client: MemoryClient, vector: list[float], expected: str) -> None:
    """What is not finite, or zero, as float32 is 400, and so is a wrong length; tiny and huge ones are bound."""
    at = made_by(world, client, "k")
    before = whole_store(world)
    space = embeddings_pb2.EmbeddingSpace(provider="p", model="m", revision="1", dimensions=2)
    request = attach("e", at, vector, space=space)
    if expected == "bound":
        receipt = client.memory.AttachEmbedding(request, metadata=world.authorization()).receipt
        assert (receipt.record_revision, receipt.space) == (1, space)
        return
    reason, member = refusal(lambda: client.memory.AttachEmbedding(request, metadata=world.authorization()))
    assert (reason, (member or "").partition("[")[0]) == ("invalid_request", "vector")
    assert whole_store(world) == before


@pytest.mark.parametrize("dimensions", [0, 9, 32_769])
def test_dimension_limits(world: MemoryWorld, client: MemoryClient, dimensions: int) -> None:
    """Zero, above the operator's ceiling and above the contract's: embedding_dimension_limit, without a key too."""
    space = embeddings_pb2.EmbeddingSpace(provider="p", model="m", revision="1", dimensions=dimensions)
    request = attach("e", SourceRef(ABSENT, 1), [1.0], space=space)
    assert refusal(lambda: client.memory.AttachEmbedding(request)) == (
        "embedding_dimension_limit",
        "space.dimensions",
    )


def test_reviews_over_the_wire(world: MemoryWorld, client: MemoryClient) -> None:
    """Decision, state, past decision and diagnosis answer the documented shapes."""
    metadata = world.authorization()
    at = made_by(world, client, "k")
    receipt = client.memory.ReviewRecord(review("v", at, records_pb2.DISPOSITION_REJECTED), metadata=metadata).receipt
    where = {"contract_version": 1, "scope": SCOPE, "record_id": at.record_id.upper()}
    state = client.memory.GetReviewState(reviews_pb2.GetReviewStateRequest(**where), metadata=metadata).state
    past = client.memory.ReadReview(reviews_pb2.ReadReviewRequest(**where, revision=2), metadata=metadata)
    diagnosis = client.memory.DiagnoseEligibility(reviews_pb2.DiagnoseEligibilityRequest(**where), metadata=metadata)
    found = diagnosis.eligibility
    assert (receipt.revision, len(receipt.receipt_digest)) == (2, 64)
    assert (state.record_id, state.review, state.deleted) == (at.record_id, receipt.review, False)
    assert past.receipt == receipt
    assert (found.eligible, found.first_failure.HasField("expected_revision")) == (False, False)
    assert (found.first_failure.record_id, found.first_failure.actual_revision) == (at.record_id, 2)
    stale = review("other", at)
    assert refusal(lambda: client.memory.ReviewRecord(stale, metadata=metadata)) == (
        "revision_conflict",
        "command.expected_revision",
    )


def test_walks_over_the_wire(world: MemoryWorld, client: MemoryClient) -> None:
    """Query, ordered query and batch echo the scope, count and continue."""
    metadata = world.authorization()
    made = sorted(made_by(world, client, f"k{number}").record_id for number in range(5))
    wanted = reads_pb2.RecordFilter(limit=2)
    query = memory_service_pb2.QueryRecordsRequest(contract_version=1, scope=SCOPE, filter=wanted)
    page = client.memory.QueryRecords(query, metadata=metadata)
    assert page.scope == SCOPE
    assert [found.record_id for found in page.page.records] == made[:2]
    assert (page.page.next_after, page.page.scanned_records) == (made[1], 2)
    ordered = memory_service_pb2.QueryRecordsOrderedRequest(
        contract_version=1, scope=SCOPE, query=reads_pb2.OrderedQuery(limit=2)
    )
    first = client.memory.QueryRecordsOrdered(ordered, metadata=metadata).page
    assert [found.record_id for found in first.records] == made[:-3:-1]
    assert first.stop_reason == reads_pb2.PAGE_STOP_REASON_RECORD_LIMIT
    ordered.query.cursor = first.next_cursor
    ordered.query.limit = 100
    rest = client.memory.QueryRecordsOrdered(ordered, metadata=metadata).page
    assert [found.record_id for found in rest.records] == made[2::-1]
    assert (rest.stop_reason, rest.HasField("next_cursor")) == (reads_pb2.PAGE_STOP_REASON_EXHAUSTED, False)
    ordered.query.cursor = first.next_cursor.upper()
    assert refusal(lambda: client.memory.QueryRecordsOrdered(ordered, metadata=metadata)) == (
        "invalid_request",
        "query.cursor",
    )
    batch = memory_service_pb2.BatchReadRecordsRequest(contract_version=1, scope=SCOPE, record_ids=[ABSENT, made[0]])
    entries = client.memory.BatchReadRecords(batch, metadata=metadata).batch.entries
    assert [entry.HasField("record") for entry in entries] == [False, True]


def test_spellings_of_one_uuid_are_duplicates(world: MemoryWorld, client: MemoryClient) -> None:
    """A batch that names one record twice, once in capitals, is 400."""
    at = made_by(world, client, "k")
    batch = memory_service_pb2.BatchReadRecordsRequest(
        contract_version=1, scope=SCOPE, record_ids=[at.record_id, at.record_id.upper()]
    )
    call = lambda: client.memory.BatchReadRecords(batch, metadata=world.authorization())  # noqa: E731
    assert refusal(call) == ("invalid_request", "record_ids[1]")


def test_relations_over_the_wire(world: MemoryWorld, client: MemoryClient) -> None:
    """Assert, read, retire, inspect and revision answer the documented shapes."""
    metadata = world.authorization()
    source, target = made_by(world, client, "a"), made_by(world, client, "b")
    evidence = made_by(world, client, "c")
    request = assertion("x", source, target, evidence_sources=[ref(evidence)])
    receipt = client.relations.ExecuteRelationCommand(request, metadata=metadata).receipt
    where = {"contract_version": 1, "scope": SCOPE, "relation_id": receipt.relation_id}
    read = relation_service_pb2.ReadRelationRequest(**where)
    relation = client.relations.ReadRelation(read, metadata=metadata).relation
    assert relation.input == request.operation.assert_relation.relation
    assert (relation.state, relation.HasField("review")) == (relations_pb2.RELATION_STATE_ACTIVE, False)
    retire = relation_service_pb2.RetireRelation(
        relation_id=receipt.relation_id, expected_revision=1, evidence_ref="ref"
    )
    client.relations.ExecuteRelationCommand(relation_command("y", retire=retire), metadata=metadata)
    assert refusal(lambda: client.relations.ReadRelation(read, metadata=metadata))[0] == "record_not_found"
    inspect = relation_service_pb2.InspectRelationRequest(**where)
    inspection = client.relations.InspectRelation(inspect, metadata=metadata).inspection
    assert inspection.eligibility.reason == relation_service_pb2.RELATION_ELIGIBILITY_REASON_RETIRED
    assert not inspection.eligibility.HasField("endpoint")
    revision = relation_service_pb2.ReadRelationRevisionRequest(**where, revision=1)
    history = client.relations.ReadRelationRevision(revision, metadata=metadata).history
    assert (history.relation, history.receipt) == (relation, receipt)


@pytest.mark.parametrize(
    ("change", "member"),
    [
        ({"same": True}, "operation.relation.target.record_id"),
        (
            {"provenance": provenance(origin=relations_pb2.RELATION_ORIGIN_MODEL_INFERENCE)},
            "operation.relation.provenance.model",
        ),
        ({"valid_from_millis": 5, "valid_until_millis": 5}, "operation.relation.valid_until_millis"),
        ({"kind": 0}, "operation.relation.kind"),
        ({"evidence_sources": "source"}, "operation.relation.evidence_sources[0].record_id"),
        ({"evidence_sources": "twice"}, "operation.relation.evidence_sources[1]"),
    ],
)
def test_malformed_assertions(world: MemoryWorld, client: MemoryClient, change: dict[str, Any], member: str) -> None:
    """Self-relation, missing model, empty interval, no kind, evidence that repeats: 400 with the member."""
    source, target = SourceRef(ABSENT, 1), SourceRef(ABSENT.replace("dead", "beef"), 1)
    members = dict(change)
    if members.pop("same", False):
        target = SourceRef(source.record_id.upper(), 2)
    if members.get("evidence_sources") == "source":
        members["evidence_sources"] = [ref(source)]
    elif members.get("evidence_sources") == "twice":
        other = ref(SourceRef(ABSENT.replace("dead", "cafe"), 1))
        members["evidence_sources"] = [other, other]
    request = assertion("x", source, target, **members)
    call = lambda: client.relations.ExecuteRelationCommand(request, metadata=world.authorization())  # noqa: E731
    assert refusal(call) == ("invalid_request", member)


def test_busy_slots_refuse_only_what_takes_one(world: MemoryWorld, client: MemoryClient) -> None:
    """With no free slot, relations, batch and ordered reads are 503; all else goes on; a free slot ends it."""
    metadata, at = world.authorization(), made_by(world, client, "k")
    held = threading.Thread(target=lambda: [_take(world) for _ in range(world.slots.slot_count)])
    held.start()
    held.join()
    batch = memory_service_pb2.BatchReadRecordsRequest(contract_version=1, scope=SCOPE, record_ids=[at.record_id])
    ordered = memory_service_pb2.QueryRecordsOrderedRequest(
        contract_version=1, scope=SCOPE, query=reads_pb2.OrderedQuery()
    )
    calls: list[Call] = [
        lambda: client.memory.BatchReadRecords(batch, metadata=metadata),
        lambda: client.memory.QueryRecordsOrdered(ordered, metadata=metadata),
        lambda: client.relations.ExecuteRelationCommand(assertion("x", at, SourceRef(ABSENT, 1)), metadata=metadata),
    ]
    assert [refusal(call)[0] for call in calls] == ["retrieval_busy"] * 3
    assert refusal(lambda: client.memory.BatchReadRecords(batch))[0] == "unauthorized"
    client.memory.ExecuteCommand(create("more"), metadata=metadata)
    client.memory.GetRecord(get(at.record_id), metadata=metadata)
    client.memory.AttachEmbedding(attach("e", at), metadata=metadata)
    for _ in range(world.slots.slot_count):
        world.slots.give_back()
    assert len(calls[0]().batch.entries) == 1


def _take(world: MemoryWorld) -> None:
    thread = threading.Thread(target=world.slots.admit)
    thread.start()
    thread.join()


def test_one_slot_serves_calls_in_a_row(tmp_path: Path) -> None:
    """The slot is free before the answer arrives, so that a lone caller never meets its own."""
    world = MemoryWorld(slot_count=1)
    try:
        with running_memory(world, tmp_path) as client:
            metadata, at = world.authorization(), made_by(world, client, "k")
            batch = memory_service_pb2.BatchReadRecordsRequest(
                contract_version=1, scope=SCOPE, record_ids=[at.record_id]
            )
            found = [client.memory.BatchReadRecords(batch, metadata=metadata).batch for _ in range(200)]
            assert {len(answer.entries) for answer in found} == {1}
            read = relation_service_pb2.ReadRelationRequest(contract_version=1, scope=SCOPE, relation_id=ABSENT)
            for _ in range(50):
                call = lambda: client.relations.ReadRelation(read, metadata=metadata)  # noqa: E731
                assert refusal(call)[0] == "record_not_found"
    finally:
        world.close()
