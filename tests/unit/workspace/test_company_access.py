"""Access of administrators: the order of checks, what exists for a company, admission, and what is left behind."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from services.domain import keys
from services.domain.errors import Forbidden, RecordNotFound, RetrievalBusy, StorageInconsistency, Unauthorized
from services.domain.scope import IDENTITY_PARTITION, Workspace
from services.identity.tokens import token_from_random
from services.runtime.identifiers import new_uuid
from services.workspace.company_directory import (
    WorkspacePage,
    WorkspaceSelection,
    list_workspaces,
    select_workspaces,
)
from tests.harness.memory_world import SCOPE, MemoryWorld, scope_of
from tests.harness.supervisor import Supervisor, create_in, workspace_id


@pytest.fixture
def world() -> Iterator[MemoryWorld]:
    """A fresh company with an empty memory."""
    made = MemoryWorld()
    yield made
    made.close()


@pytest.fixture
def admin(world: MemoryWorld) -> Supervisor:
    """Its administrator."""
    return Supervisor(world)


def page(admin: Supervisor, *, limit: int = 100, after: str | None = None) -> WorkspacePage:
    return admin.survey(lambda transaction, company: list_workspaces(transaction, company, limit=limit, after=after))


def selected(admin: Supervisor, **members: str) -> list[Workspace]:
    selection = WorkspaceSelection(**members)  # type: ignore[arg-type]
    return admin.survey(lambda transaction, company: select_workspaces(transaction, company, selection))


def nothing(_: object) -> None:
    """Visit without doing anything."""


def nothing_at_all(*_: object) -> None:
    """Survey without reading anything."""


def test_every_subject_is_covered(world: MemoryWorld, admin: Supervisor) -> None:
    """Private workspaces of any subject and shared ones are found, also when the writer's key has been revoked."""
    private = scope_of(visibility="private")
    for subject in ("svc", "other"):
        token = world.issue(subject=subject)
        create_in(world, private, token=token)
        world.revoke(token)
        workspace, _ = admin.visit(nothing, workspace=workspace_id(private, subject=subject))
        assert workspace == Workspace("acme", private, subject)
    create_in(world, SCOPE)
    assert admin.visit(nothing)[0] == Workspace("acme", SCOPE, None)
    assert len(page(admin).workspaces) == 3


@pytest.mark.parametrize(
    "named",
    [
        workspace_id(scope_of(project_id="unused")),
        workspace_id(company="rival"),
        IDENTITY_PARTITION.hex(),
        "0" * 64,
    ],
    ids=["never written", "of another company", "of the credentials", "of nobody"],
)
def test_what_the_company_does_not_have_does_not_exist(world: MemoryWorld, admin: Supervisor, named: str) -> None:
    """A workspace that was never written, a foreign one and a meaningless id: the same words and member."""
    create_in(world, SCOPE)
    create_in(world, SCOPE, token=world.issue(company="rival"))
    with pytest.raises(RecordNotFound) as refused:
        admin.visit(nothing, workspace=named)
    assert (refused.value.member, refused.value.message) == ("workspace_id", "no such workspace")


def test_memory_capabilities_are_of_no_use(world: MemoryWorld, admin: Supervisor) -> None:
    """403 without `credential_admin`, before the workspace is looked for; 401 for an unknown key."""
    for named in (workspace_id(), "0" * 64):
        with pytest.raises(Forbidden):
            admin.visit(nothing, workspace=named, token=world.token)
    with pytest.raises(Forbidden):
        admin.survey(nothing_at_all, token=world.token)
    with pytest.raises(Unauthorized):
        admin.visit(nothing, token=token_from_random(new_uuid(), bytes(32)))


def test_authority_comes_before_admission_and_both_before_lookup(world: MemoryWorld, admin: Supervisor) -> None:
    """With every slot taken: 401 and 403 as ever, else 503, whether the workspace exists or not."""
    holders = [threading.Thread(target=world.slots.admit) for _ in range(world.slots.slot_count)]
    for holder in holders:
        holder.start()
        holder.join()
    with pytest.raises(Forbidden):
        admin.visit(nothing, token=world.token)
    for named in (workspace_id(), "0" * 64):
        with pytest.raises(RetrievalBusy):
            admin.visit(nothing, workspace=named)
    with pytest.raises(RetrievalBusy):
        admin.survey(nothing_at_all)


def test_nothing_is_left_behind(world: MemoryWorld, admin: Supervisor) -> None:
    """No agent is registered and nothing else is written."""
    create_in(world, SCOPE)
    before = world.partition_rows(IDENTITY_PARTITION), world.rows()
    admin.visit(nothing)
    page(admin)
    assert (world.partition_rows(IDENTITY_PARTITION), world.rows()) == before


def test_directory_pages(world: MemoryWorld, admin: Supervisor) -> None:
    """Ascending ids, each once; only the own company; an exact end has no continuation; any position will do."""
    scopes = [scope_of(project_id=f"p{number}") for number in range(5)]
    for scope in scopes:
        create_in(world, scope)
    create_in(world, SCOPE, token=world.issue(company="rival"))
    expected = sorted(map(workspace_id, scopes))

    def ids(found: WorkspacePage) -> list[str]:
        return [workspace.partition.hex() for workspace in found.workspaces]

    first = page(admin, limit=3)
    assert (ids(first), first.next_after) == (expected[:3], expected[2])
    second = page(admin, limit=3, after=first.next_after)
    assert (ids(second), second.next_after) == (expected[3:], None)
    assert page(admin, limit=5).next_after is None
    assert ids(page(admin, after="0" * 64)) == expected
    assert ids(page(admin, after="f" * 64)) == []


def test_directory_keeps_emptied_workspaces_only(world: MemoryWorld, admin: Supervisor) -> None:
    """Reads make no workspace; one that has become empty stays."""
    world.read(nothing, capabilities=("memory_read",))
    assert page(admin) == WorkspacePage((), None)
    record = world.create(valid_until_millis=1)
    assert record.revision == 1
    assert page(admin).workspaces == (Workspace("acme", SCOPE, None),)


def test_selection(world: MemoryWorld, admin: Supervisor) -> None:
    """All members that are set must hold; a workspace that the company does not have is 404, others are left out."""
    private = scope_of(visibility="private", agent_id="a2")
    other = world.issue(subject="other")
    create_in(world, SCOPE)
    create_in(world, private)
    create_in(world, private, token=other)
    create_in(world, scope_of(project_id="p2"))
    assert len(selected(admin)) == 4
    assert {workspace.private_subject_id for workspace in selected(admin, visibility="private")} == {"svc", "other"}
    assert selected(admin, private_subject_id="other") == [Workspace("acme", private, "other")]
    assert selected(admin, project_id="p1", visibility="shared") == [Workspace("acme", SCOPE, None)]
    assert len(selected(admin, agent_id="a2")) == 2
    assert selected(admin, workspace_id=workspace_id()) == [Workspace("acme", SCOPE, None)]
    assert selected(admin, workspace_id=workspace_id(), project_id="p2") == []
    with pytest.raises(RecordNotFound) as refused:
        selected(admin, workspace_id="0" * 64)
    assert refused.value.member == "selection.workspace_id"


def test_entries_in_the_wrong_place_are_told(world: MemoryWorld, admin: Supervisor) -> None:
    """A workspace entry under the id of another is an inconsistency, in the partition and in the directory."""
    create_in(world, SCOPE)
    entry = world.rows()[keys.WORKSPACE]
    strange = bytes(32)
    world.put(strange, keys.WORKSPACE, entry)
    with pytest.raises(StorageInconsistency):
        admin.visit(nothing, workspace=strange.hex())
    world.put(IDENTITY_PARTITION, keys.company_workspace_key("acme", strange), entry)
    with pytest.raises(StorageInconsistency):
        page(admin)
