"""What an export of a company holds, and how it is re-created: everything served, nothing else, sources first."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest

from cli import imports
from cli.company_export import write_export
from cli.company_import import PROVENANCE_MEMBER, Plan, group_by_workspace, plan_import, without
from cli.company_lines import ExportDamaged, read_lines
from cli.import_lines import command_from_line
from cli.import_stream import ImportRefused, ImportResult
from services.domain.canonical_json import canonical_bytes
from services.domain.scope import workspace_for
from services.storage.directory import open_store
from services.storage.exporting import LocalExporter
from tests.harness.full_store import PRIVATE, build_full_store
from tests.harness.memory_world import SCOPE
from waggle.common.v1.scope_pb2 import Scope

MAIN = workspace_for("acme", SCOPE, "svc").partition.hex()


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The export of a company that has every kind of object in every state."""
    directory: Path = tmp_path_factory.mktemp("full") / "data"
    build_full_store(directory)
    file = io.BytesIO()
    with open_store(directory) as store:
        assert write_export(LocalExporter(store), "acme", file.write) is not None
        assert write_export(LocalExporter(store), "nobody", file.write) is None
    return file.getvalue()


def lines_of(exported: bytes, kind: str) -> list[dict[str, Any]]:
    """All lines of a type."""
    return [line for line in read_lines(io.BytesIO(exported)) if line["type"] == kind]


def plan_of(exported: bytes, workspace_id: str = MAIN) -> Plan:
    """How one workspace is re-created."""
    found = group_by_workspace(read_lines(io.BytesIO(exported)))
    return next(plan_import(header, space, 0) for header, space in found if space.workspace_id == workspace_id)


def test_an_export_holds_everything_of_the_company_and_nothing_of_others(exported: bytes) -> None:
    """Every object in every state, private memory included; no secret, no verifier, no other company."""
    kinds = {line["type"] for line in read_lines(io.BytesIO(exported))}
    assert kinds == {
        *("export", "company", "agent", "credential", "login_account", "workspace"),
        *("record", "review", "embedding", "relation", "relation_revision", "job", "job_revision", "receipt"),
    }
    assert 3 == len(lines_of(exported, "workspace"))
    assert {None, "svc"} == {line["workspace"]["private_subject_id"] for line in lines_of(exported, "workspace")}
    for word in (b"globex", b"of another company", b"verifier", b"password_hash", b"$hash", b"change_id"):
        assert word not in exported


def test_an_export_that_is_not_whole_is_refused(exported: bytes) -> None:
    """Cut at any line, changed, extended, or of another version."""
    lines = exported.splitlines(keepends=True)
    broken = [
        *(b"".join(lines[:count]) for count in range(0, len(lines), 9)),
        exported.replace(b"record plain", b"record plane", 1),
        exported + b"{}\n",
        exported.replace(b'"format_version":1', b'"format_version":2', 1),
    ]
    for content in broken:
        with pytest.raises(ExportDamaged):
            list(read_lines(io.BytesIO(content)))


def test_what_was_served_is_re_created_with_its_sources_first(exported: bytes) -> None:
    """Every command is a documented one, refers to none that comes later, and says where the record came from."""
    commands = plan_of(exported).commands
    made: set[str] = set()
    texts = set()
    for line in commands:
        assert command_from_line(canonical_bytes(line)).idempotency_key == line["idempotency_key"]
        assert references_of(line) <= made
        operation = line.get("operation", {})
        if operation.get("type") in ("create", "derive"):
            made.add(line["idempotency_key"])
            texts.add(operation["record"]["content"]["primary"])
            origin = operation["record"]["metadata"][PROVENANCE_MEMBER]
            assert (MAIN, "acme") == (origin["workspace_id"], origin["company_id"])
    served = {"record plain", "record approved", "changed again", "derived", "derived twice", "the newest"}
    assert texts == {*served, "source 0", "source 1"}
    assert len(commands) == len({line["idempotency_key"] for line in commands})


def test_what_was_not_served_is_left_out_and_told(exported: bytes) -> None:
    """Deleted, rejected, expired and stale memory, and relations that are not in force, are counted by cause."""
    left_out = plan_of(exported).left_out
    assert left_out == {
        "records, deleted": 1,
        "records, rejected": 1,
        "records, expired, or derived from what has changed or is not served": 2,
        "embeddings, of another revision or of a record that is left out": 2,
        "relations, retired": 1,
        "relations, rejected": 2,
        "relations, expired": 1,
    }


def test_what_has_ended_since_the_export_is_left_out_with_all_that_rests_on_it(exported: bytes) -> None:
    """It would be refused for ever, and the import with it."""
    found = group_by_workspace(read_lines(io.BytesIO(exported)))
    header, workspace = next((header, space) for header, space in found if space.workspace_id == MAIN)
    end_ms = header["clock_millis"] + 1000
    for record in workspace.records.values():
        if record["payload"] and record["payload"]["content"]["primary"] in ("record plain", "source 0", "source 1"):
            record["payload"]["valid_until_millis"] = end_ms
    before, after = (plan_import(header, workspace, now_ms) for now_ms in (end_ms - 1, end_ms))
    texts = [
        {
            line["operation"]["record"]["content"]["primary"]
            for line in plan.commands
            if line.get("operation", {}).get("type") in ("create", "derive")
        }
        for plan in (before, after)
    ]
    assert {"record plain", "source 0", "source 1", "derived", "derived twice"} == texts[0] - texts[1]
    made = {line["idempotency_key"] for line in after.commands}
    assert all(references_of(line) <= made for line in after.commands)
    assert sum(before.left_out.values()) + len(before.commands) == sum(after.left_out.values()) + len(after.commands)


def test_private_memory_is_a_workspace_of_its_own(exported: bytes) -> None:
    """Its records are planned like any others."""
    private = workspace_for("acme", PRIVATE, "svc").partition.hex()
    assert ["create", "vector"] == [
        line.get("operation", {"type": "vector"})["type"] for line in plan_of(exported, private).commands
    ]


def test_what_refers_to_an_absent_copy_is_left_out_too(exported: bytes) -> None:
    """Whatever one is left out: what remains refers to nothing that is not there, and keeps its order."""
    commands = plan_of(exported, MAIN).commands
    for command in commands:
        left = without(commands, command["idempotency_key"])
        made = {line["idempotency_key"] for line in left}
        assert command["idempotency_key"] not in made
        assert all(references_of(line) <= made for line in left)
        assert left == [line for line in commands if line["idempotency_key"] in made]


def test_a_copy_that_has_changed_here_stops_nothing(exported: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """The refused command is left out, and the rest carried out once more; counts are those of the whole."""
    commands = plan_of(exported, MAIN).commands
    refused = commands[-1]["idempotency_key"]
    runs: list[int] = []

    def import_commands(*_: Any, total: int, passes_over: Any, **__: Any) -> ImportResult:
        runs.append(total)
        if len(runs) == 1:
            error = ImportRefused(total - 1, "revision_conflict", "changed", member="", committed=2, replayed=total - 3)
            assert passes_over(error)
            raise error
        return ImportResult(committed=0, replayed=total, ids=[])

    monkeypatch.setattr(imports, "import_commands", import_commands)
    counts = imports._import_plan("address", "key", Scope(), commands, {"committed": 0, "replayed": 0})
    absent = len(commands) - len(without(commands, refused))
    assert (2, len(commands) - absent - 2, absent) == counts
    assert [len(commands), len(commands) - absent] == runs


def references_of(line: dict[str, Any]) -> set[str]:
    """Keys of the commands that made what a line refers to."""
    operation = line.get("operation", {})
    named = [*operation.get("derivation", {}).get("sources", ()), line]
    relation = operation.get("relation")
    if relation is not None:
        named += [relation["source"], relation["target"], *relation.get("evidence_sources", ())]
    return {item["created_by"] for item in named if "created_by" in item}
