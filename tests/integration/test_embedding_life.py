"""The life of a binding through a whole suite: attached, replayed, outdated, replaced, gone."""

from __future__ import annotations

from typing import Any

import pytest

from tests.harness import builders
from tests.harness.api import Api
from tests.harness.both_ways import BothWays, Outcome
from tests.harness.untouched import untouched

pytestmark = pytest.mark.usefixtures("left_sound")

Json = dict[str, Any]
EAST, NORTH = [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]


def attach(both: BothWays, api: Api, record: Json, vector: list[float], *, key: str = "", **members: Any) -> Outcome:
    body = builders.attach_body(api.scope, record["record_id"], vector, revision=record["revision"], key=key, **members)
    return both.send("POST", "memory/embeddings", body)


def receipt_of(outcome: Outcome) -> Json:
    assert (200, "") == outcome.verdict, outcome.text
    receipt: Json = outcome.document["receipt"]
    return receipt


def page(
    both: BothWays, api: Api, *, space: Json | None = None, vector: list[float] | None = None, **more: Any
) -> Json:
    query = {"space": space or builders.SPACE, "vector": vector or EAST, "limit": 10, **more}
    outcome = both.post("memory/search", {"scope": api.scope, "query": query})
    assert (200, "") == outcome.verdict, outcome.text
    found: Json = outcome.document["page"]
    return found


def review(both: BothWays, api: Api, record: Json, disposition: str) -> Json:
    command = {
        "contract_version": 1, "idempotency_key": builders.new_key(), "record_id": record["record_id"],
        "expected_revision": record["revision"], "disposition": disposition, "evidence_ref": "e",
    }  # fmt: skip
    assert (200, "") == both.post("memory/reviews", {"scope": api.scope, "command": command}).verdict
    return {**record, "revision": record["revision"] + 1}


def test_a_hit_shows_the_first_receipt(both: BothWays, api: Api) -> None:
    """The same vector under another key has a receipt of its own, and the binding keeps the one it was made with."""
    record = api.create("bound")
    first = receipt_of(attach(both, api, record, EAST))
    second = receipt_of(attach(both, api, record, EAST))
    assert first["idempotency_key"] != second["idempotency_key"]
    assert first["vector_digest"] == second["vector_digest"]
    (hit,) = page(both, api)["hits"]
    assert (first, 1.0) == (hit["embedding"], hit["score"])
    assert record["revision"] == hit["record"]["revision"]


def test_a_vector_is_immutable_within_its_revision(both: BothWays, api: Api) -> None:
    """Another vector for the same revision and space is 409 under any key, and the first stays."""
    record = api.create("bound")
    first = receipt_of(attach(both, api, record, EAST, key="first"))
    with untouched(both.suite, api.scope):
        assert 409 == attach(both, api, record, NORTH).status
        assert (409, "idempotency_conflict") == attach(both, api, record, NORTH, key="first").verdict
        assert (409, "revision_conflict") == attach(both, api, {**record, "revision": 2}, NORTH).verdict
    assert [first] == [hit["embedding"] for hit in page(both, api)["hits"]]


def test_spaces_are_apart(both: BothWays, api: Api) -> None:
    """Any of the four members makes another space; each has its own vector, and none is searched from another."""
    record = api.create("bound")
    spaces: list[Json] = [
        builders.SPACE,
        {**builders.SPACE, "provider": "other"},
        {**builders.SPACE, "model": "Toy"},
        {**builders.SPACE, "revision": "1 "},
        {**builders.SPACE, "dimensions": 2},
    ]
    for number, space in enumerate(spaces):
        vector = [1.0, float(number), 0.0][: space["dimensions"]]
        receipt_of(attach(both, api, record, vector, space=space))
    for number, space in enumerate(spaces):
        vector = [1.0, float(number), 0.0][: space["dimensions"]]
        (hit,) = page(both, api, space=space, vector=vector)["hits"]
        assert abs(1.0 - hit["score"]) < 1e-12
        assert space == hit["embedding"]["space"]
    assert [] == page(both, api, space={**builders.SPACE, "revision": "2"})["hits"]


def test_every_new_revision_outdates_it(both: BothWays, api: Api) -> None:
    """An update or any review makes it stale: counted, never scored; a vector for the new revision is found again."""
    record = api.create("bound")
    first = receipt_of(attach(both, api, record, EAST, key="first"))
    changes = [lambda at: api.update(at, "changed")]
    changes += [lambda at, to=to: review(both, api, at, to) for to in ("approved", "unreviewed", "approved")]
    for change in changes:
        former, record = record, change(record)
        stale = page(both, api)
        assert ([], 1, 0) == (stale["hits"], stale["scanned_embeddings"], stale["matched_records"])
        assert (409, "revision_conflict") == attach(both, api, former, NORTH).verdict
        assert first == receipt_of(attach(both, api, {**record, "revision": 1}, EAST, key="first"))
        assert [] == page(both, api)["hits"]
        again = receipt_of(attach(both, api, record, EAST))
        (hit,) = page(both, api)["hits"]
        assert (again, record["revision"]) == (hit["embedding"], hit["record"]["revision"])


def test_nothing_brings_it_back_to_a_deleted_record(both: BothWays, api: Api) -> None:
    """The receipt is still told under its key; a new attachment is 404, to the old revision and to the tombstone's."""
    record = api.create("bound")
    first = receipt_of(attach(both, api, record, EAST, key="first"))
    tombstone = api.delete(record)
    with untouched(both.suite, api.scope):
        assert first == receipt_of(attach(both, api, record, EAST, key="first"))
        assert (404, "record_not_found") == attach(both, api, tombstone, EAST).verdict
        assert (404, "record_not_found") == attach(both, api, record, EAST).verdict
        unknown = builders.reference("00000000-0000-4000-8000-00000000dead")
        assert (404, "record_not_found") == attach(both, api, unknown, EAST).verdict
    gone = page(both, api)
    assert ([], 0) == (gone["hits"], gone["scanned_embeddings"])


def test_dimensions_are_those_of_the_space(both: BothWays, api: Api) -> None:
    """None at all has a code of its own; a vector of another length is the vector's fault."""
    record = api.create("bound")
    with untouched(both.suite, api.scope):
        zero = attach(both, api, record, EAST, space={**builders.SPACE, "dimensions": 0})
        assert (400, "embedding_dimension_limit") == zero.verdict
        for dimensions in (2, 4, 32_768):
            other = attach(both, api, record, EAST, space={**builders.SPACE, "dimensions": dimensions})
            assert (400, "invalid_request") == other.verdict
            assert "vector" == other.member
        for dimensions in (32_769, 2**31, 2**64 - 1):
            outcome = attach(both, api, record, EAST, space={**builders.SPACE, "dimensions": dimensions})
            assert 400 == outcome.status
    body = builders.attach_body(api.scope, record["record_id"], EAST, key="v" * 256)
    assert 256 == len(receipt_of(both.send("POST", "memory/embeddings", body))["idempotency_key"])
