"""Relations: the state machine, adjacency, history, digests, bounds and eligibility."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from services.domain import keys
from services.domain.canonical_json import canonical_bytes, digest_bytes, digest_value, parse_canonical
from services.domain.eligibility import DependencyWork, Failure
from services.domain.errors import (
    IdempotencyConflict,
    InvalidRequest,
    RecordNotFound,
    RevisionConflict,
    StorageInconsistency,
)
from services.domain.receipts import command_digest
from services.domain.records import SourceRef
from services.domain.relations import Model, Provenance, RelationInput
from services.domain.scope import workspace_for
from services.memory.commands import (
    AssertRelation,
    DeleteRecord,
    DeriveRecord,
    RestoreRelation,
    RetireRelation,
    ReviewRecord,
    ReviewRelation,
    UpdateRecord,
)
from services.memory.inspect_relation import Inspection, inspect_relation
from services.memory.read_relation import read_relation
from services.memory.read_relation_revision import read_relation_revision
from tests.harness.memory_world import SCOPE, START_MS, MemoryWorld, derivation, record_input, relation_input

ABSENT = "00000000-0000-4000-8000-00000000dead"


def adjacency(world: MemoryWorld) -> dict[bytes, int]:
    """Entries by endpoint revision and direction, after checking them against the stored counts."""
    rows = world.rows()
    entries: dict[bytes, int] = {}
    for key in rows:
        if key[:1] in (keys.OUTGOING, keys.INCOMING):
            count_kind = keys.OUTGOING_COUNT if key[:1] == keys.OUTGOING else keys.INCOMING_COUNT
            entries[count_kind + key[1:25]] = entries.get(count_kind + key[1:25], 0) + 1
    counts = {
        key: int.from_bytes(value, "big", signed=True)
        for key, value in rows.items()
        if key[:1] in (keys.OUTGOING_COUNT, keys.INCOMING_COUNT)
    }
    assert entries == {key: count for key, count in counts.items() if count}
    return entries


def is_served(world: MemoryWorld, relation_id: str) -> bool:
    try:
        world.read(lambda partition: read_relation(partition, relation_id))
    except RecordNotFound:
        return False
    return True


def inspect(world: MemoryWorld, relation_id: str) -> Inspection:
    return world.read(lambda partition: inspect_relation(partition, relation_id))


@pytest.fixture
def pair(world: MemoryWorld) -> tuple[SourceRef, SourceRef]:
    return world.create("source"), world.create("target", event_time_millis=START_MS + 1)


def asserted(world: MemoryWorld, value: RelationInput) -> str:
    relation_id: str = world.execute(AssertRelation(value))["relation_id"]
    return relation_id


def test_assert_receipt_and_digests(world: MemoryWorld, pair: tuple[SourceRef, SourceRef]) -> None:
    """The receipt names what was done; its three digests are those of relation, command and bound receipt."""
    value = relation_input(*pair)
    receipt = world.execute(AssertRelation(value), "k")
    relation_id = receipt["relation_id"]
    assert receipt == {
        "contract_version": 1,
        "idempotency_key": "k",
        "relation_id": relation_id,
        "revision": 1,
        "action": "asserted",
        "author": {"credential_id": world.token.credential_id, "subject_id": "svc"},
        "committed_at_millis": START_MS,
        "evidence_ref": "ref:1",
        "relation_digest": digest_bytes("waggle.relation.v1", world.rows()[keys.relation_key(relation_id)]),
        "command_digest": command_digest(b"r", {"type": "assert", "relation": value.as_json()}),
        "receipt_digest": receipt["receipt_digest"],
    }
    rest = {name: member for name, member in receipt.items() if name != "receipt_digest"}
    bound = {"receipt": rest, "workspace_id": workspace_for("acme", SCOPE, "svc").partition.hex()}
    assert receipt["receipt_digest"] == digest_value("waggle.relation_receipt.v1", bound)


def test_assert_stores_relation_history_and_both_directions(
    world: MemoryWorld, pair: tuple[SourceRef, SourceRef]
) -> None:
    """One assert writes the relation, its history and one entry at each exact endpoint revision."""
    receipt = world.execute(AssertRelation(relation_input(*pair)))
    relation_id, rows = receipt["relation_id"], world.rows()
    stored = parse_canonical(rows[keys.relation_key(relation_id)])
    assert stored == {
        "schema_version": 1,
        "relation_id": relation_id,
        "revision": 1,
        "input": relation_input(*pair).as_json(),
        "reported_by": receipt["author"],
        "created_at_millis": START_MS,
        "modified_at_millis": START_MS,
        "state": "active",
        "review": None,
    }
    history = canonical_bytes({"relation": stored, "receipt": receipt})
    assert rows[keys.relation_history_key(relation_id, 1)] == history
    for kind, endpoint in ((keys.OUTGOING, pair[0]), (keys.INCOMING, pair[1])):
        assert rows[keys.adjacency_key(kind, endpoint.record_id, endpoint.revision, relation_id)] == b"supports"
    assert sorted(adjacency(world).values()) == [1, 1]


def test_equal_assertions_make_different_relations(world: MemoryWorld, pair: tuple[SourceRef, SourceRef]) -> None:
    """Nothing is deduplicated across keys; the same key replays."""
    first = world.execute(AssertRelation(relation_input(*pair)), "k-1")
    second = world.execute(AssertRelation(relation_input(*pair)), "k-2")
    assert first["relation_id"] != second["relation_id"]
    assert world.execute(AssertRelation(relation_input(*pair)), "k-1") == first
    assert sorted(adjacency(world).values()) == [2, 2]


def test_unfit_endpoints_conflict(world: MemoryWorld) -> None:
    """Absent, stale, deleted, expired, rejected and source-invalid endpoints or evidence: 409, nothing written."""
    fit, fit2, stale, deleted, rejected, source = (world.create() for _ in range(6))
    expired = world.create(valid_until_millis=START_MS)
    derived = SourceRef(world.execute(DeriveRecord(record_input(), derivation(source)))["record_id"], 1)
    world.execute(UpdateRecord(stale.record_id, 1, record_input("two")))
    world.execute(DeleteRecord(deleted.record_id, 1))
    world.execute(ReviewRecord(rejected.record_id, 1, "rejected", "ref"))
    world.execute(UpdateRecord(source.record_id, 1, record_input("two")))
    unfit = (
        SourceRef(ABSENT, 1),
        stale,
        SourceRef(stale.record_id, 3),
        SourceRef(deleted.record_id, 2),
        SourceRef(rejected.record_id, 2),
        expired,
        derived,
    )
    before = world.rows()
    for bad in unfit:
        for value in (
            relation_input(bad, fit),
            relation_input(fit, bad),
            relation_input(fit, fit2, evidence_sources=(bad,)),
        ):
            with pytest.raises(RevisionConflict):
                world.execute(AssertRelation(value))
    assert world.rows() == before


def test_temporal_before_needs_strictly_earlier_events(world: MemoryWorld) -> None:
    """Equal or later event time of the source: 400; strictly earlier: accepted. Other kinds do not care."""
    early, late, late2 = (world.create(event_time_millis=START_MS + at) for at in (0, 1, 1))
    for source, target in ((late, early), (late, late2)):
        with pytest.raises(InvalidRequest) as refused:
            world.execute(AssertRelation(relation_input(source, target, "temporal_before")))
        assert refused.value.member == "operation.relation.kind"
    world.execute(AssertRelation(relation_input(early, late, "temporal_before")))
    world.execute(AssertRelation(relation_input(late, early, "causal_claim")))


@pytest.mark.parametrize("interval", [(None, START_MS - 1), (START_MS + 9, None), (START_MS + 5, START_MS + 9)])
def test_intervals_need_not_hold_now(
    world: MemoryWorld, pair: tuple[SourceRef, SourceRef], interval: tuple[int | None, int | None]
) -> None:
    """Past and future intervals are stored; the relation is only served inside."""
    value = relation_input(*pair, valid_from_millis=interval[0], valid_until_millis=interval[1])
    assert not is_served(world, asserted(world, value))


def test_interval_bounds_are_half_open(world: MemoryWorld, pair: tuple[SourceRef, SourceRef]) -> None:
    """Served exactly while from <= clock < until."""
    value = relation_input(*pair, valid_from_millis=START_MS + 5, valid_until_millis=START_MS + 9)
    relation_id = asserted(world, value)
    reasons = []
    for at in (4, 5, 8, 9):
        world.clock.ms = START_MS + at
        reasons.append(inspect(world, relation_id).verdict.reason)
    assert reasons == ["not_yet_valid", "eligible", "eligible", "expired"]


def test_retire_and_restore(world: MemoryWorld, pair: tuple[SourceRef, SourceRef]) -> None:
    """Each step is one revision with its own receipt; adjacency goes and comes."""
    relation_id = asserted(world, relation_input(*pair))
    retired = world.execute(RetireRelation(relation_id, 1, "why"))
    assert (retired["action"], retired["revision"], retired["evidence_ref"]) == ("retired", 2, "why")
    assert adjacency(world) == {}
    assert not is_served(world, relation_id)
    restored = world.execute(RestoreRelation(relation_id, 2, "again"))
    assert (restored["action"], restored["revision"]) == ("restored", 3)
    assert sorted(adjacency(world).values()) == [1, 1]
    assert is_served(world, relation_id)


def test_wrong_lifecycle_steps_are_invalid(world: MemoryWorld, pair: tuple[SourceRef, SourceRef]) -> None:
    """Retiring a retired relation or restoring an active one: 400; a stale revision comes first: 409."""
    relation_id = asserted(world, relation_input(*pair))
    with pytest.raises(InvalidRequest):
        world.execute(RestoreRelation(relation_id, 1, "ref"))
    with pytest.raises(RevisionConflict):
        world.execute(RestoreRelation(relation_id, 2, "ref"))
    world.execute(RetireRelation(relation_id, 1, "ref"))
    with pytest.raises(InvalidRequest):
        world.execute(RetireRelation(relation_id, 2, "ref"))
    with pytest.raises(RevisionConflict):
        world.execute(RetireRelation(relation_id, 1, "ref"))


@pytest.mark.parametrize("make", [RetireRelation, RestoreRelation])
def test_unknown_relations_are_not_found(world: MemoryWorld, make: Callable[..., RetireRelation]) -> None:
    """404 record_not_found, for reviews as well."""
    for command in (make(ABSENT, 1, "ref"), ReviewRelation(ABSENT, 1, "ref", "approved")):
        with pytest.raises(RecordNotFound):
            world.execute(command)


def test_retire_asks_no_endpoint_and_restore_asks_all(world: MemoryWorld, pair: tuple[SourceRef, SourceRef]) -> None:
    """A relation with a stale endpoint can be retired, and then not restored: 409."""
    evidence = world.create()
    relation_id = asserted(world, relation_input(*pair, evidence_sources=(evidence,)))
    world.execute(UpdateRecord(evidence.record_id, 1, record_input("two")))
    world.execute(RetireRelation(relation_id, 1, "ref"))
    with pytest.raises(RevisionConflict):
        world.execute(RestoreRelation(relation_id, 2, "ref"))


def test_restore_does_not_ask_the_interval(world: MemoryWorld, pair: tuple[SourceRef, SourceRef]) -> None:
    """As with assert, an interval that is over does not prevent it."""
    relation_id = asserted(world, relation_input(*pair, valid_until_millis=START_MS + 1))
    world.execute(RetireRelation(relation_id, 1, "ref"))
    world.clock.ms += 5
    assert world.execute(RestoreRelation(relation_id, 2, "ref"))["revision"] == 3


def test_reviews_move_adjacency_with_what_is_served(world: MemoryWorld, pair: tuple[SourceRef, SourceRef]) -> None:
    """A rejection removes the entries, approval or unreviewed puts them back; the state never changes."""
    relation_id = asserted(world, relation_input(*pair))
    seen = []
    for revision, disposition in enumerate(("approved", "rejected", "rejected", "unreviewed", "rejected"), start=1):
        receipt = world.execute(ReviewRelation(relation_id, revision, "ref", disposition))  # type: ignore[arg-type]
        inspection = inspect(world, relation_id)
        assert (receipt["action"], receipt["revision"]) == ("reviewed", revision + 1)
        assert (inspection.relation.state, inspection.relation.revision) == ("active", revision + 1)
        seen.append((inspection.verdict.reason, sum(adjacency(world).values())))
    gone, there = ("rejected", 0), ("eligible", 2)
    assert seen == [there, gone, gone, there, gone]


def test_restore_keeps_a_rejection_and_approval_keeps_a_retirement(
    world: MemoryWorld, pair: tuple[SourceRef, SourceRef]
) -> None:
    """Restored while rejected: active without adjacency. Approved while retired: retired without adjacency."""
    relation_id = asserted(world, relation_input(*pair))
    world.execute(RetireRelation(relation_id, 1, "ref"))
    world.execute(ReviewRelation(relation_id, 2, "ref", "rejected"))
    world.execute(RestoreRelation(relation_id, 3, "ref"))
    assert (inspect(world, relation_id).verdict.reason, adjacency(world)) == ("rejected", {})
    world.execute(RetireRelation(relation_id, 4, "ref"))
    world.execute(ReviewRelation(relation_id, 5, "ref", "approved"))
    assert (inspect(world, relation_id).verdict.reason, adjacency(world)) == ("retired", {})
    world.execute(RestoreRelation(relation_id, 6, "ref"))
    assert inspect(world, relation_id).verdict.reason == "eligible"
    assert sorted(adjacency(world).values()) == [1, 1]


def test_reported_by_stays_and_the_receipt_names_the_actor(
    world: MemoryWorld, pair: tuple[SourceRef, SourceRef]
) -> None:
    """reported_by and created_at are those of the assert for ever."""
    relation_id = asserted(world, relation_input(*pair))
    other = world.issue(subject="other")
    world.clock.ms += 7
    receipt = world.execute(RetireRelation(relation_id, 1, "ref"), token=other)
    relation = inspect(world, relation_id).relation
    assert receipt["author"]["subject_id"] == "other"
    assert relation.reported_by.subject_id == "svc"
    assert (relation.created_at_millis, relation.modified_at_millis) == (START_MS, START_MS + 7)


def test_history_keeps_every_revision(world: MemoryWorld, pair: tuple[SourceRef, SourceRef]) -> None:
    """Each revision reads back as it was, with the receipt of its command; others are 404."""
    receipts = [world.execute(AssertRelation(relation_input(*pair)))]
    relation_id = receipts[0]["relation_id"]
    receipts.append(world.execute(RetireRelation(relation_id, 1, "ref")))
    receipts.append(world.execute(ReviewRelation(relation_id, 2, "ref", "rejected")))
    world.execute(DeleteRecord(pair[0].record_id, 1))
    states = []
    for revision, receipt in enumerate(receipts, start=1):
        relation, kept = world.read(
            lambda partition, revision=revision: read_relation_revision(partition, relation_id, revision)  # type: ignore[misc]
        )
        assert kept == receipt
        assert digest_bytes("waggle.relation.v1", relation.encode()) == receipt["relation_digest"]
        states.append((relation.revision, relation.state, relation.is_rejected))
    assert states == [(1, "active", False), (2, "retired", False), (3, "retired", True)]
    for missing_id, revision in ((relation_id, 4), (ABSENT, 1)):
        with pytest.raises(RecordNotFound):
            world.read(lambda partition, at=(missing_id, revision): read_relation_revision(partition, *at))  # type: ignore[misc]


def test_replay_survives_later_steps_and_changed_commands_conflict(
    world: MemoryWorld, pair: tuple[SourceRef, SourceRef]
) -> None:
    """The original receipt comes back after later changes; other content under the key is 409."""
    relation_id = asserted(world, relation_input(*pair))
    retire = RetireRelation(relation_id, 1, "ref")
    receipt = world.execute(retire, "k")
    world.execute(RestoreRelation(relation_id, 2, "ref"))
    assert world.execute(retire, "k") == receipt
    with pytest.raises(IdempotencyConflict):
        world.execute(RetireRelation(relation_id, 3, "ref"), "k")


def test_evidence_failures_are_told_only_by_inspection(world: MemoryWorld, pair: tuple[SourceRef, SourceRef]) -> None:
    """evidence_unavailable carries the failure and no endpoint; the read is a plain 404."""
    evidence = world.create()
    relation_id = asserted(world, relation_input(*pair, evidence_sources=(evidence,)))
    size = len(world.rows()[keys.record_key(evidence.record_id)])
    assert inspect(world, relation_id).dependency_work == DependencyWork(1, size)
    world.execute(UpdateRecord(evidence.record_id, 1, record_input("two")))
    verdict = inspect(world, relation_id).verdict
    assert (verdict.reason, verdict.endpoint) == ("evidence_unavailable", None)
    assert verdict.evidence_failure == Failure(evidence.record_id, 1, 2, "source_revision_changed")
    assert not is_served(world, relation_id)


def test_endpoint_failures_name_the_endpoint(world: MemoryWorld, pair: tuple[SourceRef, SourceRef]) -> None:
    """Source before target; unavailable before changed; the endpoint is told as pinned."""
    relation_id = asserted(world, relation_input(*pair))
    source, target = pair
    world.execute(UpdateRecord(target.record_id, 1, record_input("two")))
    found = [inspect(world, relation_id).verdict]
    world.execute(UpdateRecord(source.record_id, 1, record_input("two")))
    found.append(inspect(world, relation_id).verdict)
    world.execute(DeleteRecord(source.record_id, 2))
    found.append(inspect(world, relation_id).verdict)
    world.execute(RetireRelation(relation_id, 1, "ref"))
    found.append(inspect(world, relation_id).verdict)
    assert [(verdict.reason, verdict.endpoint) for verdict in found] == [
        ("endpoint_revision_changed", target),
        ("endpoint_revision_changed", source),
        ("endpoint_unavailable", source),
        ("retired", None),
    ]


def test_evidence_walk_counts_depth_from_each_source(world: MemoryWorld, pair: tuple[SourceRef, SourceRef]) -> None:
    """Evidence with eight derivation edges below it is fine; deeper cannot be derived at all."""
    source = world.create()
    for _ in range(8):
        source = SourceRef(world.execute(DeriveRecord(record_input(), derivation(source)))["record_id"], 1)
    assert is_served(world, asserted(world, relation_input(*pair, evidence_sources=(source,))))


def test_too_much_evidence_is_a_bad_request(world: MemoryWorld, pair: tuple[SourceRef, SourceRef]) -> None:
    """64 records in one combined walk are evidence; one more is 400 as on derive, though each of them is eligible."""
    groups = []
    for _ in range(4):
        leaves = [world.create() for _ in range(15)]
        receipt = world.execute(DeriveRecord(record_input(), derivation(*leaves)))
        groups.append(SourceRef(receipt["record_id"], 1))
    assert is_served(world, asserted(world, relation_input(*pair, evidence_sources=tuple(groups))))
    one_more = world.create()
    before = world.rows()
    with pytest.raises(InvalidRequest) as refused:
        asserted(world, relation_input(*pair, evidence_sources=(*groups, one_more)))
    assert "operation.relation.evidence_sources" == refused.value.member
    assert before == world.rows()


def test_evidence_that_changed_is_a_conflict_whatever_its_size(
    world: MemoryWorld, pair: tuple[SourceRef, SourceRef]
) -> None:
    """What is wrong with the state of a source stays 409."""
    source = world.create()
    world.execute(ReviewRecord(source.record_id, 1, "approved", "ref"))
    with pytest.raises(RevisionConflict) as refused:
        asserted(world, relation_input(*pair, evidence_sources=(source,)))
    assert "operation.relation.evidence_sources" == refused.value.member


def test_relation_values_are_bounded(world: MemoryWorld, pair: tuple[SourceRef, SourceRef]) -> None:
    """A relation or history value of more than 16 KiB is 400 and leaves nothing."""
    quotes = '"' * 2048
    long_name = "\\" * 256
    provenance = Provenance("model_inference", long_name, long_name, quotes, Model(long_name, long_name, long_name))
    evidence = tuple(world.create() for _ in range(16))
    value = RelationInput(*pair, "supports", provenance, evidence_sources=evidence)
    relation_id = asserted(world, value)
    before = world.rows()
    with pytest.raises(InvalidRequest):
        world.execute(ReviewRelation(relation_id, 1, quotes, "approved"), '"' * 256)
    assert world.rows() == before


def test_endpoints_together_are_bounded(
    world: MemoryWorld, pair: tuple[SourceRef, SourceRef], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Endpoint records above the byte bound: 400 on assert and on reads."""
    relation_id = asserted(world, relation_input(*pair))
    monkeypatch.setattr("services.domain.limits.RECORD_BYTES_MAX", 300)
    with pytest.raises(InvalidRequest):
        asserted(world, relation_input(*pair))
    with pytest.raises(InvalidRequest):
        inspect(world, relation_id)


def test_history_under_a_foreign_key_is_noticed(world: MemoryWorld, pair: tuple[SourceRef, SourceRef]) -> None:
    """A history value that belongs to another revision is storage_inconsistency, never an answer."""
    relation_id = asserted(world, relation_input(*pair))
    world.execute(RetireRelation(relation_id, 1, "ref"))
    partition = workspace_for("acme", SCOPE, "svc").partition
    swapped = world.rows()[keys.relation_history_key(relation_id, 1)]
    world.put(partition, keys.relation_history_key(relation_id, 2), swapped)
    with pytest.raises(StorageInconsistency):
        world.read(lambda view: read_relation_revision(view, relation_id, 2))
