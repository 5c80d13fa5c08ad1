"""Reviews of records: decisions, their receipts, state and the diagnosis."""

from __future__ import annotations

import pytest

from services.domain import keys
from services.domain.canonical_json import digest_value, parse_canonical
from services.domain.eligibility import DependencyWork, Failure
from services.domain.errors import IdempotencyConflict, InvalidRequest, RecordNotFound, ReviewNotFound
from services.domain.records import Review, SourceRef
from services.domain.scope import workspace_for
from services.memory.commands import DeleteRecord, DeriveRecord, ReviewRecord, UpdateRecord
from services.memory.diagnose_eligibility import Diagnosis, diagnose_eligibility
from services.memory.get_record import get_record
from services.memory.read_review import read_review
from services.memory.review_state import ReviewState, review_state
from tests.harness.memory_world import SCOPE, START_MS, MemoryWorld, derivation, record_input

ABSENT = "00000000-0000-4000-8000-00000000dead"


def state_of(world: MemoryWorld, record_id: str) -> ReviewState:
    return world.read(lambda partition: review_state(partition, record_id))


def diagnose(world: MemoryWorld, record_id: str) -> Diagnosis:
    return world.read(lambda partition: diagnose_eligibility(partition, record_id))


def test_receipt_is_documented_and_bound_to_its_partition(world: MemoryWorld) -> None:
    """The receipt names the new revision; its digest covers it together with the workspace."""
    record = world.create()
    receipt = world.execute(ReviewRecord(record.record_id, 1, "approved", "ref:1"), "k")
    digest = receipt.pop("receipt_digest")
    author = {"credential_id": world.token.credential_id, "subject_id": "svc"}
    review = {"disposition": "approved", "evidence_ref": "ref:1", "author": author, "reviewed_at_millis": START_MS}
    assert receipt == {
        "contract_version": 1,
        "idempotency_key": "k",
        "record_id": record.record_id,
        "revision": 2,
        "review": review,
    }
    workspace_id = workspace_for("acme", SCOPE, "svc").partition.hex()
    bound = {"receipt": receipt, "workspace_id": workspace_id}
    assert digest == digest_value("waggle.review_receipt.v1", bound)


@pytest.mark.parametrize("disposition", ["approved", "rejected", "unreviewed"])
def test_every_decision_advances_the_revision(world: MemoryWorld, disposition: str) -> None:
    """Each accepted decision, a repeated one too, makes the next revision; content and author stay."""
    record = world.create("text")
    reviewer = world.issue(subject="reviewer")
    for revision in (1, 2):
        world.clock.ms += 1
        world.execute(ReviewRecord(record.record_id, revision, disposition, "ref"), token=reviewer)  # type: ignore[arg-type]
    stored = world.read(lambda partition: partition.stored_record(record.record_id))
    assert stored is not None
    assert (stored.json["revision"], stored.json["modified_at_millis"]) == (3, START_MS + 2)
    assert stored.json["payload"] == record_input("text").as_json()
    assert stored.json["author"]["subject_id"] == "svc"
    assert stored.json["review"]["author"]["subject_id"] == "reviewer"


def test_only_a_rejection_hides_a_record(world: MemoryWorld) -> None:
    """Rejected is not served; unreviewed afterwards is served again."""
    record = world.create()
    world.execute(ReviewRecord(record.record_id, 1, "rejected", "ref"))
    with pytest.raises(RecordNotFound):
        world.read(lambda partition: get_record(partition, record.record_id))
    world.execute(ReviewRecord(record.record_id, 2, "unreviewed", "ref"))
    assert world.read(lambda partition: get_record(partition, record.record_id)).state.revision == 3


def test_expired_and_derived_records_may_be_reviewed(world: MemoryWorld) -> None:
    """The decision is kept; neither expiry nor broken sources are repaired by an approval."""
    expired = world.create(valid_until_millis=START_MS)
    source = world.create()
    derived = world.execute(DeriveRecord(record_input(), derivation(source)))["record_id"]
    world.execute(DeleteRecord(source.record_id, 1))
    for record_id in (expired.record_id, derived):
        assert world.execute(ReviewRecord(record_id, 1, "approved", "ref"))["revision"] == 2
        with pytest.raises(RecordNotFound):
            world.read(lambda partition, record_id=record_id: get_record(partition, record_id))  # type: ignore[misc]


def test_review_is_refused_for_absent_and_deleted_records(world: MemoryWorld) -> None:
    """404 record_not_found."""
    record = world.create()
    world.execute(DeleteRecord(record.record_id, 1))
    for command in (ReviewRecord(ABSENT, 1, "approved", "ref"), ReviewRecord(record.record_id, 2, "approved", "ref")):
        with pytest.raises(RecordNotFound):
            world.execute(command)


def test_changed_command_under_a_used_key_conflicts(world: MemoryWorld) -> None:
    """Another evidence reference under the key: 409 idempotency_conflict; the same command: the first receipt."""
    record = world.create()
    command = ReviewRecord(record.record_id, 1, "approved", "ref")
    receipt = world.execute(command, "k")
    with pytest.raises(IdempotencyConflict):
        world.execute(ReviewRecord(record.record_id, 1, "approved", "other"), "k")
    assert world.execute(command, "k") == receipt


def test_old_decisions_stay_readable_by_revision(world: MemoryWorld) -> None:
    """An update clears the current review and keeps the past one; revisions without a decision are 404."""
    record = world.create()
    receipt = world.execute(ReviewRecord(record.record_id, 1, "rejected", "ref"))
    world.execute(UpdateRecord(record.record_id, 2, record_input("two")))
    assert world.read(lambda partition: read_review(partition, record.record_id, 2)) == receipt
    assert parse_canonical(world.rows()[keys.review_key(record.record_id, 2)]) == receipt
    for record_id, revision in ((record.record_id, 1), (record.record_id, 3), (ABSENT, 1)):
        with pytest.raises(ReviewNotFound):
            world.read(lambda partition, at=(record_id, revision): read_review(partition, *at))  # type: ignore[misc]


def test_state_of_living_expired_and_deleted_records(world: MemoryWorld) -> None:
    """The state tells revision, review, deletion and expiry; a tombstone is not expired."""
    record = world.create(valid_until_millis=START_MS + 5)
    world.execute(ReviewRecord(record.record_id, 1, "approved", "ref"))
    review = state_of(world, record.record_id).review
    assert review is not None
    assert state_of(world, record.record_id) == ReviewState(record.record_id, 2, review, deleted=False, expired=False)
    assert isinstance(review, Review)
    world.clock.ms += 5
    assert state_of(world, record.record_id).expired is True
    world.execute(DeleteRecord(record.record_id, 2))
    assert state_of(world, record.record_id) == ReviewState(record.record_id, 3, None, deleted=True, expired=False)
    with pytest.raises(ReviewNotFound):
        state_of(world, ABSENT)


def test_diagnosis_of_an_eligible_derived_record(world: MemoryWorld) -> None:
    """Distinct sources, depth and work of the whole chain are counted; the root is not."""
    base = world.create()
    middle = SourceRef(world.execute(DeriveRecord(record_input(), derivation(base)))["record_id"], 1)
    top = world.execute(DeriveRecord(record_input(), derivation(middle, base)))["record_id"]
    found = diagnose(world, top)
    sizes = [len(world.rows()[keys.record_key(source.record_id)]) for source in (base, middle)]
    verdict = found.verdict
    assert (found.revision, verdict.eligible, verdict.failure) == (1, True, None)
    assert (verdict.dependencies_checked, verdict.max_depth_examined, verdict.all_dependencies_checked) == (2, 2, True)
    assert found.dependency_work == DependencyWork(2, sum(sizes))


@pytest.mark.parametrize("how", ["deleted", "expired", "rejected"])
def test_diagnosis_of_a_root_that_fails_by_itself(world: MemoryWorld, how: str) -> None:
    """The failure names the root with its current revision and no expected one."""
    record = world.create()
    if how == "deleted":
        world.execute(DeleteRecord(record.record_id, 1))
    elif how == "expired":
        world.execute(UpdateRecord(record.record_id, 1, record_input(valid_until_millis=START_MS)))
    else:
        world.execute(ReviewRecord(record.record_id, 1, "rejected", "ref"))
    found = diagnose(world, record.record_id)
    assert found.verdict.failure == Failure(record.record_id, None, 2, how)  # type: ignore[arg-type]
    assert found.dependency_work == DependencyWork(0, 0)


def test_diagnosis_compares_revisions_before_dispositions(world: MemoryWorld) -> None:
    """A source that was rejected later is reported as changed."""
    source = world.create()
    derived = world.execute(DeriveRecord(record_input(), derivation(source)))["record_id"]
    world.execute(ReviewRecord(source.record_id, 1, "rejected", "ref"))
    failure = diagnose(world, derived).verdict.failure
    assert failure == Failure(source.record_id, 1, 2, "source_revision_changed")


def test_diagnosis_of_an_absent_record(world: MemoryWorld) -> None:
    """404 record_not_found."""
    with pytest.raises(RecordNotFound):
        diagnose(world, ABSENT)


def test_dependency_work_is_bounded(world: MemoryWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """More source lookups than allowed: 400, no verdict."""
    sources = [world.create() for _ in range(3)]
    derived = world.execute(DeriveRecord(record_input(), derivation(*sources)))["record_id"]
    monkeypatch.setattr("services.domain.limits.DEPENDENCY_RECORDS_MAX", 2)
    with pytest.raises(InvalidRequest):
        diagnose(world, derived)
