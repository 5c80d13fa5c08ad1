"""The documented JSON of the consolidation routes, member by member, through the gateway of a running suite."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.harness import builders
from tests.harness.api import Api
from tests.harness.suite import Suite

ABSENT = "00000000-0000-4000-8000-00000000dead"
U64_MAX = 2**64 - 1
USAGE = {"status": "reported", "model_calls": 1, "input_tokens": 2, "output_tokens": 3, "cost_microusd": None}
JOB_MEMBERS = {
    "schema_version", "job_id", "revision", "created_by", "created_at_millis", "modified_at_millis", "spec", "status",
    "attempts", "output_receipts",
}  # fmt: skip


def command(api: Api, operation: dict[str, Any], key: str = "") -> dict[str, Any]:
    """A command; its receipt."""
    body = {"idempotency_key": key or builders.new_key("job"), "operation": operation}
    receipt: dict[str, Any] = api.expect("memory/consolidation/commands", body)["receipt"]
    return receipt


def refusal(api: Api, operation: dict[str, Any], key: str = "") -> tuple[int, str]:
    """Status and code of a refused command."""
    body = {"idempotency_key": key or builders.new_key("job"), "operation": operation}
    response = api.post("memory/consolidation/commands", body)
    document = response.json()
    assert response.headers["cache-control"] == "no-store"
    assert (set(document), set(document["error"])) == ({"contract_version", "error"}, {"code", "message"})
    return response.status_code, document["error"]["code"]


def spec(*sources: dict[str, Any], **members: Any) -> dict[str, Any]:
    """A specification over these sources."""
    return {
        "sources": list(sources),
        "objective": "link what belongs together",
        "policy_ref": "policy:1",
        "extractor": builders.provenance_json(),
        "max_relations": 4,
        "max_attempts": 2,
        "lease_millis": 60_000,
        "max_attempt_millis": 600_000,
        **members,
    }


def create(*sources: dict[str, Any], **members: Any) -> dict[str, Any]:
    """The operation that creates a job."""
    return {"type": "create", "spec": spec(*sources, **members)}


def publish(job_id: str, fence: str, *assertions: dict[str, Any], revision: int = 2) -> dict[str, Any]:
    """The operation that publishes."""
    return {
        "type": "publish",
        "job_id": job_id,
        "expected_revision": revision,
        "fence": fence,
        "assertions": list(assertions),
        "usage": USAGE,
        "evidence_ref": "run:1",
    }


def inspect(api: Api, job_id: str) -> dict[str, Any]:
    """An inspection, after a check of its envelope."""
    document = api.expect("memory/consolidation/inspect", {"job_id": job_id})
    assert set(document) == {"contract_version", "scope", "inspection"}
    assert document["scope"] == api.scope
    inspection: dict[str, Any] = document["inspection"]
    return inspection


@pytest.fixture
def pair(api: Api) -> tuple[dict[str, Any], dict[str, Any]]:
    """Two records, the first with the earlier event time."""
    return api.create("The beam cracked.", event_time_millis=1), api.create("The roof fell.", event_time_millis=2)


@pytest.fixture
def claimed(api: Api, pair: tuple[dict[str, Any], dict[str, Any]]) -> tuple[str, str]:
    """A running job over the pair at revision 2, and its fence."""
    job_id = command(api, create(*pair))["job_id"]
    command(api, {"type": "claim", "job_id": job_id, "expected_revision": 1, "worker_id": "w"})
    return job_id, inspect(api, job_id)["job"]["attempts"][0]["fence"]


def test_whole_life_of_a_job(api: Api, pair: tuple[dict[str, Any], dict[str, Any]]) -> None:
    """Create, claim, context, renew, publish, reconcile: each answer has exactly the documented members."""
    third = api.create("The insurer was told.")
    receipt = command(api, create(*pair, third), "k")
    job_id = receipt["job_id"]
    assert set(receipt) == {
        "contract_version", "idempotency_key", "job_id", "revision", "action", "author", "committed_at_millis",
        "job_digest", "command_digest", "receipt_digest",
    }  # fmt: skip
    assert (receipt["contract_version"], receipt["revision"], receipt["action"]) == (1, 1, "created")
    assert receipt["author"]["subject_id"] == "writer"

    command(api, {"type": "claim", "job_id": job_id, "expected_revision": 1, "worker_id": "w"})
    inspection = inspect(api, job_id)
    job = inspection["job"]
    attempt = job["attempts"][0]
    assert set(inspection) == {
        "job", "evaluated_at_millis", "lease_active", "recoverable", "source_failure", "dependency_work",
    }  # fmt: skip
    assert (inspection["lease_active"], inspection["recoverable"], inspection["source_failure"]) == (True, False, None)
    assert inspection["dependency_work"] == {"records_examined": 0, "bytes_examined": 0}
    assert (set(job), job["status"], job["output_receipts"]) == (JOB_MEMBERS, "running", [])
    extractor = {**builders.provenance_json(), "model": None}
    assert job["spec"] == spec(*pair, third, extractor=extractor)
    assert attempt == {
        "number": 1,
        "worker_id": "w",
        "credential_id": receipt["author"]["credential_id"],
        "fence": attempt["fence"],
        "storage_incarnation": attempt["storage_incarnation"],
        "claimed_at_millis": job["modified_at_millis"],
        "expires_at_millis": job["modified_at_millis"] + 60_000,
        "ended_at_millis": None,
        "outcome": "running",
        "usage": {"status": "unknown"},
        "evidence_ref": None,
        "usage_evidence_ref": None,
    }

    fence = attempt["fence"]
    document = api.expect("memory/consolidation/context", {"job_id": job_id, "expected_revision": 2, "fence": fence})
    context = document["context"]
    assert set(document) == {"contract_version", "scope", "context"}
    assert set(context) == {
        "job_id", "job_revision", "fence", "records", "evaluated_at_millis", "record_bytes", "dependency_work",
    }  # fmt: skip
    assert (context["job_id"], context["job_revision"], context["fence"]) == (job_id, 2, fence)
    assert [record["record_id"] for record in context["records"]] == [source["record_id"] for source in (*pair, third)]
    assert context["records"][0] == api.get(pair[0]["record_id"]).json()["record"]
    assert context["record_bytes"] > 0

    found = {"source": pair[0], "target": pair[1], "kind": "causal_claim", "evidence_ref": "seen:1"}
    receipt = command(api, publish(job_id, fence, found), "publication")
    assert (receipt["action"], receipt["revision"]) == ("published", 3)
    job = inspect(api, job_id)["job"]
    (output,) = job["output_receipts"]
    assert set(output) == {
        "contract_version", "idempotency_key", "relation_id", "revision", "action", "author", "committed_at_millis",
        "evidence_ref", "relation_digest", "command_digest", "receipt_digest",
    }  # fmt: skip
    assert (output["action"], output["idempotency_key"], output["evidence_ref"]) == (
        "asserted",
        "publication#0",
        "seen:1",
    )
    relation = api.expect("memory/relations/read", {"relation_id": output["relation_id"]})["relation"]
    assert relation["input"] == {
        "source": pair[0],
        "target": pair[1],
        "kind": "causal_claim",
        "provenance": {**extractor, "evidence_ref": "seen:1"},
        "valid_from_millis": None,
        "valid_until_millis": None,
        "evidence_sources": [third],
    }

    history = api.expect("memory/consolidation/revision", {"job_id": job_id, "revision": 3})
    assert set(history) == {"contract_version", "scope", "history"}
    assert history["history"] == {"job": job, "receipt": receipt}


def test_published_relation_is_walked(api: Api, claimed: tuple[str, str], pair: tuple[Any, Any]) -> None:
    """What a job publishes is walked by the next traversal, and no longer once a source has changed."""
    job_id, fence = claimed
    found = {"source": pair[0], "target": pair[1], "kind": "causal_claim", "evidence_ref": "seen:1"}
    command(api, publish(job_id, fence, found))
    (output,) = inspect(api, job_id)["job"]["output_receipts"]
    walk = {"query": {"root_record_ids": [pair[0]["record_id"]], "direction": "outgoing", "max_depth": 1}}
    edges = api.expect("memory/graph/typed", walk)["graph"]["edges"]
    assert json.dumps(edges).count(output["relation_id"]) == 1
    api.update(pair[1], "The roof held.")
    assert api.expect("memory/graph/typed", walk)["graph"]["edges"] == []


def test_query_page(api: Api, claimed: tuple[str, str], pair: tuple[Any, Any]) -> None:
    """Pages have the documented members; absent and null are the same; foreign positions are only positions."""
    other = command(api, create(*pair))["job_id"]
    query = {"limit": 1, "scan_limit": 10}
    document = api.expect("memory/consolidation/query", {"query": query})
    page = document["page"]
    first, second = sorted([claimed[0], other])
    assert set(document) == {"contract_version", "scope", "page"}
    assert set(page) == {"jobs", "next_after", "records_examined", "record_bytes", "evaluated_at_millis"}
    assert set(page["jobs"][0]) == {
        "job_id", "revision", "status", "created_at_millis", "modified_at_millis", "attempts", "lease_active",
        "recoverable",
    }  # fmt: skip
    assert (page["jobs"][0]["job_id"], page["next_after"]) == (first, first)
    spelled = api.expect("memory/consolidation/query", {"query": {**query, "after": None, "status": None}})["page"]
    assert (spelled["jobs"], spelled["next_after"]) == (page["jobs"], page["next_after"])
    page = api.expect("memory/consolidation/query", {"query": {**query, "after": first.upper()}})["page"]
    assert ([job["job_id"] for job in page["jobs"]], page["next_after"]) == ([second], None)
    page = api.expect("memory/consolidation/query", {"query": {**query, "limit": 9, "status": "ready"}})["page"]
    assert [job["job_id"] for job in page["jobs"]] == [other]


@pytest.mark.parametrize(
    "query",
    [
        {"limit": 1},
        {"scan_limit": 1},
        {"limit": 0, "scan_limit": 1},
        {"limit": 101, "scan_limit": 1},
        {"limit": 1, "scan_limit": 1001},
        {"limit": 1, "scan_limit": 1, "status": "done"},
        {"limit": 1, "scan_limit": 1, "after": "x"},
        {"limit": 1, "scan_limit": 1, "order": "up"},
    ],
)
def test_bad_query(api: Api, query: dict[str, Any]) -> None:
    """Bounds, words and members of a query are checked: 400."""
    response = api.post("memory/consolidation/query", {"query": query})
    assert (response.status_code, response.json()["error"]["code"]) == (400, "invalid_request")


BAD_SPECS: list[dict[str, Any]] = [
    {"sources": []},
    {"sources": [builders.reference(ABSENT)]},
    {"sources": [builders.reference(ABSENT), builders.reference(ABSENT, 2)]},
    {"sources": [builders.reference(f"00000000-0000-4000-8000-{index:012}") for index in range(17)]},
    {"objective": " "},
    {"objective": "x" * 4097},
    {"policy_ref": "a\u0085b"},
    {"max_relations": 0},
    {"max_relations": 17},
    {"max_attempts": 33},
    {"lease_millis": 999},
    {"lease_millis": 900_001},
    {"lease_millis": 5_000, "max_attempt_millis": 4_999},
    {"max_attempt_millis": 86_400_001},
    {"extractor": builders.provenance_json(origin="model_inference")},
    {"extractor": builders.provenance_json(origin="guess")},
    {"priority": 1},
]


@pytest.mark.parametrize("members", BAD_SPECS)
def test_bad_specification(api: Api, pair: tuple[Any, Any], members: dict[str, Any]) -> None:
    """Every bound of a specification is 400, before any source is looked at."""
    assert refusal(api, create(*pair, **members)) == (400, "invalid_request")


def test_bad_operations(api: Api, claimed: tuple[str, str], pair: tuple[Any, Any]) -> None:
    """Unknown usage is no reconciliation; there is no attempt 0 or 33; members belong to their operation."""
    job_id, fence = claimed
    reconcile = {
        "type": "reconcile_usage", "job_id": job_id, "expected_revision": 2, "attempt_number": 1,
        "usage": {"status": "unknown"}, "evidence_ref": "e",
    }  # fmt: skip
    found = {"source": pair[0], "target": pair[1], "kind": "supports", "evidence_ref": "e"}
    bad = [
        reconcile,
        {**reconcile, "usage": USAGE, "attempt_number": 0},
        {**reconcile, "usage": USAGE, "attempt_number": 33},
        {**reconcile, "usage": {**USAGE, "model_calls": 1.0}},
        {**reconcile, "usage": {"status": "reported", "model_calls": 1}},
        {"type": "claim", "job_id": job_id, "expected_revision": 0, "worker_id": "w"},
        {"type": "claim", "job_id": job_id, "expected_revision": 2, "worker_id": "w", "fence": fence},
        {"type": "steal", "job_id": job_id, "expected_revision": 2},
        publish(job_id, fence, *[found] * 17),
        {**publish(job_id, fence), "assertions": None},
    ]
    for operation in bad:
        assert refusal(api, operation) == (400, "invalid_request"), operation
    assert inspect(api, job_id)["job"]["revision"] == 2


def test_codes_of_state(api: Api, claimed: tuple[str, str], pair: tuple[Any, Any]) -> None:
    """404, 409 and 400 as documented: no job, stale revision, foreign fence, wrong status, live lease."""
    job_id, _ = claimed
    recover = {"type": "recover_expired", "job_id": job_id, "expected_revision": 2, "evidence_ref": "e"}
    claim = {"type": "claim", "job_id": job_id, "expected_revision": 2, "worker_id": "w"}
    assert refusal(api, {**recover, "job_id": ABSENT}) == (404, "record_not_found")
    assert refusal(api, {**recover, "expected_revision": 1}) == (409, "revision_conflict")
    assert refusal(api, {**recover, "expected_revision": U64_MAX}) == (409, "revision_conflict")
    assert refusal(api, recover) == (409, "revision_conflict")
    assert refusal(api, claim) == (400, "invalid_request")
    assert refusal(api, publish(job_id, ABSENT)) == (409, "revision_conflict")
    assert refusal(api, create(pair[0], builders.reference(ABSENT))) == (409, "revision_conflict")
    response = api.post("memory/consolidation/context", {"job_id": job_id, "expected_revision": 2, "fence": ABSENT})
    assert (response.status_code, response.json()["error"]["code"]) == (409, "revision_conflict")
    for path, body in (("inspect", {"job_id": ABSENT}), ("revision", {"job_id": job_id, "revision": 3})):
        response = api.post(f"memory/consolidation/{path}", body)
        assert (response.status_code, response.json()["error"]["code"]) == (404, "record_not_found")


def test_equivalent_spellings_replay(api: Api, claimed: tuple[str, str], pair: tuple[Any, Any]) -> None:
    """Order, blanks, null against absent and the case of UUIDs do not make another command; a character does."""
    job_id, fence = claimed
    found = {"source": pair[0], "target": pair[1], "kind": "supports", "evidence_ref": "e"}
    operation = publish(job_id, fence, found)
    receipt = command(api, operation, "K")
    spelled_out = {**found, "valid_from_millis": None, "valid_until_millis": None}
    loud = publish(job_id.upper(), fence.upper(), spelled_out)
    terse = {**publish(job_id, fence, found), "usage": {name: USAGE[name] for name in USAGE if name != "cost_microusd"}}
    reordered = dict(reversed(list(operation.items())))
    for other in (operation, loud, terse, reordered):
        assert command(api, other, "K") == receipt
    body = {"contract_version": 1, "scope": api.scope, "idempotency_key": "K", "operation": operation}
    response = api.client.post("/api/v1/memory/consolidation/commands", content=json.dumps(body, indent=4),
                               headers={"Content-Type": "application/json"})  # fmt: skip
    assert response.json()["receipt"] == receipt
    assert refusal(api, {**operation, "evidence_ref": "run:2"}, "K") == (409, "idempotency_conflict")
    assert refusal(api, create(*pair), "K") == (409, "idempotency_conflict")


@pytest.mark.parametrize(("key", "status"), [("k" * 256, 200), ("k" * 257, 400), ("a\u0007", 400), (" ", 400)])
def test_bounds_of_the_key(api: Api, pair: tuple[Any, Any], key: str, status: int) -> None:
    """A key has 1 to 256 bytes, is not blank and holds no control character."""
    body = {"idempotency_key": key, "operation": create(*pair)}
    assert api.post("memory/consolidation/commands", body).status_code == status


def test_counts_of_64_bits(api: Api, claimed: tuple[str, str]) -> None:
    """Usage keeps every digit up to 2^64-1; one more is 400."""
    job_id, fence = claimed
    fail = {
        "type": "fail", "job_id": job_id, "expected_revision": 2, "fence": fence, "evidence_ref": "e",
        "usage": {**USAGE, "input_tokens": U64_MAX, "cost_microusd": U64_MAX},
    }  # fmt: skip
    too_much = {**fail, "usage": {**USAGE, "input_tokens": U64_MAX + 1}}
    assert refusal(api, too_much) == (400, "invalid_request")
    command(api, fail)
    assert inspect(api, job_id)["job"]["attempts"][0]["usage"] == fail["usage"]


def test_body_limit(api: Api, pair: tuple[Any, Any]) -> None:
    """A body of more than 65,536 bytes is 413, blanks counted."""
    body = {
        "contract_version": 1, "scope": api.scope, "idempotency_key": "k", "operation": create(*pair),
    }  # fmt: skip
    text = json.dumps(body)
    headers = {"Content-Type": "application/json"}
    path = "/api/v1/memory/consolidation/commands"
    response = api.client.post(path, content=text + " " * (65_537 - len(text)), headers=headers)
    assert (response.status_code, response.json()["error"]["code"]) == (413, "invalid_request")
    assert api.client.post(path, content=text + " " * (65_536 - len(text)), headers=headers).status_code == 200


def test_another_version(api: Api) -> None:
    """Any other contract version has its own code."""
    response = api.post("memory/consolidation/inspect", {"contract_version": 2, "job_id": ABSENT})
    assert (response.status_code, response.json()["error"]["code"]) == (400, "unsupported_contract_version")


@pytest.fixture
def stranger(suite: Suite, api: Api) -> Iterator[Api]:
    """Another subject of the company in the same shared scope."""
    with suite.client(suite.issue("stranger", ["memory_read", "memory_write"])) as client:
        yield Api(client, api.scope)


def test_jobs_belong_to_their_subject(api: Api, stranger: Api, claimed: tuple[str, str]) -> None:
    """Another subject with the same memories finds neither the job nor a trace of it."""
    job_id, fence = claimed
    assert refusal(stranger, publish(job_id, fence)) == (404, "record_not_found")
    for path, body in (
        ("inspect", {"job_id": job_id}),
        ("revision", {"job_id": job_id, "revision": 1}),
        ("context", {"job_id": job_id, "expected_revision": 2, "fence": fence}),
    ):
        assert stranger.post(f"memory/consolidation/{path}", body).status_code == 404
    page = stranger.expect("memory/consolidation/query", {"query": {"limit": 1, "scan_limit": 1}})["page"]
    assert (page["jobs"], page["records_examined"]) == ([], 0)


def test_a_rotated_secret_keeps_the_lease(suite: Suite, api: Api, pair: tuple[Any, Any]) -> None:
    """The lease is the credential's, whatever its secret: the new one goes on, the old one is nobody's any more."""
    first_key = suite.issue("rotating", ["memory_read", "memory_write"])
    with suite.client(first_key) as client, suite.client(suite.admin_key) as admin:
        old = Api(client, api.scope)
        job_id = command(old, create(*pair))["job_id"]
        command(old, {"type": "claim", "job_id": job_id, "expected_revision": 1, "worker_id": "w"})
        fence = inspect(old, job_id)["job"]["attempts"][0]["fence"]
        credential = client.get("/api/v1/identity").json()["credential"]
        body = {"contract_version": 1, "expected_revision": credential["revision"]}
        rotated = admin.post(f"/api/v1/credentials/{credential['id']}/rotate", json=body)
        assert refusal(old, publish(job_id, fence)) == (401, "unauthorized")
        with suite.client(rotated.json()["secret"]) as renewed:
            receipt = command(Api(renewed, api.scope), publish(job_id, fence))
    assert (receipt["action"], receipt["author"]["credential_id"]) == ("published", credential["id"])


def test_restart_of_storage_fences_the_attempt(fresh_suite: Suite, fresh_api: Api) -> None:
    """After storage is killed, the attempt is recoverable, its holder refused, and everything acknowledged is there."""
    sources = [fresh_api.create("one"), fresh_api.create("two")]
    job_id = command(fresh_api, create(*sources))["job_id"]
    claim = {"type": "claim", "job_id": job_id, "expected_revision": 1, "worker_id": "w"}
    receipt = command(fresh_api, claim, "K")
    fence = inspect(fresh_api, job_id)["job"]["attempts"][0]["fence"]
    fresh_suite.kill("storage")
    fresh_suite.wait_healthy()
    inspection = inspect(fresh_api, job_id)
    assert (inspection["lease_active"], inspection["recoverable"]) == (False, True)
    assert command(fresh_api, claim, "K") == receipt
    assert refusal(fresh_api, publish(job_id, fence)) == (409, "revision_conflict")
    recover = {"type": "recover_expired", "job_id": job_id, "expected_revision": 2, "evidence_ref": "restart"}
    assert command(fresh_api, recover)["action"] == "recovered"


def test_death_of_the_service_keeps_the_lease(fresh_suite: Suite, fresh_api: Api) -> None:
    """The consolidation process holds nothing of its own: a lease outlives it."""
    sources = [fresh_api.create("one"), fresh_api.create("two")]
    job_id = command(fresh_api, create(*sources))["job_id"]
    command(fresh_api, {"type": "claim", "job_id": job_id, "expected_revision": 1, "worker_id": "w"})
    fence = inspect(fresh_api, job_id)["job"]["attempts"][0]["fence"]
    fresh_suite.kill("consolidation")
    fresh_suite.wait_healthy()
    assert inspect(fresh_api, job_id)["lease_active"]
    assert command(fresh_api, publish(job_id, fence))["action"] == "published"
