"""Typed relations, where they come from, and the receipts of the commands that change them."""

from __future__ import annotations

from typing import Any

from qilbeedb._checks import (
    EVIDENCE,
    MILLIS,
    NAME,
    REVISION,
    VERSION_1,
    array,
    boolean,
    choice,
    closed,
    hex64,
    nullable,
    uuid,
)
from qilbeedb._errors import refuse
from qilbeedb._identities import AUTHOR, DEPENDENCY_WORK, SOURCE_REF
from qilbeedb._records import ELIGIBILITY_FAILURE, REVIEW

KINDS = ("semantic_related", "same_entity", "temporal_before", "causal_claim", "supports", "contradicts")
KIND = choice(*KINDS)
ACTIONS = ("asserted", "retired", "restored", "reviewed")

_ORIGIN = choice("model_inference", "tool_observation", "human_statement", "imported_assertion")
_MODEL = closed({"provider": NAME, "model": NAME, "revision": NAME})
_PROVENANCE = closed(
    {"origin": _ORIGIN, "method": NAME, "method_revision": NAME, "evidence_ref": EVIDENCE}, {"model": nullable(_MODEL)}
)


def provenance(value: Any) -> None:
    """Origin, method and evidence; a model's inference names the model."""
    _PROVENANCE(value)
    if value["origin"] == "model_inference" and value.get("model") is None:
        refuse()


def extractor(value: Any) -> None:
    """The provenance in a job's specification, which always says whether there is a model."""
    provenance(value)
    if "model" not in value:
        refuse()


_INPUT = closed(
    {"source": SOURCE_REF, "target": SOURCE_REF, "kind": KIND, "provenance": provenance},
    {
        "valid_from_millis": nullable(MILLIS),
        "valid_until_millis": nullable(MILLIS),
        "evidence_sources": array(SOURCE_REF, 0, 16),
    },
)
_RELATION = closed(
    {
        "schema_version": VERSION_1,
        "relation_id": uuid,
        "revision": REVISION,
        "input": _INPUT,
        "reported_by": AUTHOR,
        "created_at_millis": MILLIS,
        "modified_at_millis": MILLIS,
        "state": choice("active", "retired"),
        "review": nullable(REVIEW),
    }
)


def relation(value: Any) -> None:
    """A relation between two different records."""
    _RELATION(value)
    if value["input"]["source"]["record_id"] == value["input"]["target"]["record_id"]:
        refuse()


RELATION_RECEIPT = closed(
    {
        "contract_version": VERSION_1,
        "idempotency_key": NAME,
        "relation_id": uuid,
        "revision": REVISION,
        "action": choice(*ACTIONS),
        "author": AUTHOR,
        "committed_at_millis": MILLIS,
        "evidence_ref": EVIDENCE,
        "relation_digest": hex64,
        "command_digest": hex64,
        "receipt_digest": hex64,
    }
)

_ELIGIBILITY = closed(
    {
        "eligible": boolean,
        "reason": choice(
            "eligible",
            "retired",
            "rejected",
            "not_yet_valid",
            "expired",
            "endpoint_unavailable",
            "endpoint_revision_changed",
            "evidence_unavailable",
        ),
        "evaluated_at_millis": MILLIS,
        "endpoint": nullable(SOURCE_REF),
        "dependency_work": DEPENDENCY_WORK,
    },
    {"evidence_failure": ELIGIBILITY_FAILURE},
)
RELATION_INSPECTION = closed({"relation": relation, "eligibility": _ELIGIBILITY})
RELATION_HISTORY = closed({"relation": relation, "receipt": RELATION_RECEIPT})
