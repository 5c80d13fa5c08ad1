"""One job behind the documented consolidation routes, in memory, whose answers a test may spoil."""

from __future__ import annotations

import copy
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.harness.plain_http import Pieces, PlainRequest, PlainServer, Reply, json_reply, plain_server

COMPANY = "acme"
SUBJECT = "extractor"
SCOPE = {"project_id": "p", "mission_id": None, "agent_id": "a", "visibility": "shared"}
CREDENTIAL_ID = "9d0b8f4a-53a3-4a77-8a0b-2a2f5d1c7e10"
JOB_ID = "5b0c2c1e-7d39-4f0e-9a51-0a4d6f1b2c33"
FENCE = "c7a1d0de-2f0b-4c55-b1a4-6f1d6e0a9b21"
SOURCES = [
    {"record_id": "0b3e2a6c-1111-4c0a-8f00-000000000001", "revision": 1},
    {"record_id": "0b3e2a6c-1111-4c0a-8f00-000000000002", "revision": 2**64 - 1},
]
NOW_MS = 1_790_000_000_000
AUTHOR = {"credential_id": CREDENTIAL_ID, "subject_id": SUBJECT}
WORK = {"records_examined": 0, "bytes_examined": 0}
DIGEST = "ab" * 32

Spoil = Callable[[dict[str, Any]], Any]


def spec() -> dict[str, Any]:
    """A specification over the two sources."""
    return {
        "sources": copy.deepcopy(SOURCES),
        "objective": "link items",
        "policy_ref": "policy:x",
        "extractor": {
            "origin": "tool_observation", "method": "m", "method_revision": "1", "evidence_ref": "e:0", "model": None,
        },
        "max_relations": 2,
        "max_attempts": 2,
        "lease_millis": 5000,
        "max_attempt_millis": 60_000,
    }  # fmt: skip


def record(reference: dict[str, Any]) -> dict[str, Any]:
    """A served record."""
    return {
        "schema_version": 1,
        **reference,
        "created_at_millis": NOW_MS,
        "modified_at_millis": NOW_MS,
        "author": dict(AUTHOR),
        "payload": {
            "episode_type": {"Custom": "note"},
            "content": {"primary": "text", "secondary": None, "data": {"deep": [1, None]}, "embedding": [0.5, 1]},
            "event_time_millis": -1,
            "valid_until_millis": None,
            "tags": ["t"],
            "metadata": {"any": "thing"},
        },
        "review": None,
        "derivation": None,
    }


def attempt(**members: Any) -> dict[str, Any]:
    """A running attempt."""
    return {
        "number": 1,
        "worker_id": "w",
        "credential_id": CREDENTIAL_ID,
        "fence": FENCE,
        "storage_incarnation": str(uuid.UUID(int=1)),
        "claimed_at_millis": NOW_MS,
        "expires_at_millis": NOW_MS + 5000,
        "ended_at_millis": None,
        "outcome": "running",
        "usage": {"status": "unknown"},
        "evidence_ref": None,
        "usage_evidence_ref": None,
        **members,
    }


@dataclass
class ScriptedJobs:
    """A server's memory of one job, plain enough to be right.

    Attributes:
        spoils: Name of a route, or of an operation of `commands` -> what is made of its whole answer. A result of
            bytes is sent as it is; None sends nothing.
        commands: Every command that arrived, with its key.
    """

    spoils: dict[str, Spoil] = field(default_factory=dict)
    commands: list[dict[str, Any]] = field(default_factory=list)
    job: dict[str, Any] = field(default_factory=dict)
    receipts: dict[str, dict[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.job = {
            "schema_version": 1,
            "job_id": JOB_ID,
            "revision": 1,
            "created_by": dict(AUTHOR),
            "created_at_millis": NOW_MS,
            "modified_at_millis": NOW_MS,
            "spec": spec(),
            "status": "ready",
            "attempts": [],
            "output_receipts": [],
        }

    def answer(self, request: PlainRequest) -> Reply:
        """Answer a request as documented, then spoil it."""
        name, document = self._answer(request)
        spoil = self.spoils.get(name)
        if spoil is None:
            return json_reply(document)
        result = spoil(copy.deepcopy(document))
        return result if result is None or isinstance(result, bytes | Pieces) else json_reply(result)

    def inspection(self) -> dict[str, Any]:
        """The job as it is now."""
        return {
            "job": self.job,
            "evaluated_at_millis": NOW_MS,
            "lease_active": self.job["status"] == "running",
            "recoverable": False,
            "source_failure": None,
            "dependency_work": WORK,
        }

    def _answer(self, request: PlainRequest) -> tuple[str, Any]:
        name = request.path.rpartition("/")[2]
        if name == "identity":
            return name, identity()
        body = request.json
        if name == "commands":
            return body["operation"]["type"], {"contract_version": 1, "receipt": self._command(body)}
        payload, value = {
            "inspect": lambda: ("inspection", self.inspection()),
            "context": lambda: ("context", self._context(body)),
            "query": lambda: ("page", self._page()),
            "revision": lambda: ("history", self._history(body)),
        }[name]()
        return name, {"contract_version": 1, "scope": body["scope"], payload: value}

    def _command(self, body: dict[str, Any]) -> dict[str, Any]:
        self.commands.append(body)
        known = self.receipts.get(body["idempotency_key"])
        if known is not None:
            return known
        operation = body["operation"]
        self.job["revision"] += 1
        action = {"claim": "claimed", "renew": "renewed", "publish": "published", "fail": "failed"}[operation["type"]]
        if action == "claimed":
            self.job.update(status="running", attempts=[attempt(worker_id=operation["worker_id"])])
        if action in ("published", "failed"):
            self.job["attempts"][0].update(
                outcome=action, ended_at_millis=NOW_MS, usage=operation["usage"], evidence_ref=operation["evidence_ref"]
            )
            self.job["status"] = "published" if action == "published" else "ready"
        receipt = {
            "contract_version": 1,
            "idempotency_key": body["idempotency_key"],
            "job_id": JOB_ID,
            "revision": self.job["revision"],
            "action": action,
            "author": AUTHOR,
            "committed_at_millis": NOW_MS,
            "job_digest": DIGEST,
            "command_digest": DIGEST,
            "receipt_digest": DIGEST,
        }
        self.receipts[body["idempotency_key"]] = receipt
        return receipt

    def _context(self, body: dict[str, Any]) -> dict[str, Any]:
        return {
            "job_id": body["job_id"],
            "job_revision": body["expected_revision"],
            "fence": body["fence"],
            "records": [record(source) for source in SOURCES],
            "evaluated_at_millis": NOW_MS,
            "record_bytes": 100,
            "dependency_work": WORK,
        }

    def _page(self) -> dict[str, Any]:
        summary = {
            "job_id": JOB_ID,
            "revision": self.job["revision"],
            "status": self.job["status"],
            "created_at_millis": NOW_MS,
            "modified_at_millis": NOW_MS,
            "attempts": len(self.job["attempts"]),
            "lease_active": self.job["status"] == "running",
            "recoverable": False,
        }
        return {
            "jobs": [summary],
            "next_after": JOB_ID,
            "records_examined": 1,
            "record_bytes": 10,
            "evaluated_at_millis": NOW_MS,
        }

    def _history(self, body: dict[str, Any]) -> dict[str, Any]:
        receipt = {
            "contract_version": 1,
            "idempotency_key": "k",
            "job_id": JOB_ID,
            "revision": body["revision"],
            "action": "created",
            "author": AUTHOR,
            "committed_at_millis": NOW_MS,
            "job_digest": DIGEST,
            "command_digest": DIGEST,
            "receipt_digest": DIGEST,
        }
        return {"job": {**self.job, "revision": body["revision"]}, "receipt": receipt}


def identity(**credential: Any) -> dict[str, Any]:
    """The answer of the identity route."""
    spec = {"subject_id": SUBJECT, "capabilities": ["memory_read", "memory_write"], "grants": [SCOPE]}
    return {
        "contract_version": 1,
        "credential": {
            "id": CREDENTIAL_ID, "tenant_id": COMPANY, "spec": spec, "revision": 1, "revoked_at_millis": None,
            "history": [], **credential,
        },
    }  # fmt: skip


@contextmanager
def scripted_jobs() -> Iterator[tuple[ScriptedJobs, PlainServer]]:
    """Serve one ready job."""
    jobs = ScriptedJobs()
    with plain_server(jobs.answer) as server:
        yield jobs, server
