"""What a workspace retains, as its company's administrators see it: views, filters, verdicts, bounds and counters."""

from __future__ import annotations

import pytest

from services.domain import keys
from services.domain.eligibility import DependencyWork
from services.domain.errors import RecordNotFound
from services.memory.commands import DeleteRecord, DeriveRecord, ReviewRecord, UpdateRecord
from services.memory.query_company_records import InventoryPage
from services.memory.read_company_record import read_company_record
from services.memory.record_filter import RecordFilter
from services.memory.retained_record import RetainedRecord
from tests.harness.memory_world import START_MS, MemoryWorld, derivation, record_input
from tests.harness.supervisor import Supervisor

ABSENT = "00000000-0000-4000-8000-00000000dead"


@pytest.fixture
def admin(world: MemoryWorld) -> Supervisor:
    """The administrator of the company."""
    return Supervisor(world)


def read(admin: Supervisor, record_id: str) -> RetainedRecord:
    return admin.visit(lambda visit: read_company_record(visit.partition, record_id))[1]


def ids(page: InventoryPage) -> list[str]:
    return [entry.stored.state.record_id for entry in page.entries]


def verdicts(world: MemoryWorld) -> dict[str, str | None]:
    """One record for each verdict that a single workspace can show, and the reason of each; None when served."""
    served, deleted, rejected, source = (world.create() for _ in range(4))
    expired = world.create(valid_until_millis=START_MS)
    derived = world.execute(DeriveRecord(record_input(), derivation(source)))["record_id"]
    sound = world.execute(DeriveRecord(record_input(), derivation(served)))["record_id"]
    world.execute(DeleteRecord(deleted.record_id, 1))
    world.execute(ReviewRecord(rejected.record_id, 1, "rejected", "ref"))
    world.execute(UpdateRecord(source.record_id, 1, record_input("changed")))
    return {
        served.record_id: None,
        deleted.record_id: "deleted",
        rejected.record_id: "rejected",
        expired.record_id: "expired",
        source.record_id: None,
        derived: "source_revision_changed",
        sound: None,
    }


def reason(entry: RetainedRecord) -> str | None:
    failure = entry.eligibility.verdict.failure
    return None if failure is None else failure.reason


def test_retained_shows_everything_with_its_verdict(world: MemoryWorld, admin: Supervisor) -> None:
    """Every record ever made, a tombstone without payload, in order of ids, each with the diagnosis of its own."""
    expected = verdicts(world)
    page = admin.inventory()
    assert {entry.stored.state.record_id: reason(entry) for entry in page.entries} == expected
    assert ids(page) == sorted(expected)
    assert (page.stop_reason, page.next_after, page.evaluated_at_millis) == ("exhausted", None, START_MS)
    tombstones = [entry.stored for entry in page.entries if entry.stored.json["payload"] is None]
    assert [expected[stored.state.record_id] for stored in tombstones] == ["deleted"]
    for entry in page.entries:
        assert read(admin, entry.stored.state.record_id).eligibility.verdict == entry.eligibility.verdict


def test_current_shows_what_is_served(world: MemoryWorld, admin: Supervisor) -> None:
    """The other view leaves out what no reader would get, but counts it."""
    expected = verdicts(world)
    page = admin.inventory(view="current")
    assert ids(page) == sorted(record_id for record_id, cause in expected.items() if cause is None)
    assert page.scanned_records == len(expected)


def test_work_of_entries_adds_up_to_that_of_the_page(world: MemoryWorld, admin: Supervisor) -> None:
    """A source that two records share is counted with the first of them only."""
    source = world.create("source")
    for _ in range(2):
        world.execute(DeriveRecord(record_input("derived"), derivation(source)))
    page = admin.inventory(RecordFilter("derived"))
    size = len(world.rows()[keys.record_key(source.record_id)])
    assert [entry.eligibility.dependency_work for entry in page.entries] == [DependencyWork(1, size), DependencyWork()]
    assert page.dependency_work == DependencyWork(1, size)


@pytest.mark.parametrize("narrowing", [RecordFilter(""), RecordFilter(tag="t"), RecordFilter(None, "Observation")])
def test_a_tombstone_passes_no_content_filter(world: MemoryWorld, admin: Supervisor, narrowing: RecordFilter) -> None:
    """Any content filter, the empty text too, leaves tombstones out; without one they are shown."""
    kept, deleted = world.create(tags=("t",)), world.create(tags=("t",))
    world.execute(DeleteRecord(deleted.record_id, 1))
    assert ids(admin.inventory(narrowing)) == [kept.record_id]
    assert ids(admin.inventory()) == sorted([kept.record_id, deleted.record_id])


def test_filters_hold_together(world: MemoryWorld, admin: Supervisor) -> None:
    """Text, kind and tag must all hold; records that are not served pass like others."""
    both = world.create("Hive", tags=("t",), valid_until_millis=START_MS)
    world.create("hive")
    world.create("other", tags=("t",))
    assert ids(admin.inventory(RecordFilter("HIVE", "Observation", "t"))) == [both.record_id]
    assert ids(admin.inventory(RecordFilter("HIVE", "Decision", "t"))) == []


def test_pages_join(world: MemoryWorld, admin: Supervisor) -> None:
    """Each record once; the continuation is the last one examined, also behind one that was filtered out."""
    made = sorted(world.create().record_id for _ in range(5))
    first = admin.inventory(limit=2)
    assert (ids(first), first.stop_reason, first.next_after) == (made[:2], "record_limit", made[1])
    second = admin.inventory(limit=5, scan_limit=2, after=first.next_after)
    assert (ids(second), second.stop_reason, second.next_after) == (made[2:4], "scan_limit", made[3])
    last = admin.inventory(limit=1, scan_limit=1, after=second.next_after)
    assert (ids(last), last.stop_reason, last.next_after) == (made[4:], "exhausted", None)
    hidden = admin.inventory(RecordFilter("nowhere"), scan_limit=3)
    assert (hidden.entries, hidden.next_after, hidden.scanned_records) == ((), made[2], 3)


def test_page_defaults(world: MemoryWorld, admin: Supervisor) -> None:
    """25 records, unless asked for otherwise."""
    made = sorted(world.create().record_id for _ in range(26))
    assert ids(admin.inventory()) == made[:25]


def test_page_ends_before_eight_mebibytes(world: MemoryWorld, admin: Supervisor) -> None:
    """The record that would pass 8 MiB is left for the next page."""
    made = sorted(world.create("x" * 1_000_000).record_id for _ in range(10))
    page = admin.inventory()
    assert (ids(page), page.stop_reason, page.next_after) == (made[:8], "byte_limit", made[7])
    assert page.record_bytes == sum(len(world.rows()[keys.record_key(record_id)]) for record_id in made[:8])
    assert ids(admin.inventory(after=page.next_after)) == made[8:]


def test_single_read(world: MemoryWorld, admin: Supervisor) -> None:
    """A tombstone is read like any other record; what never was is 404, and so is a record of another workspace."""
    deleted = world.create()
    world.execute(DeleteRecord(deleted.record_id, 1))
    found = read(admin, deleted.record_id)
    assert (found.stored.json["payload"], found.stored.json["revision"], reason(found)) == (None, 2, "deleted")
    assert found.eligibility.verdict.failure is not None
    assert found.eligibility.verdict.failure.expected_revision is None
    with pytest.raises(RecordNotFound) as refused:
        read(admin, ABSENT)
    assert refused.value.member == "record_id"
