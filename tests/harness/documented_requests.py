"""One good request for each documented route and command, with the authority that the contract asks for.

The table is written by hand from the contract, so that what the descriptors declare is held against something.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.harness import builders
from tests.harness.api import Api

Json = dict[str, Any]

READ, WRITE, REVIEW, ADMIN = "memory_read", "memory_write", "memory_review", "credential_admin"
EAST = [1.0, 0.0, 0.0]
ABSENT = "00000000-0000-4000-8000-00000000dead"
WORK = frozenset({"x-qilbee-scanned-records", "x-qilbee-candidate-index-bytes", "x-qilbee-scanned-bytes"})
SELECTION = WORK | {"x-qilbee-candidate-selection-version"}


@dataclass(frozen=True, slots=True)
class Known:
    """A small memory in one scope: two records with vectors, a relation between them, and a derived record.

    Attributes:
        api: The writer in the scope; requests may make what they need with it.
    """

    api: Api
    first: Json
    second: Json
    derived: Json
    relation_id: str

    @property
    def scope(self) -> Json:
        return self.api.scope


def make_known(api: Api) -> Known:
    """Fill an empty scope."""
    first = api.create("alpha hive", tags=["t"])
    second = api.create("beta hive moved south")
    api.attach(first, EAST, key="attach-first")
    api.attach(second, [3.0, 4.0, 0.0], key="attach-second")
    operation = {
        "type": "derive",
        "record": builders.record_json("gamma made of alpha"),
        "derivation": derivation(first),
    }
    receipt = api.expect("memory/commands", {"idempotency_key": builders.new_key(), "operation": operation})["receipt"]
    derived = builders.reference(receipt["record_id"])
    return Known(api, first, second, derived, api.relate(first, second))


def derivation(*sources: Json) -> Json:
    """How a record was made out of others."""
    return {"sources": list(sources), "method": "m", "method_revision": "1", "evidence_ref": "ref"}


@dataclass(frozen=True, slots=True)
class Documented:
    """A documented route, or one command of a route that has several.

    Attributes:
        name: For test ids.
        path: Below /api/v1, with {variables}.
        needs: Capabilities that the caller must have, all of them.
        body: Makes the body of a good request, without contract_version and scope; None for a GET.
        values: Makes the path's variables.
        has_scope: The request names a scope.
        takes_slot: The route is subject to admission.
        headers: Names of the x-qilbee headers of its success.
        is_write: Success changes memory data.
        body_bytes_max: Greatest size of the body.
    """

    name: str
    method: str
    path: str
    needs: tuple[str, ...]
    body: Callable[[Known], Json] | None = None
    values: Callable[[Known], Json] | None = None
    has_scope: bool = True
    takes_slot: bool = False
    headers: frozenset[str] = field(default=frozenset())
    is_write: bool = False
    body_bytes_max: int = 65_536

    def path_for(self, known: Known) -> str:
        return self.path.format(**(self.values(known) if self.values else {}))

    def body_for(self, known: Known, scope: Json | None = None) -> Json | None:
        """A whole body, in the known scope or in another one."""
        if self.body is None:
            return None
        body = self.body(known)
        scoped = {"scope": known.scope if scope is None else scope} if self.has_scope else {}
        version = {} if "command" in body else {"contract_version": 1}
        return {**version, **scoped, **body}

    def query_for(self, known: Known, scope: Json | None = None) -> Json | None:
        """The query string's parameters of a GET with a scope."""
        if self.method != "GET" or not self.has_scope:
            return None
        return {"contract_version": 1, **(known.scope if scope is None else scope)}


def _keyed(**members: Any) -> Json:
    return {"idempotency_key": builders.new_key(), **members}


def _operation(make: Callable[[Known], Json]) -> Callable[[Known], Json]:
    return lambda known: _keyed(operation=make(known))


def _new(known: Known) -> Json:
    return known.api.create("a record to be changed")


def _target(record: Json) -> Json:
    return {"record_id": record["record_id"], "expected_revision": record["revision"]}


def _relation(known: Known, **members: Any) -> Json:
    return {"relation_id": known.api.relate(known.first, known.second), "evidence_ref": "ref", **members}


def _retired(known: Known) -> Json:
    operation = {"type": "retire", **_relation(known), "expected_revision": 1}
    known.api.expect("memory/relations/commands", _keyed(operation=operation))
    return {**operation, "type": "restore", "expected_revision": 2}


def _review(known: Known) -> Json:
    record = _new(known)
    return {
        "command": {
            "contract_version": 1,
            **_keyed(**_target(record)),
            "disposition": "approved",
            "evidence_ref": "ref",
        }
    }


def _reviewed(known: Known) -> Json:
    body = _review(known)
    response = known.api.client.post("/api/v1/memory/reviews", json={"scope": known.scope, **body})
    receipt = response.json()["receipt"]
    return {"record_id": receipt["record_id"], "revision": receipt["revision"]}


def _attach(known: Known) -> Json:
    record = _new(known)
    return _keyed(
        record_id=record["record_id"], record_revision=record["revision"], space=builders.SPACE, vector=[1.0, 2.0, 3.0]
    )


def _hybrid(**members: Any) -> Json:
    return {
        "text": "hive",
        "space": builders.SPACE,
        "vector": EAST,
        "ranking_version": "weighted_rrf_v2",
        **members,
    }


_CREATE = _operation(lambda _: {"type": "create", "record": builders.record_json()})
_UPDATE = _operation(
    lambda known: {"type": "update", **_target(_new(known)), "record": builders.record_json("changed")}
)
_DELETE = _operation(lambda known: {"type": "delete", **_target(_new(known))})
_DERIVE = _operation(
    lambda known: {"type": "derive", "record": builders.record_json("d"), "derivation": derivation(known.first)}
)
_ASSERT = _operation(
    lambda known: builders.assert_body(known.scope, known.first, known.second, "same_entity")["operation"]
)
_RETIRE = _operation(lambda known: {"type": "retire", **_relation(known), "expected_revision": 1})
_RESTORE = _operation(_retired)
_REVIEW_RELATION = _operation(
    lambda known: {"type": "review", **_relation(known), "expected_revision": 1, "disposition": "approved"}
)
_RECORD = {"values": lambda known: {"record_id": known.first["record_id"]}}
_RELATION = {"body": lambda known: {"relation_id": known.relation_id}, "takes_slot": True}
_RELATIONS = {"is_write": True, "takes_slot": True}
_VECTOR_BYTES = 2_097_152

MEMORY: tuple[Documented, ...] = (
    Documented("create", "POST", "memory/commands", (WRITE,), _CREATE, is_write=True),
    Documented("update", "POST", "memory/commands", (WRITE,), _UPDATE, is_write=True),
    Documented("delete", "POST", "memory/commands", (WRITE,), _DELETE, is_write=True),
    Documented("derive", "POST", "memory/commands", (READ, WRITE), _DERIVE, is_write=True),
    Documented("read", "GET", "memory/records/{record_id}", (READ,), **_RECORD),
    Documented("query", "POST", "memory/query", (READ,), lambda _: {"filter": {"limit": 10}}),
    Documented("ordered", "POST", "memory/query/ordered", (READ,), lambda _: {"query": {}}, takes_slot=True),
    Documented(
        "batch",
        "POST",
        "memory/records/batch",
        (READ,),
        lambda known: {"record_ids": [known.first["record_id"], ABSENT]},
        takes_slot=True,
    ),
    Documented("attach", "POST", "memory/embeddings", (WRITE,), _attach, is_write=True, body_bytes_max=_VECTOR_BYTES),
    Documented("review", "POST", "memory/reviews", (REVIEW,), _review, is_write=True),
    Documented(
        "review-state",
        "POST",
        "memory/reviews/state",
        (REVIEW,),
        lambda known: {"record_id": known.first["record_id"]},
    ),
    Documented("review-read", "POST", "memory/reviews/read", (REVIEW,), _reviewed),
    Documented(
        "eligibility", "POST", "memory/eligibility", (REVIEW,), lambda known: {"record_id": known.derived["record_id"]}
    ),
    Documented("assert", "POST", "memory/relations/commands", (READ, WRITE), _ASSERT, **_RELATIONS),
    Documented("retire", "POST", "memory/relations/commands", (READ, WRITE), _RETIRE, **_RELATIONS),
    Documented("restore", "POST", "memory/relations/commands", (READ, WRITE), _RESTORE, **_RELATIONS),
    Documented("review-relation", "POST", "memory/relations/commands", (READ, REVIEW), _REVIEW_RELATION, **_RELATIONS),
    Documented("relation", "POST", "memory/relations/read", (READ,), **_RELATION),
    Documented("inspect", "POST", "memory/relations/inspect", (READ, REVIEW), **_RELATION),
    Documented(
        "revision",
        "POST",
        "memory/relations/revision",
        (READ, REVIEW),
        lambda known: {"relation_id": known.relation_id, "revision": 1},
        takes_slot=True,
    ),
)

RETRIEVAL: tuple[Documented, ...] = (
    Documented(
        "semantic",
        "POST",
        "memory/search",
        (READ,),
        lambda _: {"query": {"space": builders.SPACE, "vector": EAST, "limit": 10}},
        takes_slot=True,
        headers=SELECTION | {"x-qilbee-ranking-version", "x-qilbee-retrieval-micros"},
        body_bytes_max=_VECTOR_BYTES,
    ),
    Documented(
        "lexical",
        "POST",
        "memory/search/lexical",
        (READ,),
        lambda _: {"mode": "lexical", "query": {"text": "hive", "limit": 10}},
        takes_slot=True,
        headers=SELECTION,
    ),
    Documented(
        "hybrid",
        "POST",
        "memory/search/hybrid",
        (READ,),
        lambda _: {"mode": "hybrid", "query": _hybrid(limit=10)},
        takes_slot=True,
        headers=SELECTION,
        body_bytes_max=_VECTOR_BYTES,
    ),
    Documented("profiles", "GET", "memory/ranking-profiles", (READ,), has_scope=False),
    Documented(
        "graph-search",
        "POST",
        "memory/search/graph",
        (READ,),
        lambda _: {
            "query": {
                "ranking_version": "typed_path_balanced_v1",
                "seed": {"mode": "hybrid", **_hybrid()},
                "limit": 10,
            }
        },
        takes_slot=True,
        headers=frozenset({"x-qilbee-retrieval-micros"}),
        body_bytes_max=_VECTOR_BYTES,
    ),
    Documented("graph-profiles", "GET", "memory/graph-ranking-profiles", (READ,), has_scope=False),
    Documented(
        "typed-graph",
        "POST",
        "memory/graph/typed",
        (READ,),
        lambda known: {"query": {"root_record_ids": [known.first["record_id"]]}},
        takes_slot=True,
    ),
    Documented(
        "ancestry",
        "POST",
        "memory/graph",
        (READ,),
        lambda known: {"query": {"root_record_ids": [known.derived["record_id"]]}},
        takes_slot=True,
    ),
)

DATA = MEMORY + RETRIEVAL
"""Every route that reaches memory data or its catalogues."""

SCOPED = tuple(route for route in DATA if route.has_scope)
WRITES = tuple(route for route in DATA if route.is_write)


def by_name(route: Documented) -> str:
    """Id of a parametrized test."""
    return route.name
