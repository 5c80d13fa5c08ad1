"""Planning `waggle import company`: re-creating by public commands what an export of a company held as served memory.

Ids, times and revisions are made anew, since only a server makes them. Where each record comes from stands in its
metadata, under `waggle_imported_from`. What was not served at the export, decisions, jobs, agents and credentials are
not re-created; docs/company-export.md says why.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from cli.company_lines import Json
from services.domain.canonical_json import canonical_bytes
from services.domain.eligibility import DependencyCache, is_eligible
from services.domain.keys import space_tag
from services.domain.records import RecordState, state_from_json

PROVENANCE_MEMBER: Final = "waggle_imported_from"


@dataclass(slots=True)
class ExportedWorkspace:
    """What an export holds of one workspace, as far as it can be re-created.

    Attributes:
        workspace_id: 64 hexadecimal digits.
        address: The workspace: company, scope, subject of private memory.
        records, relations: By id.
        embeddings: Receipt and vector.
    """

    workspace_id: str
    address: Json
    records: dict[str, Json] = field(default_factory=dict)
    relations: dict[str, Json] = field(default_factory=dict)
    embeddings: list[Json] = field(default_factory=list)

    def take(self, line: Json) -> None:
        """Take one line; types that are not re-created are passed over."""
        match line["type"]:
            case "record":
                self.records[line["record"]["record_id"]] = line["record"]
            case "relation":
                self.relations[line["relation"]["relation_id"]] = line["relation"]
            case "embedding":
                self.embeddings.append(line)
            case _:
                pass


@dataclass(frozen=True, slots=True)
class Plan:
    """What is done for one workspace.

    Attributes:
        commands: Lines of an import (see `import_lines`), in an order in which all they refer to comes first.
        left_out: Number of objects by what they are and why they are not re-created.
    """

    commands: list[Json]
    left_out: dict[str, int]


def group_by_workspace(lines: Iterator[Json]) -> Iterator[tuple[Json, ExportedWorkspace]]:
    """Yield (first line of the export, workspace) for each workspace, one at a time.

    Raises:
        ExportDamaged: See `company_lines.read_lines`.
    """
    header: Json = {}
    current: ExportedWorkspace | None = None
    for line in lines:
        if line["type"] == "export":
            header = line
        elif line["type"] == "workspace":
            if current is not None:
                yield header, current
            current = ExportedWorkspace(line["workspace_id"], line["workspace"])
        elif current is not None and line.get("workspace_id") == current.workspace_id:
            current.take(line)
    if current is not None:
        yield header, current


def plan_import(header: Json, workspace: ExportedWorkspace, now_ms: int) -> Plan:
    """Decide how a workspace is re-created: whatever was served at the export's clock and is not over, sources first.

    Args:
        header: First line of the export.
        workspace: What it holds.
        now_ms: The present time. What has ended since the export would be refused, and all that rests on it.
    """
    clock_ms = max(header["clock_millis"], now_ms)
    served = _Served(workspace.records, clock_ms)
    left_out: Counter[str] = Counter()
    commands: list[Json] = []
    for record in served.in_order():
        commands.append(_record_command(header, workspace, record))
    for record_id, record in workspace.records.items():
        if record_id not in served.ids:
            left_out[f"records, {_why(record)}"] += 1
    for line in workspace.embeddings:
        receipt = line["receipt"]
        if served.has(receipt["record_id"], receipt["record_revision"]):
            commands.append(_embedding_command(line))
        else:
            left_out["embeddings, of another revision or of a record that is left out"] += 1
    for relation in workspace.relations.values():
        why = _why_not_related(relation, served, clock_ms)
        if why:
            left_out[f"relations, {why}"] += 1
        else:
            commands.append(_relation_command(relation))
    return Plan(commands, dict(left_out))


def without(commands: Sequence[Json], key: str) -> list[Json]:
    """The commands that are left when one is not carried out: those that refer to what it would have created go too.

    Args:
        commands: In the order in which they are carried out.
        key: The idempotency key of the one.
    """
    absent = {key}
    left = []
    for command in commands:
        if command["idempotency_key"] in absent or not absent.isdisjoint(_references(command)):
            absent.add(command["idempotency_key"])
        else:
            left.append(command)
    return left


def _references(value: Any) -> Iterator[str]:
    """Keys that a command refers to by `created_by`, wherever it does."""
    if isinstance(value, dict):
        for name, member in value.items():
            if name == "created_by" and isinstance(member, str):
                yield member
            else:
                yield from _references(member)
    elif isinstance(value, list):
        for member in value:
            yield from _references(member)


class _Served:
    """The records that were served at a time; implements `eligibility.RecordReader`."""

    def __init__(self, records: Mapping[str, Json], now_ms: int) -> None:
        self._records = records
        self.ids: dict[str, int] = {}
        for record_id, record in records.items():
            state = self.record_state(record_id)
            # A fresh count of work for each: together they may need more than one request would.
            if state is not None and is_eligible(state, DependencyCache(self), now_ms):
                self.ids[record_id] = record["revision"]

    def record_state(self, record_id: str) -> RecordState | None:
        """See `eligibility.RecordReader`."""
        record = self._records.get(record_id)
        return None if record is None else state_from_json(record, size_bytes=len(canonical_bytes(record)))

    def has(self, record_id: str, revision: int) -> bool:
        """Whether a record was served at exactly this revision."""
        return self.ids.get(record_id) == revision

    def in_order(self) -> Iterator[Json]:
        """The served records, by time, each after its sources."""
        done: set[str] = set()
        by_time = sorted(self.ids, key=lambda record_id: (self._records[record_id]["created_at_millis"], record_id))
        for record_id in by_time:
            yield from self._with_sources(record_id, done)

    def _with_sources(self, record_id: str, done: set[str]) -> Iterator[Json]:
        if record_id in done:
            return
        done.add(record_id)
        record = self._records[record_id]
        for source in (record["derivation"] or {"sources": ()})["sources"]:
            # What is served has at most eight steps below it.
            yield from self._with_sources(source["record_id"], done)
        yield record


def record_key(record_id: str, revision: int) -> str:
    """Idempotency key under which an exported record is re-created."""
    return f"exported:{record_id}:{revision}"


def _record_command(header: Json, workspace: ExportedWorkspace, record: Json) -> Json:
    payload, derivation = record["payload"], record["derivation"]
    origin: Json = {
        "company_id": header["company_id"],
        "store_id": header["store_id"],
        "workspace_id": workspace.workspace_id,
        "record_id": record["record_id"],
        "revision": record["revision"],
        "created_at_millis": record["created_at_millis"],
        "author": record["author"],
    }
    metadata = payload["metadata"]
    if PROVENANCE_MEMBER in metadata:
        origin["before"] = metadata[PROVENANCE_MEMBER]
    operation: Json = {
        "type": "create",
        "record": {**payload, "metadata": {**metadata, PROVENANCE_MEMBER: origin}},
    }
    if derivation is not None:
        operation["type"] = "derive"
        operation["derivation"] = {**derivation, "sources": [_reference(source) for source in derivation["sources"]]}
    return {"idempotency_key": record_key(record["record_id"], record["revision"]), "operation": operation}


def _embedding_command(line: Json) -> Json:
    receipt = line["receipt"]
    space = receipt["space"]
    named = record_key(receipt["record_id"], receipt["record_revision"])
    return {
        # A record has one vector in each space.
        "idempotency_key": f"{named}:{_space_word(space)}",
        "created_by": named,
        "space": space,
        "vector": line["vector"],
    }


def _relation_command(relation: Json) -> Json:
    stated = relation["input"]
    asserted: Json = {**stated, "source": _reference(stated["source"]), "target": _reference(stated["target"])}
    if "evidence_sources" in stated:
        asserted["evidence_sources"] = [_reference(source) for source in stated["evidence_sources"]]
    key = f"exported:{relation['relation_id']}:{relation['revision']}"
    return {"idempotency_key": key, "operation": {"type": "assert", "relation": asserted}}


def _reference(source: Json) -> Json:
    return {"created_by": record_key(source["record_id"], source["revision"])}


def _space_word(space: Json) -> str:
    return space_tag(space).hex()[:16]


def _why(record: Json) -> str:
    if record["payload"] is None:
        return "deleted"
    if record["review"] is not None and record["review"]["disposition"] == "rejected":
        return "rejected"
    return "expired, or derived from what has changed or is not served"


def _why_not_related(relation: Json, served: _Served, now_ms: int) -> str:
    stated = relation["input"]
    until = stated["valid_until_millis"]
    named: list[Any] = [stated["source"], stated["target"], *stated.get("evidence_sources", ())]
    if relation["state"] != "active":
        return "retired"
    if relation["review"] is not None and relation["review"]["disposition"] == "rejected":
        return "rejected"
    if until is not None and until <= now_ms:
        return "expired"
    if not all(served.has(source["record_id"], source["revision"]) for source in named):
        return "about a record that has changed or is left out"
    return ""
