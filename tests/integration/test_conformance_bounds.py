"""Every member of every request at the edges of its bounds and one beyond, both ways; a refusal leaves no trace."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from services.domain.scope import partition_id, scope_from_json
from services.storage.client import GrpcStore
from tests.harness import builders, member_rules
from tests.harness.api import Api
from tests.harness.both_ways import BothWays, Outcome
from tests.harness.documented_jobs import EVERY, EVERY_SCOPED
from tests.harness.documented_requests import Documented, Known, by_name, make_known
from tests.harness.job_rules import JOB_RULES, REPEATED, Rules
from tests.harness.member_rules import (
    DIMENSIONS,
    EVENT_TIME,
    FLOAT32_MAX,
    MILLIS,
    MIN_SCORE,
    NAME,
    QUERY_TEXT,
    REFERENCE,
    REVISION,
    SCAN_BYTES,
    SPACE_NAME,
    UUID,
    VECTOR,
    Raw,
    Rule,
    integer,
    with_member,
    words,
)
from tests.harness.partition_audit import read_rows
from tests.harness.suite import COMPANY, Suite

pytestmark = pytest.mark.both_entrances

BY_NAME = {route.name: route for route in EVERY}


def ids(least: int, greatest: int) -> Rule:
    """A list of distinct record ids."""
    many = [f"00000000-0000-4000-8000-{number:012d}" for number in range(greatest + 1)]
    one = "00000000-0000-4000-8000-00000000dead"
    bad = ([], many, [one, one], [one, one.upper()], ["dead"], [1], [None], [[one]], one, {}, [one, ""])
    return Rule((many[:least], many[:-1]), bad)


def references(least: int, greatest: int) -> Rule:
    """A list of references to distinct records."""
    many = [builders.reference(f"00000000-0000-4000-8000-{number:012d}") for number in range(greatest + 1)]
    one = builders.reference("00000000-0000-4000-8000-00000000dead")
    again = builders.reference("00000000-0000-4000-8000-00000000DEAD", 2)
    bad = (many, [one, again], [{**one, "revision": 0}], [{**one, "record_id": ""}], [{}], [None], [1], one, "x")
    return Rule((many[:least], many[:-1]), bad if least == 0 else (*bad, []))


STRING = Rule(
    ("", "x" * 9000, "a\nb\x00", "\ud83d\udc1d"), (1, True, [], {}, Raw('"\\ud800"'), Raw('"\\udc1d\\ud83d"'))
)
EPISODE_TYPE = Rule(
    ("Conversation", "TaskExecution", "Observation", "Decision", "Error", {"Custom": "x"}, {"Custom": "Error"}),
    (
        *("observation", "Custom", "", 1, True, [], {}, ["Error"]),
        *({"custom": "x"}, {"Custom": 1}, {"Custom": None}, {"Custom": "x", "more": 1}, {"Observation": None}),
    ),
)
DEEP = 40
FREE_FORM = Rule(
    ("x", 0, 2**64 - 1, -(2**63), 1.5, True, [], {}, [{"a": [None]}], Raw("[" * DEEP + "]" * DEEP), {"a b\n": ""}),
    (
        *(2**64, -(2**63) - 1, Raw("NaN"), Raw("-Infinity"), Raw("1e400")),
        *(Raw('{"a":1,"a":2}'), Raw('{"a":1,"\\u0061":2}'), Raw("[" * 5000 + "]" * 5000)),
        *(Raw('"\\ud800"'), Raw('{"\\ud800":1}'), Raw("[01]"), Raw("[1,]"), Raw("tru")),
    ),
)
METADATA = Rule(({}, {"n": 2**64 - 1, "": [None]}), ([], "x", 1, True, Raw('{"a":1,"a":1}'), {"n": 2**64}))
EMBEDDING = Rule(([], [0.5, -1], [FLOAT32_MAX, -FLOAT32_MAX]), ([3.5e38], ["1"], [None], [True], "x", {}, 1))
TAGS = Rule(([], ["a", "a"], [""]), ([1], [None], "a", {}, [["a"]]))
TAG = Rule(("", "x", "x" * 3000), (1, [], {}, True))
DISPOSITION = words("approved", "rejected", "unreviewed")
LIMIT_100, SCAN_LIMIT = integer(1, 100), integer(1, 10_000).optional()


def record(at: str) -> Rules:
    """A RecordInput."""
    return {
        f"{at}.episode_type": EPISODE_TYPE,
        f"{at}.content.primary": STRING,
        f"{at}.content.secondary": STRING.nullable(),
        f"{at}.content.context": STRING.nullable(),
        f"{at}.content.data": FREE_FORM.nullable(),
        f"{at}.content.embedding": EMBEDDING.nullable(),
        f"{at}.event_time_millis": EVENT_TIME,
        f"{at}.valid_until_millis": MILLIS.nullable(),
    }


def space(at: str) -> Rules:
    """An EmbeddingSpace of three dimensions."""
    names = {f"{at}.{name}": SPACE_NAME for name in ("provider", "model", "revision")}
    return {**names, f"{at}.dimensions": DIMENSIONS}


def filters(at: str) -> Rules:
    """What narrows every search."""
    return {f"{at}.episode_type": EPISODE_TYPE.nullable(), f"{at}.tag": TAG.nullable()}


def relation_step() -> Rules:
    """What retire, restore and review share."""
    at = "operation"
    return {f"{at}.relation_id": UUID, f"{at}.expected_revision": REVISION, f"{at}.evidence_ref": REFERENCE}


KEYED = {"idempotency_key": NAME}
TARGET = {"operation.record_id": UUID, "operation.expected_revision": REVISION}
# Seeds of graph search are tagged; these are the members of a hybrid one.
TABLE: dict[str, Rules] = {
    "create": {
        **KEYED,
        **record("operation.record"),
        "operation.record.tags": TAGS.optional(),
        "operation.record.metadata": METADATA.optional(),
    },
    "update": {**KEYED, **TARGET, **record("operation.record")},
    "delete": {**KEYED, **TARGET},
    "derive": {
        **KEYED,
        "operation.derivation.sources": references(1, 16),
        "operation.derivation.sources[0].record_id": UUID,
        "operation.derivation.sources[0].revision": REVISION,
        "operation.derivation.method": NAME,
        "operation.derivation.method_revision": NAME,
        "operation.derivation.evidence_ref": REFERENCE,
        "operation.record.event_time_millis": EVENT_TIME,
    },
    "query": {
        "filter.limit": integer(1, 1000),
        "filter.after": UUID.nullable(),
        "filter.text_contains": STRING.nullable(),
        "filter.episode_type": EPISODE_TYPE.nullable(),
        "filter.tag": TAG.nullable(),
        "filter.scan_limit": SCAN_LIMIT,
    },
    "ordered": {
        "query.order": words("created_desc", "created_asc").optional(),
        "query.limit": LIMIT_100.optional(),
        "query.scan_limit": SCAN_LIMIT,
        "query.cursor": Rule((), ("", "00", "0" * 112, "0" * 1024, "0" * 1025, "zz", 1, [], {})).nullable(),
        "query.text_contains": STRING.nullable(),
        "query.tag": TAG.nullable(),
        "query.episode_type": EPISODE_TYPE.nullable(),
    },
    "batch": {"record_ids": ids(1, 100)},
    "attach": {
        "idempotency_key": member_rules.text(256, may_be_blank=True),
        "record_id": UUID,
        "record_revision": REVISION,
        **space("space"),
        "vector": VECTOR,
    },
    "review": {
        "command.idempotency_key": NAME,
        "command.record_id": UUID,
        "command.expected_revision": REVISION,
        "command.disposition": DISPOSITION,
        "command.evidence_ref": REFERENCE,
    },
    "review-state": {"record_id": UUID},
    "review-read": {"record_id": UUID, "revision": REVISION},
    "eligibility": {"record_id": UUID},
    "assert": {
        **KEYED,
        "operation.relation.source.record_id": UUID,
        "operation.relation.source.revision": REVISION,
        "operation.relation.target.record_id": UUID,
        "operation.relation.target.revision": REVISION,
        "operation.relation.kind": words(
            "semantic_related", "same_entity", "temporal_before", "causal_claim", "supports", "contradicts"
        ).without("temporal_before"),
        "operation.relation.provenance.origin": words("tool_observation", "human_statement", "imported_assertion"),
        "operation.relation.provenance.method": NAME,
        "operation.relation.provenance.method_revision": NAME,
        "operation.relation.provenance.evidence_ref": REFERENCE,
        "operation.relation.valid_from_millis": MILLIS.nullable(),
        "operation.relation.valid_until_millis": MILLIS.nullable(),
        "operation.relation.evidence_sources": references(0, 16).optional(),
    },
    "retire": {**KEYED, **relation_step()},
    "restore": {**KEYED, **relation_step()},
    "review-relation": {**KEYED, **relation_step(), "operation.disposition": DISPOSITION},
    "relation": {"relation_id": UUID},
    "inspect": {"relation_id": UUID},
    "revision": {"relation_id": UUID, "revision": REVISION},
    "semantic": {
        **space("query.space"),
        "query.vector": VECTOR,
        "query.limit": LIMIT_100,
        "query.min_score": MIN_SCORE,
        "query.after": UUID.nullable(),
        "query.scan_limit": SCAN_LIMIT,
        **filters("query"),
    },
    "lexical": {
        "mode": words("lexical"),
        "query.text": QUERY_TEXT,
        "query.limit": LIMIT_100,
        "query.scan_limit": SCAN_LIMIT,
        "query.scan_bytes_limit": SCAN_BYTES,
        "query.after": UUID.nullable(),
        **filters("query"),
    },
    "hybrid": {
        "mode": words("hybrid"),
        "query.text": QUERY_TEXT,
        **space("query.space"),
        "query.vector": VECTOR,
        "query.ranking_version": words("weighted_rrf_v1", "weighted_rrf_v2"),
        "query.limit": LIMIT_100,
        "query.min_score": MIN_SCORE,
        "query.scan_limit": SCAN_LIMIT,
        "query.scan_bytes_limit": SCAN_BYTES,
        "query.after": UUID.nullable(),
        **filters("query"),
    },
    "graph-search": {
        "query.ranking_version": words(
            *(f"typed_path_{kind}_v1" for kind in ("balanced", "entity", "temporal", "evidence"))
        ),
        "query.seed.text": QUERY_TEXT,
        **space("query.seed.space"),
        "query.seed.vector": VECTOR,
        "query.seed.ranking_version": words("weighted_rrf_v1", "weighted_rrf_v2"),
        "query.seed.min_score": MIN_SCORE,
        "query.limit": LIMIT_100,
        "query.scan_limit": SCAN_LIMIT,
        "query.scan_bytes_limit": SCAN_BYTES,
        **filters("query"),
        "query.expansion.direction": words("outgoing", "incoming", "both"),
        "query.expansion.max_depth": integer(0, 8),
        "query.expansion.node_limit": integer(1, 256),
        "query.expansion.edge_limit": integer(1, 1024),
        "query.expansion.scan_limit": integer(1, 4096),
        "query.expansion.embedding_bytes_limit": integer(1, 8_388_608),
    },
    "typed-graph": {
        "query.root_record_ids": ids(1, 16),
        "query.direction": words("outgoing", "incoming", "both").optional(),
        "query.relation_kinds": Rule(
            (["supports"], ["contradicts", "supports"]),
            ([], ["supports"] * 2, ["Supports"], [""], [1], [None], "supports", {}),
        ).optional(),
        "query.max_depth": integer(0, 8).optional(),
        "query.node_limit": integer(1, 256).optional(),
        "query.edge_limit": integer(1, 1024).optional(),
        "query.scan_limit": integer(1, 4096).optional(),
    },
    "ancestry": {
        "query.root_record_ids": ids(1, 16),
        "query.max_depth": integer(0, 8).optional(),
        "query.node_limit": integer(1, 256).optional(),
    },
    **JOB_RULES,
}
SCOPE_RULES: Rules = {
    "scope.project_id": NAME,
    "scope.mission_id": NAME.nullable(),
    "scope.agent_id": NAME,
    "scope.visibility": words("private", "shared"),
}
MEMBERS = [
    pytest.param(BY_NAME[name], path, marks=[pytest.mark.deep] if (name, path) in REPEATED else [])
    for name, rules in TABLE.items()
    for path in rules
]
MEMBERS += [pytest.param(BY_NAME[name], path) for name in ("query", "semantic", "job-claim") for path in SCOPE_RULES]
POSTS = [route for route in EVERY if route.body is not None]


def rule_of(route: Documented, path: str) -> Rule:
    return SCOPE_RULES.get(path) or TABLE[route.name][path]


def member_id(value: Any) -> str:
    return value.name if isinstance(value, Documented) else str(value)


@pytest.fixture(scope="module")
def settled(suite: Suite) -> Iterator[Known]:
    """A memory that the tests of this module share. Accepted values add to it; refused ones must not."""
    with suite.client() as client:
        yield make_known(Api(client, builders.scope_json(builders.new_key("bounds"))))


@pytest.fixture(scope="module")
def calm(suite: Suite) -> Iterator[Known]:
    """A memory that no test of this module adds to: how much a search examines depends on it."""
    with suite.client() as client:
        yield make_known(Api(client, builders.scope_json(builders.new_key("bounds"))))


EXPANSION = {
    "direction": "both",
    "max_depth": 2,
    "node_limit": 16,
    "edge_limit": 16,
    "scan_limit": 64,
    "embedding_bytes_limit": 4096,
}


def whole_body(route: Documented, known: Known) -> dict[str, Any]:
    """A good body in which optional objects stand too."""
    body = route.body_for(known)
    assert body is not None
    if route.name == "graph-search":
        body["query"]["expansion"] = EXPANSION
    return body


def dump(suite: Suite, known: Known) -> dict[bytes, bytes]:
    """Every row of the memory's partition."""
    with GrpcStore(suite.address("storage")) as store:
        return read_rows(store, partition_id(COMPANY, scope_from_json(known.scope), None))


def post(both: BothWays, route: Documented, text: str) -> Outcome:
    return both.send("POST", route.path, text)


@pytest.mark.parametrize(("route", "path"), MEMBERS, ids=member_id)
def test_values_beyond_the_bounds(both: BothWays, settled: Known, route: Documented, path: str) -> None:
    """Each is 400 with its documented code, names the member, writes nothing, and leaves the good request good."""
    rule, body = rule_of(route, path), whole_body(route, settled)
    before = dump(both.suite, settled)
    for value in rule.refused:
        outcome = post(both, route, with_member(body, path, value))
        assert 400 == outcome.status, value
        assert outcome.document["error"]["code"] in {rule.code, "invalid_request"}, value
        if rule.code != "invalid_request" and type(value) is int:
            assert rule.code == outcome.code, value
        if path_is_read(value):
            assert path in outcome.document["error"]["message"], value
            assert (outcome.member or path).startswith(path), value
    assert before == dump(both.suite, settled)
    assert (200, "") == post(both, route, json.dumps(body)).verdict


def path_is_read(value: Any) -> bool:
    """Whether the parser came as far as the member; broken JSON is named by its position."""
    if not isinstance(value, Raw):
        return True
    try:
        json.loads(value.text)
    except (ValueError, RecursionError):
        return False
    return "NaN" not in value.text and "Infinity" not in value.text


@pytest.mark.parametrize(("route", "path"), MEMBERS, ids=member_id)
def test_values_at_the_edge_of_the_bounds(
    both: BothWays, settled: Known, calm: Known, route: Documented, path: str
) -> None:
    """Each is understood: served, or refused for what it means, never for its shape; the description allows it too."""
    rule = rule_of(route, path)
    schema = both.shapes.operation("POST", f"/api/v1/{route.path}")["requestBody"]["content"]["application/json"]
    body = whole_body(route, settled if route.is_write else calm)
    for value in rule.accepted:
        if route.is_write and not path.endswith("idempotency_key"):
            body = with_new_key(body)
        text = with_member(body, path, value)
        assert [] == both.shapes.faults_of(schema["schema"], json.loads(text)), value
        outcome = post(both, route, text)
        assert 400 != outcome.status, (value, outcome.text)


def with_new_key(body: dict[str, Any]) -> dict[str, Any]:
    """The same command under another key."""
    key = {"idempotency_key": builders.new_key("edge")}
    return {**body, "command": {**body["command"], **key}} if "command" in body else {**body, **key}


@pytest.mark.parametrize("route", POSTS, ids=by_name)
def test_versions_and_objects(both: BothWays, settled: Known, route: Documented) -> None:
    """Another version has its own code. Objects are closed at every level, and nothing else stands in their place."""
    body = whole_body(route, settled)
    before = dump(both.suite, settled)
    at = "command.contract_version" if "command" in body else "contract_version"
    for value in member_rules.VERSION.bad:
        assert (400, "unsupported_contract_version") == post(both, route, with_member(body, at, value)).verdict, value
    for value in (*member_rules.VERSION_TYPE.bad, None, member_rules.ABSENT):
        assert (400, "invalid_request") == post(both, route, with_member(body, at, value)).verdict, value
    for path in objects(body):
        unknown = f"{path}.surprise" if path else "surprise"
        outcome = post(both, route, with_member(body, unknown, 1))
        assert (400, "invalid_request") == outcome.verdict, path
        assert unknown in outcome.document["error"]["message"]
        for other in ([], "x", 1, None) if path else ():
            outcome = post(both, route, with_member(body, path, other))
            assert (400, "invalid_request") == outcome.verdict, (path, other)
            assert path in outcome.document["error"]["message"]
    for text in ("[]", '"x"', "1", "null", "", " ", "{", json.dumps(body) + "}", "\ufeff" + json.dumps(body)):
        response = both.send("POST", route.path, text or "\n")
        assert (400, "invalid_request") == response.verdict, text
    assert before == dump(both.suite, settled)


def objects(value: Any, at: str = "") -> Iterator[str]:
    """Paths of all objects of a body; the free-form ones are not in any good request."""
    if isinstance(value, dict):
        yield at
        for name, inner in value.items():
            yield from objects(inner, f"{at}.{name}" if at else name)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from objects(inner, f"{at}[{index}]")


def test_every_documented_member_is_in_the_table() -> None:
    """No request member of the memory, search and job routes escapes the table of this module."""
    assert set(TABLE) == {route.name for route in POSTS}
    assert set(EVERY_SCOPED) - set(POSTS) == {BY_NAME["read"]}
