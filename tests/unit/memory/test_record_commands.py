"""Create, update, delete and derive: states, codes and receipts."""

from __future__ import annotations

import pytest

from services.domain import keys, limits
from services.domain.errors import IdempotencyConflict, InvalidRequest, RecordNotFound, RevisionConflict
from services.domain.records import SourceRef
from services.memory.commands import CreateRecord, DeleteRecord, DeriveRecord, ReviewRecord, UpdateRecord
from services.memory.diagnose_eligibility import diagnose_eligibility
from services.memory.get_record import get_record
from tests.harness.memory_world import START_MS, MemoryWorld, derivation, record_input, scope_of

ABSENT = "00000000-0000-4000-8000-00000000dead"


def stored(world: MemoryWorld, record_id: str) -> dict[str, object]:
    found = world.read(lambda partition: partition.stored_record(record_id))
    assert found is not None
    return found.json


def is_served(world: MemoryWorld, record_id: str) -> bool:
    try:
        world.read(lambda partition: get_record(partition, record_id))
    except RecordNotFound:
        return False
    return True


def test_create_receipt_is_the_documented_object(world: MemoryWorld) -> None:
    """A create answers revision 1, the server's clock and the acting credential."""
    receipt = world.execute(CreateRecord(record_input("hello")), "k-1")
    assert receipt == {
        "contract_version": 1,
        "idempotency_key": "k-1",
        "record_id": receipt["record_id"],
        "revision": 1,
        "action": "created",
        "committed_at_millis": START_MS,
        "author": {"credential_id": world.token.credential_id, "subject_id": "svc"},
    }


def test_created_record_has_every_member(world: MemoryWorld) -> None:
    """Unset members are stored as null or empty."""
    record = world.create("hello")
    assert stored(world, record.record_id) == {
        "schema_version": 1,
        "record_id": record.record_id,
        "revision": 1,
        "created_at_millis": START_MS,
        "modified_at_millis": START_MS,
        "author": {"credential_id": world.token.credential_id, "subject_id": "svc"},
        "payload": {
            "episode_type": "Observation",
            "content": {"primary": "hello", "secondary": None, "context": None, "data": None, "embedding": None},
            "event_time_millis": START_MS,
            "valid_until_millis": None,
            "tags": [],
            "metadata": {},
        },
        "review": None,
        "derivation": None,
    }


def test_create_writes_exactly_the_keys_of_the_key_space(world: MemoryWorld) -> None:
    """A first record leaves record, time index, receipt and workspace entry, and nothing else."""
    receipt = world.execute(CreateRecord(record_input()), "k-1")
    record_id = receipt["record_id"]
    expected = {
        keys.record_key(record_id),
        keys.record_time_key(START_MS, record_id),
        keys.receipt_key(b"m", "svc", "k-1"),
        keys.WORKSPACE,
    }
    assert set(world.rows()) == expected


def test_a_record_may_be_expired_from_the_start(world: MemoryWorld) -> None:
    """valid_until_millis in the past is accepted and makes an unserved record."""
    record = world.create(valid_until_millis=START_MS - 1)
    assert not is_served(world, record.record_id)


def test_validity_ends_exactly_at_its_time(world: MemoryWorld) -> None:
    """A record is visible while clock < valid_until_millis."""
    record = world.create(valid_until_millis=START_MS + 10)
    world.clock.ms = START_MS + 9
    assert is_served(world, record.record_id)
    world.clock.ms = START_MS + 10
    assert not is_served(world, record.record_id)


def test_a_record_above_its_bound_is_refused(world: MemoryWorld) -> None:
    """A record of more than 1 MiB is invalid and leaves nothing."""
    before = world.rows()
    with pytest.raises(InvalidRequest):
        world.execute(CreateRecord(record_input("x" * limits.RECORD_VALUE_BYTES_MAX)))
    assert world.rows() == before


def test_update_replaces_the_payload_and_clears_the_review(world: MemoryWorld) -> None:
    """Update: revision + 1, created_at stays, modified_at and author move, review gone."""
    record = world.create("one", tags=("t",))
    world.execute(ReviewRecord(record.record_id, 1, "approved", "ref"))
    other = world.issue(subject="other")
    world.clock.ms += 5
    receipt = world.execute(UpdateRecord(record.record_id, 2, record_input("two")), token=other)
    now = stored(world, record.record_id)
    assert (receipt["action"], receipt["revision"]) == ("updated", 3)
    assert now["payload"] == record_input("two").as_json()
    assert now["review"] is None
    assert (now["created_at_millis"], now["modified_at_millis"]) == (START_MS, START_MS + 5)
    assert now["author"] == {"credential_id": other.credential_id, "subject_id": "other"}


def test_update_renews_an_expired_record(world: MemoryWorld) -> None:
    """An expired record may be updated and is served again."""
    record = world.create(valid_until_millis=START_MS)
    world.execute(UpdateRecord(record.record_id, 1, record_input("fresh")))
    assert is_served(world, record.record_id)


def test_update_lifts_a_rejection(world: MemoryWorld) -> None:
    """A rejected record that is updated is unreviewed and eligible."""
    record = world.create()
    world.execute(ReviewRecord(record.record_id, 1, "rejected", "ref"))
    assert not is_served(world, record.record_id)
    world.execute(UpdateRecord(record.record_id, 2, record_input("better")))
    assert is_served(world, record.record_id)


def test_update_of_a_derived_record_conflicts(world: MemoryWorld) -> None:
    """Derived records never change: 409 revision_conflict."""
    derived = world.execute(DeriveRecord(record_input(), derivation(world.create())))
    with pytest.raises(RevisionConflict):
        world.execute(UpdateRecord(derived["record_id"], 1, record_input("no")))


@pytest.mark.parametrize("command", [UpdateRecord(ABSENT, 1, record_input()), DeleteRecord(ABSENT, 1)])
def test_absent_records_are_not_found(world: MemoryWorld, command: UpdateRecord | DeleteRecord) -> None:
    """Update and delete of an unknown id: 404 record_not_found."""
    with pytest.raises(RecordNotFound):
        world.execute(command)


@pytest.mark.parametrize("expected", [1, 3, 2**64 - 1])
def test_stale_revisions_conflict(world: MemoryWorld, expected: int) -> None:
    """Another expected revision than the current one: 409, whichever side it errs on, and nothing changes."""
    record = world.create()
    world.execute(UpdateRecord(record.record_id, 1, record_input("two")))
    before = world.rows()
    for command in (
        UpdateRecord(record.record_id, expected, record_input("three")),
        DeleteRecord(record.record_id, expected),
        ReviewRecord(record.record_id, expected, "approved", "ref"),
    ):
        with pytest.raises(RevisionConflict) as refused:
            world.execute(command)
        assert refused.value.member == "operation.expected_revision"
    assert world.rows() == before


def test_delete_leaves_a_tombstone(world: MemoryWorld) -> None:
    """Delete: payload null, revision + 1, no review; a second delete, an update and a review are 404."""
    record = world.create()
    receipt = world.execute(DeleteRecord(record.record_id, 1))
    tombstone = stored(world, record.record_id)
    assert (receipt["action"], receipt["revision"]) == ("deleted", 2)
    assert (tombstone["payload"], tombstone["review"], tombstone["revision"]) == (None, None, 2)
    for command in (
        DeleteRecord(record.record_id, 2),
        UpdateRecord(record.record_id, 2, record_input()),
        ReviewRecord(record.record_id, 2, "approved", "ref"),
    ):
        with pytest.raises(RecordNotFound):
            world.execute(command)


def test_another_partition_behaves_as_absent(world: MemoryWorld) -> None:
    """An id from another scope, visibility or subject is unknown."""
    record = world.create()
    for scope in (
        scope_of(mission_id="m"),
        scope_of(visibility="private"),
        scope_of(agent_id="a2"),
        scope_of(project_id="p2"),
    ):
        with pytest.raises(RecordNotFound):
            world.execute(DeleteRecord(record.record_id, 1), scope=scope)
    stranger = world.issue(company="other")
    with pytest.raises(RecordNotFound):
        world.execute(DeleteRecord(record.record_id, 1), token=stranger)
    assert is_served(world, record.record_id)


# Derivation


def test_derive_keeps_its_sources(world: MemoryWorld) -> None:
    """Derive: revision 1, action derived, the derivation immutable on the record."""
    one, two = world.create("one"), world.create("two")
    receipt = world.execute(DeriveRecord(record_input("both"), derivation(one, two)))
    assert (receipt["action"], receipt["revision"]) == ("derived", 1)
    assert stored(world, receipt["record_id"])["derivation"] == derivation(one, two).as_json()
    assert is_served(world, receipt["record_id"])


def test_derive_from_an_absent_source_is_not_found(world: MemoryWorld) -> None:
    """An absent direct source: 404."""
    with pytest.raises(RecordNotFound) as refused:
        world.execute(DeriveRecord(record_input(), derivation(world.create(), SourceRef(ABSENT, 1))))
    assert refused.value.member == "operation.derivation.sources[1].record_id"


def test_derive_from_a_tombstone_is_not_found(world: MemoryWorld) -> None:
    """A source that is a tombstone at the pinned revision: 404; at the revision before: 409."""
    record = world.create()
    world.execute(DeleteRecord(record.record_id, 1))
    with pytest.raises(RecordNotFound):
        world.execute(DeriveRecord(record_input(), derivation(SourceRef(record.record_id, 2))))
    with pytest.raises(RevisionConflict):
        world.execute(DeriveRecord(record_input(), derivation(record)))


def test_derive_from_an_unfit_source_conflicts(world: MemoryWorld) -> None:
    """Another revision, an expired or rejected source, or an ineligible ancestor: 409."""
    stale, rejected, expired, base = (world.create() for _ in range(4))
    world.execute(UpdateRecord(stale.record_id, 1, record_input("two")))
    world.execute(ReviewRecord(rejected.record_id, 1, "rejected", "ref"))
    world.execute(UpdateRecord(expired.record_id, 1, record_input(valid_until_millis=START_MS)))
    middle = world.execute(DeriveRecord(record_input(), derivation(base)))
    world.execute(DeleteRecord(base.record_id, 1))
    for source in (
        stale,
        SourceRef(rejected.record_id, 2),
        SourceRef(expired.record_id, 2),
        SourceRef(middle["record_id"], 1),
    ):
        with pytest.raises(RevisionConflict):
            world.execute(DeriveRecord(record_input(), derivation(source)))


def test_ancestry_is_at_most_eight_deep(world: MemoryWorld) -> None:
    """Eight dependency edges are fine, the ninth is 400."""
    source = world.create()
    for _ in range(8):
        receipt = world.execute(DeriveRecord(record_input(), derivation(source)))
        source = SourceRef(receipt["record_id"], 1)
    with pytest.raises(InvalidRequest):
        world.execute(DeriveRecord(record_input(), derivation(source)))
    verdict = world.read(lambda partition: diagnose_eligibility(partition, source.record_id)).verdict
    assert (verdict.eligible, verdict.max_depth_examined, verdict.dependencies_checked) == (True, 8, 8)


def test_ancestry_has_at_most_64_distinct_sources(world: MemoryWorld) -> None:
    """60 leaves below four sources are 64; one more distinct source is 400, a shared one is not."""
    leaves = [world.create() for _ in range(61)]
    groups = []
    for start in range(0, 60, 15):
        receipt = world.execute(DeriveRecord(record_input(), derivation(*leaves[start : start + 15])))
        groups.append(SourceRef(receipt["record_id"], 1))
    world.execute(DeriveRecord(record_input(), derivation(*groups)))
    world.execute(DeriveRecord(record_input(), derivation(*groups, leaves[0])))
    with pytest.raises(InvalidRequest):
        world.execute(DeriveRecord(record_input(), derivation(*groups, leaves[60])))


def test_a_change_of_a_source_invalidates_what_stands_on_it(world: MemoryWorld) -> None:
    """A source's review, even an approval, advances its revision: every derivation becomes unserved."""
    source = world.create()
    middle = SourceRef(world.execute(DeriveRecord(record_input(), derivation(source)))["record_id"], 1)
    top = world.execute(DeriveRecord(record_input(), derivation(middle)))["record_id"]
    assert is_served(world, top)
    world.execute(ReviewRecord(source.record_id, 1, "approved", "ref"))
    assert not is_served(world, middle.record_id)
    assert not is_served(world, top)


# Idempotency


def test_same_key_and_command_gives_the_original_receipt(world: MemoryWorld) -> None:
    """A replay answers the first receipt, also after update and delete, and writes nothing."""
    command = CreateRecord(record_input("one"))
    receipt = world.execute(command, "k")
    world.execute(UpdateRecord(receipt["record_id"], 1, record_input("two")))
    world.execute(DeleteRecord(receipt["record_id"], 2))
    world.clock.ms += 1000
    before = world.rows()
    assert world.execute(command, "k") == receipt
    assert world.rows() == before


def test_same_key_with_another_command_conflicts(world: MemoryWorld) -> None:
    """Any changed content under a used key: 409 idempotency_conflict, and nothing is written."""
    receipt = world.execute(CreateRecord(record_input("one")), "k")
    before = world.rows()
    for command in (
        CreateRecord(record_input("One")),
        CreateRecord(record_input("one", tags=("t",))),
        DeleteRecord(receipt["record_id"], 1),
        DeriveRecord(record_input("one"), derivation(SourceRef(receipt["record_id"], 1))),
    ):
        with pytest.raises(IdempotencyConflict) as refused:
            world.execute(command, "k")
        assert refused.value.member == "idempotency_key"
    assert world.rows() == before


def test_a_refused_command_does_not_burn_its_key(world: MemoryWorld) -> None:
    """After a conflict, a corrected command under the same key is carried out."""
    record = world.create()
    with pytest.raises(RevisionConflict):
        world.execute(UpdateRecord(record.record_id, 9, record_input("two")), "k")
    assert world.execute(UpdateRecord(record.record_id, 1, record_input("two")), "k")["revision"] == 2


def test_keys_belong_to_partition_and_subject(world: MemoryWorld) -> None:
    """Another credential of the subject replays; another subject, scope or company is independent."""
    command = CreateRecord(record_input())
    receipt = world.execute(command, "k")
    assert world.execute(command, "k", token=world.issue()) == receipt
    others = [
        world.execute(command, "k", token=world.issue(subject="other")),
        world.execute(command, "k", token=world.issue(company="other")),
        world.execute(command, "k", scope=scope_of(mission_id="m")),
    ]
    assert len({receipt["record_id"], *(other["record_id"] for other in others)}) == 4


def test_families_of_commands_have_separate_keys(world: MemoryWorld) -> None:
    """One key serves a memory command and a review side by side."""
    receipt = world.execute(CreateRecord(record_input()), "k")
    review = world.execute(ReviewRecord(receipt["record_id"], 1, "approved", "ref"), "k")
    assert review["revision"] == 2
