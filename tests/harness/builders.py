"""Documented JSON bodies with sensible content, to be changed where a test cares."""

from __future__ import annotations

import itertools
from typing import Any

EVENT_TIME_MS = 1_700_000_000_000

SPACE = {"provider": "test", "model": "toy", "revision": "1", "dimensions": 3}

_numbers = itertools.count(1)


def new_key(prefix: str = "key") -> str:
    """Return an idempotency key that this process has not used before."""
    return f"{prefix}-{next(_numbers)}"


def scope_json(project: str, **members: Any) -> dict[str, Any]:
    """Return a shared, missionless scope of a project; members override."""
    return {"project_id": project, "mission_id": None, "agent_id": "agent", "visibility": "shared", **members}


def record_json(text: str = "The hive moved to the southern field.", **members: Any) -> dict[str, Any]:
    """Return a RecordInput with the given main text. `content` members may be given as content_<name>."""
    content = {"primary": text}
    for name in [name for name in members if name.startswith("content_")]:
        content[name.removeprefix("content_")] = members.pop(name)
    return {"episode_type": "Observation", "content": content, "event_time_millis": EVENT_TIME_MS, **members}


def create_body(
    scope: dict[str, Any], text: str = "The hive moved.", *, key: str = "", **members: Any
) -> dict[str, Any]:
    """Return the body of a create command."""
    return {
        "contract_version": 1,
        "idempotency_key": key or new_key("create"),
        "scope": scope,
        "operation": {"type": "create", "record": record_json(text, **members)},
    }


def provenance_json(**members: Any) -> dict[str, Any]:
    """Return the provenance of an assertion that a tool observed."""
    return {
        "origin": "tool_observation",
        "method": "test",
        "method_revision": "1",
        "evidence_ref": "test:evidence",
        **members,
    }


def job_spec_json(*sources: dict[str, Any], **members: Any) -> dict[str, Any]:
    """Return what a job over these sources asks for."""
    return {
        "sources": list(sources),
        "objective": "link what belongs together",
        "policy_ref": "policy:1",
        "extractor": provenance_json(),
        "max_relations": 4,
        "max_attempts": 2,
        "lease_millis": 60_000,
        "max_attempt_millis": 600_000,
        **members,
    }


def reference(record_id: str, revision: int = 1) -> dict[str, Any]:
    """Return a record reference."""
    return {"record_id": record_id, "revision": revision}


def assert_body(
    scope: dict[str, Any],
    source: dict[str, Any],
    target: dict[str, Any],
    kind: str = "supports",
    *,
    key: str = "",
    **members: Any,
) -> dict[str, Any]:
    """Return the body of a command that asserts a relation."""
    relation = {"source": source, "target": target, "kind": kind, "provenance": provenance_json(), **members}
    return {
        "contract_version": 1,
        "idempotency_key": key or new_key("assert"),
        "scope": scope,
        "operation": {"type": "assert", "relation": relation},
    }


def attach_body(
    scope: dict[str, Any], record_id: str, vector: list[float], *, revision: int = 1, key: str = "", **members: Any
) -> dict[str, Any]:
    """Return the body that attaches a vector in the three-dimensional test space."""
    return {
        "contract_version": 1,
        "scope": scope,
        "idempotency_key": key or new_key("attach"),
        "record_id": record_id,
        "record_revision": revision,
        "space": {**SPACE, "dimensions": len(vector)},
        "vector": vector,
        **members,
    }
