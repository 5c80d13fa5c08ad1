"""Failure cases of comparable systems, end to end: each test names the kind of mistake that it keeps out."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.harness import builders
from tests.harness.api import Api
from tests.harness.suite import Suite

pytestmark = pytest.mark.both_entrances

U64_MAX = 18_446_744_073_709_551_615


def update_text(scope: dict[str, Any], revision: str, record_id: str) -> str:
    """The body of an update whose expected revision is spelled as given."""
    body = {
        "contract_version": 1,
        "idempotency_key": builders.new_key(),
        "scope": scope,
        "operation": {
            "type": "update",
            "record_id": record_id,
            "expected_revision": "REVISION",
            "record": builders.record_json("changed"),
        },
    }
    return json.dumps(body).replace('"REVISION"', revision)


def post_text(api: Api, path: str, text: str) -> tuple[int, str]:
    """Status and code (empty for success) of a body sent as it is."""
    response = api.client.post(f"/api/v1/{path}", content=text, headers={"content-type": "application/json"})
    return response.status_code, "" if response.status_code == 200 else response.json()["error"]["code"]


@pytest.mark.parametrize("spelling", ["9223372036854775809", str(U64_MAX)])
def test_revisions_use_all_64_bits(api: Api, spelling: str) -> None:
    """C06: such a revision is understood exactly, and refused for its value only."""
    record = api.create("first")
    assert post_text(api, "memory/commands", update_text(api.scope, spelling, record["record_id"])) == (
        409,
        "revision_conflict",
    )


@pytest.mark.parametrize(
    "spelling",
    [
        str(U64_MAX + 1),
        "9.223372036854775809e18",
        "1e3",
        "1.0",
        "1.5",
        "-1",
        "0",
        "01",
        "+1",
        '"1"',
        '"1_000"',
        "true",
        "null",
        "NaN",
        "1" * 5000,
    ],
)
def test_only_plain_digits_are_a_revision(api: Api, spelling: str) -> None:
    """C06: every other spelling is 400, and the record stays as it was."""
    record = api.create("first")
    assert post_text(api, "memory/commands", update_text(api.scope, spelling, record["record_id"])) == (
        400,
        "invalid_request",
    )
    assert api.get(record["record_id"]).json()["record"]["revision"] == 1


def duplicate_scope(text: str) -> str:
    """The scope twice."""
    return text.replace('"scope"', '"scope": {}, "scope"', 1)


def duplicate_in_metadata(text: str) -> str:
    """A member of free-form JSON twice, equal only after its escape."""
    return text.replace('"content"', '"metadata": {"id": 1, "\\u0069d": 2}, "content"', 1)


def misspelt(text: str) -> str:
    """A typing mistake in the member that guards an update."""
    return text.replace("expected_revision", "expected_revison", 1)


def camel_case(text: str) -> str:
    """Protobuf's own spelling."""
    return text.replace("expected_revision", "expectedRevision", 1)


def wrong_version(text: str) -> str:
    """A version that nobody speaks."""
    return text.replace('"contract_version": 1', '"contract_version": 2', 1)


@pytest.mark.parametrize("spoil", [duplicate_scope, duplicate_in_metadata, misspelt, camel_case, wrong_version])
def test_duplicate_and_unknown_members_change_nothing(api: Api, spoil: Callable[[str], str]) -> None:
    """C07: a typing mistake never becomes an unconditional update."""
    record = api.create("first")
    status, code = post_text(api, "memory/commands", spoil(update_text(api.scope, "1", record["record_id"])))
    assert status == 400
    assert code == ("unsupported_contract_version" if spoil is wrong_version else "invalid_request")
    assert api.get(record["record_id"]).json()["record"]["revision"] == 1


def test_query_parameters_are_strict(api: Api) -> None:
    """C07: unknown and repeated parameters are 400."""
    record = api.create("first")
    path = f"/api/v1/memory/records/{record['record_id']}"
    query = {name: value for name, value in api.scope.items() if value is not None} | {"contract_version": "1"}
    assert api.client.get(path, params=query).status_code == 200
    assert api.client.get(path, params=query | {"verbose": "1"}).status_code == 400
    assert api.client.get(path, params=[*query.items(), ("agent_id", "other")]).status_code == 400


def test_the_same_write_fifty_times_at_once_is_one_write(suite: Suite, api: Api) -> None:
    """C13: fifty callers with one key and one command get one receipt, and one record exists."""
    body = builders.create_body(api.scope, "written once", key=builders.new_key())
    receipts = at_once(suite, [body] * 50)
    assert {status for status, _ in receipts} == {200}
    assert len({json.dumps(document, sort_keys=True) for _, document in receipts}) == 1
    assert len(records_of(api)) == 1


def test_fifty_commands_under_one_key_have_one_winner(suite: Suite, api: Api) -> None:
    """C13: the others are told of the conflict, and only the winner's record exists."""
    key = builders.new_key()
    answers = at_once(suite, [builders.create_body(api.scope, f"text {number}", key=key) for number in range(50)])
    statuses = [status for status, _ in answers]
    assert (statuses.count(200), statuses.count(409)) == (1, 49)
    codes = {document["error"]["code"] for status, document in answers if status == 409}
    assert codes == {"idempotency_conflict"}
    assert len(records_of(api)) == 1


def test_equal_text_under_other_keys_is_not_merged(suite: Suite, api: Api) -> None:
    """C13: content never decides identity."""
    bodies = [builders.create_body(api.scope, "the same text", key=builders.new_key()) for _ in range(50)]
    assert {status for status, _ in at_once(suite, bodies)} == {200}
    assert len(records_of(api)) == 50


def test_spelling_does_not_make_another_command(api: Api) -> None:
    """C15: member order, null, absence, defaults and capitals of a UUID are the same command; one letter is not."""
    record = api.create("first")
    key = builders.new_key()
    operation = {
        "type": "update",
        "record_id": record["record_id"],
        "expected_revision": 1,
        "record": builders.record_json("second"),
    }
    first = api.expect("memory/commands", {"idempotency_key": key, "operation": operation})
    payload = {"tags": [], "metadata": {}, "valid_until_millis": None, **dict(reversed(operation["record"].items()))}
    respelled = {**operation, "record": payload, "record_id": record["record_id"].upper()}
    assert first == api.expect("memory/commands", {"operation": respelled, "idempotency_key": key})
    other = {**operation, "record": builders.record_json("Second")}
    refused = api.post("memory/commands", {"idempotency_key": key, "operation": other})
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "idempotency_conflict")


def test_a_refused_command_does_not_use_its_key_up(api: Api) -> None:
    """C15: corrected, it goes through under the same key."""
    record = api.create("first")
    key = builders.new_key()
    operation = {"type": "delete", "record_id": record["record_id"], "expected_revision": 7}
    assert api.post("memory/commands", {"idempotency_key": key, "operation": operation}).status_code == 409
    api.expect("memory/commands", {"idempotency_key": key, "operation": {**operation, "expected_revision": 1}})
    assert api.get(record["record_id"]).status_code == 404


def test_an_opaque_cursor_that_was_touched_is_refused(api: Api) -> None:
    """C22: flipped, cut, in capitals, or under another order or scope; another limit is fine."""
    for number in range(5):
        api.create(f"record {number}")
    query = {"limit": 2, "order": "created_asc"}
    cursor = api.expect("memory/query/ordered", {"query": query})["page"]["next_cursor"]
    flipped = ("0" if cursor[0] != "0" else "1") + cursor[1:]
    for misused in (flipped, cursor[:-2], cursor.upper() + "F", cursor[::-1]):
        assert api.post("memory/query/ordered", {"query": {**query, "cursor": misused}}).status_code == 400
    elsewhere = {**api.scope, "agent_id": "another"}
    assert api.post("memory/query/ordered", {"query": {"limit": 2, "cursor": cursor}}).status_code == 400
    assert (
        api.post("memory/query/ordered", {"scope": elsewhere, "query": {**query, "cursor": cursor}}).status_code == 400
    )
    rest = api.expect("memory/query/ordered", {"query": {**query, "limit": 5, "cursor": cursor}})["page"]
    assert len(rest["records"]) == 3


@pytest.mark.parametrize("max_depth", range(9))
def test_cycles_and_parallel_assertions_never_raise_a_score(api: Api, max_depth: int) -> None:
    """C23: an equal second assertion and the way back change no score, and no record stands twice on a path."""
    first, second, third = (api.create(text) for text in ("alpha start", "beta middle", "gamma end"))
    api.relate(first, second)
    before = graph_scores(api, max_depth)
    api.relate(first, second)
    api.relate(second, first)
    assert graph_scores(api, max_depth) == before
    api.relate(second, third)
    api.relate(third, first)
    for hit in graph_page(api, max_depth)["hits"]:
        steps = (hit["graph"] or {"steps": []})["steps"]
        walked = [step["from"]["record_id"] for step in steps] + [step["to"]["record_id"] for step in steps[-1:]]
        assert len(walked) == len(set(walked))
        assert len(steps) <= max_depth


def test_a_relation_to_itself_is_refused(api: Api) -> None:
    """C23: no self-edge is stored."""
    record = api.create("alpha")
    body = builders.assert_body(api.scope, record, record, "supports")
    refused = api.post("memory/relations/commands", body)
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "invalid_request")


def test_logs_hold_neither_keys_nor_content(suite: Suite, api: Api) -> None:
    """G5: nothing of a body, accepted or refused, and no credential appears in the logs."""
    api.create("a secret of the hive: marmalade-7731")
    api.post("memory/commands", {"idempotency_key": "k", "operation": {"type": "marmalade-7732"}})
    api.client.get("/api/v1/identity", headers={"authorization": "Bearer qdb1_marmalade-7733"})
    log = suite.log.read_text(encoding="utf-8")
    assert "marmalade" not in log
    assert suite.writer_key not in log


def at_once(suite: Suite, bodies: list[dict[str, Any]]) -> list[tuple[int, dict[str, Any]]]:
    """Send commands from as many threads behind one barrier; status and document of each."""
    barrier = threading.Barrier(len(bodies))

    def send(body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        with suite.client() as client:
            barrier.wait()
            response = client.post("/api/v1/memory/commands", json=body)
            return response.status_code, response.json()

    with ThreadPoolExecutor(len(bodies)) as threads:
        return list(threads.map(send, bodies))


def records_of(api: Api) -> list[dict[str, Any]]:
    """Every record of the scope."""
    records: list[dict[str, Any]] = api.expect("memory/query", {"filter": {"limit": 1000}})["page"]["records"]
    return records


def graph_page(api: Api, max_depth: int) -> dict[str, Any]:
    """Graph search from the word "alpha"."""
    expansion = {
        "direction": "both",
        "max_depth": max_depth,
        "node_limit": 64,
        "edge_limit": 64,
        "scan_limit": 256,
        "embedding_bytes_limit": 1024,
    }
    query = {
        "ranking_version": "typed_path_balanced_v1",
        "seed": {"mode": "lexical", "text": "alpha"},
        "limit": 10,
        "expansion": expansion,
    }
    page: dict[str, Any] = api.expect("memory/search/graph", {"query": query})["page"]
    return page


def graph_scores(api: Api, max_depth: int) -> list[tuple[str, float]]:
    """Records and scores, best first."""
    return [(hit["record"]["record_id"], hit["score"]) for hit in graph_page(api, max_depth)["hits"]]
