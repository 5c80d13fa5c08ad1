"""The walk over a whole company: order across workspaces, selection, cursors, bounds and one budget of work."""

from __future__ import annotations

from typing import Any

import pytest

from services.domain import keys, limits
from services.domain.errors import InvalidRequest, StorageInconsistency
from services.domain.records import SourceRef
from services.domain.scope import Scope, workspace_for
from services.memory.commands import DeleteRecord, DeriveRecord
from services.memory.query_company_records_ordered import CompanyOrderedPage
from services.memory.record_filter import RecordFilter
from services.workspace.company_directory import WorkspaceSelection
from tests.harness.memory_world import SCOPE, MemoryWorld, derivation, record_input, scope_of
from tests.harness.supervisor import Supervisor, create_in, workspace_id

SCOPES = [scope_of(project_id=f"p{number}") for number in range(4)]
ROUNDS = 6


@pytest.fixture
def admin(world: MemoryWorld) -> Supervisor:
    """The administrator of the company."""
    return Supervisor(world)


@pytest.fixture
def made(world: MemoryWorld) -> list[tuple[int, str, str]]:
    """Several records of each workspace at each of several times; time, workspace and id of each, in order."""
    found = []
    for _ in range(ROUNDS):
        found += [(world.clock.ms, workspace_id(scope), create_in(world, scope)) for scope in SCOPES for _ in range(2)]
        world.clock.ms += 1
    create_in(world, SCOPE, token=world.issue(company="rival"))
    return sorted(found)


def places(page: CompanyOrderedPage) -> list[tuple[int, str, str]]:
    """Time, workspace and id of each entry."""
    return [
        (
            entry.retained.stored.json["created_at_millis"],
            entry.workspace.partition.hex(),
            entry.retained.stored.state.record_id,
        )
        for entry in page.entries
    ]


def whole(admin: Supervisor, **members: Any) -> list[tuple[int, str, str]]:
    """Every page until the end, joined."""
    found: list[tuple[int, str, str]] = []
    cursor: str | None = None
    while True:
        page = admin.ordered(cursor=cursor, **members)
        assert page.scanned_records <= members.get("scan_limit", 1000)
        assert (page.next_cursor is None) == (page.stop_reason == "exhausted")
        found += places(page)
        cursor = page.next_cursor
        if cursor is None:
            return found


@pytest.mark.parametrize("bounds", [{}, {"limit": 1}, {"limit": 3}, {"limit": 100, "scan_limit": 5}, {"limit": 16}])
def test_order_is_time_then_workspace_then_record(
    admin: Supervisor, made: list[tuple[int, str, str]], bounds: dict[str, int]
) -> None:
    """Ascending by the whole tuple, or descending, each record once however the pages are cut; no foreign ones."""
    assert whole(admin, order="created_asc", **bounds) == made
    assert whole(admin, order="created_desc", **bounds) == made[::-1]


def test_newest_first_and_forty_are_the_defaults(admin: Supervisor, made: list[tuple[int, str, str]]) -> None:
    """Without any member: descending, 40 records."""
    page = admin.ordered()
    assert (places(page), page.stop_reason) == (made[::-1][:40], "record_limit")


def test_selection_narrows(world: MemoryWorld, admin: Supervisor, made: list[tuple[int, str, str]]) -> None:
    """Only selected workspaces are walked and counted."""
    wanted = workspace_id(SCOPES[2])
    expected = [place for place in made if place[1] == wanted]
    for selection in (WorkspaceSelection(project_id="p2"), WorkspaceSelection(workspace_id=wanted)):
        page = admin.ordered(order="created_asc", selection=selection)
        assert (places(page), page.scanned_records) == (expected, len(expected))
    assert admin.ordered(selection=WorkspaceSelection(project_id="nowhere")).stop_reason == "exhausted"


def test_views_and_tombstones(world: MemoryWorld, admin: Supervisor) -> None:
    """A tombstone is retained, not current, and passes no content filter; it is counted all the same."""
    kept, deleted = world.create(), world.create()
    world.execute(DeleteRecord(deleted.record_id, 1))
    assert len(admin.ordered().entries) == 2
    for page in (admin.ordered(view="current"), admin.ordered(RecordFilter("hello"))):
        assert ([place[2] for place in places(page)], page.scanned_records) == ([kept.record_id], 2)


def test_a_cursor_belongs_to_its_walk(world: MemoryWorld, admin: Supervisor, made: list[tuple[int, str, str]]) -> None:
    """Another selection, view, order, filter, key or company: 400. Other limits: the walk goes on."""
    members: dict[str, Any] = {"order": "created_asc", "view": "current", "limit": 1}
    cursor = admin.ordered(**members).next_cursor
    assert cursor is not None
    assert places(admin.ordered(**(members | {"limit": 2, "scan_limit": 9}), cursor=cursor)) == made[1:3]
    others: list[dict[str, Any]] = [
        {"order": "created_desc"},
        {"view": "retained"},
        {"narrowing": RecordFilter("h")},
        {"selection": WorkspaceSelection(project_id="p0")},
        {"selection": WorkspaceSelection(visibility="shared")},
        {"cursor_key": bytes(32)},
    ]
    for other in others:
        with pytest.raises(InvalidRequest) as refused:
            admin.ordered(**(members | other), cursor=cursor)
        assert refused.value.member == "query.cursor"
    with pytest.raises(InvalidRequest):
        Supervisor(world, company="rival").ordered(**members, cursor=cursor)


def test_tampered_cursors(admin: Supervisor, made: list[tuple[int, str, str]]) -> None:
    """One changed digit anywhere, a cut, a longer or an upper-case one: 400."""
    cursor = admin.ordered(limit=1).next_cursor
    assert cursor is not None
    flipped = [("1" if digit == "0" else "0") for digit in cursor]
    spoilt = [cursor[:index] + digit + cursor[index + 1 :] for index, digit in enumerate(flipped)]
    for other in [*spoilt, "", cursor[:-2], cursor + "00", cursor.upper(), cursor[:-1] + "\n"]:
        with pytest.raises(InvalidRequest):
            admin.ordered(limit=1, cursor=other)


def test_one_budget_for_all_workspaces(world: MemoryWorld, admin: Supervisor, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lookups of all workspaces count together and are refused together, never in part."""
    for scope in SCOPES:
        source = create_in(world, scope)
        derive = DeriveRecord(record_input(), derivation(SourceRef(source, 1)))
        world.execute(derive, scope=scope)
    assert admin.ordered().dependency_work.records_examined == len(SCOPES)
    monkeypatch.setattr(limits, "DEPENDENCY_RECORDS_MAX", len(SCOPES) - 1)
    with pytest.raises(InvalidRequest):
        admin.ordered()


def test_page_ends_before_eight_mebibytes(world: MemoryWorld, admin: Supervisor) -> None:
    """Bytes of all workspaces count together; the record that would pass 8 MiB is left for the next page."""
    for number in range(10):
        create_in(world, SCOPES[number % 4], "x" * 1_000_000)
    page = admin.ordered()
    assert (len(page.entries), page.stop_reason) == (8, "byte_limit")
    assert page.record_bytes <= limits.RECORD_BYTES_MAX
    assert len(admin.ordered(cursor=page.next_cursor).entries) == 2


def test_empty_company(admin: Supervisor) -> None:
    """No workspaces: an empty page that is the last."""
    page = admin.ordered()
    assert (page.entries, page.stop_reason, page.next_cursor, page.scanned_records) == ((), "exhausted", None, 0)


def test_time_index_that_names_nothing_is_told(world: MemoryWorld, admin: Supervisor) -> None:
    """An index entry without a record is an inconsistency."""
    world.create()
    partition = workspace_for("acme", Scope("p1", None, "a1", "shared"), "svc").partition
    world.put(partition, keys.record_time_key(1, "00000000-0000-4000-8000-00000000dead"), b"")
    with pytest.raises(StorageInconsistency):
        admin.ordered()
