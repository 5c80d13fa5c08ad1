"""One good request for each consolidation route and each of its commands, like `documented_requests`.

Jobs belong to whoever makes them and leases to the credential that claimed, so that a good request is one of the
credential that `Known.api` has.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from tests.harness import builders
from tests.harness.documented_requests import DATA, READ, WRITE, Documented, Json, Known
from tests.harness.suite import wait_until

USAGE = {"status": "reported", "model_calls": 1, "input_tokens": 2, "output_tokens": 3, "cost_microusd": None}
MODEL = {"provider": "p", "model": "m", "revision": "r"}
SHORTEST_LEASE_MS = 1_000

# An attempt expires after a second at the earliest; some are made ahead, so that it is waited for once.
_POOL_SIZE = 16
_expired: dict[str, list[str]] = defaultdict(list)


def command(known: Known, operation: Json) -> Json:
    """Carry out a command and return its receipt."""
    body = {"idempotency_key": builders.new_key("job"), "operation": operation}
    receipt: Json = known.api.expect("memory/consolidation/commands", body)["receipt"]
    return receipt


def spec_json(known: Known, **members: Any) -> Json:
    """A specification over both records, with a lease that nobody waits for."""
    return {
        "sources": [known.first, known.second],
        "objective": "link what belongs together",
        "policy_ref": "policy:1",
        "extractor": {**builders.provenance_json(), "model": None},
        "max_relations": 16,
        "max_attempts": 2,
        "lease_millis": 900_000,
        "max_attempt_millis": 86_400_000,
        **members,
    }


def new_job(known: Known, **members: Any) -> str:
    """Create a job and return its id."""
    job_id: str = command(known, {"type": "create", "spec": spec_json(known, **members)})["job_id"]
    return job_id


def claim(known: Known, job_id: str) -> Json:
    """Claim a new job and return what its holder presents."""
    command(known, {"type": "claim", "job_id": job_id, "expected_revision": 1, "worker_id": "w"})
    job = known.api.expect("memory/consolidation/inspect", {"job_id": job_id})["inspection"]["job"]
    return {"job_id": job_id, "expected_revision": 2, "fence": job["attempts"][0]["fence"]}


def claimed(known: Known) -> Json:
    """Create and claim a job."""
    return claim(known, new_job(known))


def expired(known: Known) -> Json:
    """A running job whose lease is over."""
    pool = _expired[known.scope["project_id"]]
    if not pool:
        pool += [claim(known, new_job(known, lease_millis=SHORTEST_LEASE_MS))["job_id"] for _ in range(_POOL_SIZE)]
        last = {"job_id": pool[-1]}
        wait_until(
            lambda: known.api.expect("memory/consolidation/inspect", last)["inspection"]["recoverable"],
            "the leases are over",
        )
    return {"job_id": pool.pop(), "expected_revision": 2}


def closed(known: Known) -> Json:
    """A job whose first attempt has failed."""
    held = claimed(known)
    command(known, {"type": "fail", **held, "usage": {"status": "unknown"}, "evidence_ref": "ref"})
    return {"job_id": held["job_id"], "expected_revision": 3}


def _operation(kind: str, **members: Any) -> Json:
    return {"idempotency_key": builders.new_key("job"), "operation": {"type": kind, **members}}


def _create(known: Known) -> Json:
    # The bounds of the lease and of the attempt depend on each other: these leave both their whole range.
    return _operation("create", spec=spec_json(known, lease_millis=SHORTEST_LEASE_MS))


def _create_inference(known: Known) -> Json:
    extractor = builders.provenance_json(origin="model_inference", model=MODEL)
    return _operation("create", spec=spec_json(known, extractor=extractor))


def _publish(known: Known) -> Json:
    found = {
        "source": known.first,
        "target": known.second,
        "kind": "supports",
        "valid_from_millis": None,
        "valid_until_millis": None,
        "evidence_ref": "ref",
    }
    return _operation("publish", **claimed(known), assertions=[found], usage=USAGE, evidence_ref="ref")


def _query(known: Known) -> Json:
    new_job(known)
    return {"query": {"limit": 1, "scan_limit": 10, "after": None, "status": "ready"}}


_COMMANDS: dict[str, Any] = {
    "create": _create,
    "create-inference": _create_inference,
    "claim": lambda known: _operation("claim", job_id=new_job(known), expected_revision=1, worker_id="w"),
    "renew": lambda known: _operation("renew", **claimed(known)),
    "publish": _publish,
    "fail": lambda known: _operation("fail", **claimed(known), usage=USAGE, evidence_ref="ref"),
    "recover": lambda known: _operation("recover_expired", **expired(known), evidence_ref="ref"),
    "cancel": lambda known: _operation("cancel", job_id=new_job(known), expected_revision=1, evidence_ref="ref"),
    "reconcile": lambda known: _operation(
        "reconcile_usage", **closed(known), attempt_number=1, usage=USAGE, evidence_ref="ref"
    ),
}
_READS: dict[str, tuple[tuple[str, ...], Any]] = {
    "inspect": ((READ,), lambda known: {"job_id": new_job(known)}),
    "revision": ((READ,), lambda known: {"job_id": new_job(known), "revision": 1}),
    "query": ((READ,), _query),
    "context": ((READ, WRITE), claimed),
}

JOBS: tuple[Documented, ...] = (
    *(
        Documented(
            f"job-{name}", "POST", "memory/consolidation/commands", (READ, WRITE), body, takes_slot=True, is_write=True
        )
        for name, body in _COMMANDS.items()
    ),
    *(
        Documented(f"job-{name}", "POST", f"memory/consolidation/{name}", needs, body, takes_slot=True)
        for name, (needs, body) in _READS.items()
    ),
)

EVERY = DATA + JOBS
"""Every route that reaches memory data, its catalogues or jobs."""
EVERY_SCOPED = tuple(route for route in EVERY if route.has_scope)
EVERY_WRITE = tuple(route for route in EVERY if route.is_write)
