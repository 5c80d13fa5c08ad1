"""Memory records, their reviews and derivations, and the receipts of the commands that change them."""

from __future__ import annotations

from typing import Any

from qilbeedb._checks import (
    EVIDENCE,
    FLOAT32_MAX,
    MILLIS,
    NAME,
    REVISION,
    U64_MAX,
    VERSION_1,
    any_object,
    anything,
    array,
    boolean,
    choice,
    closed,
    distinct,
    hex64,
    integer,
    nullable,
    number,
    text,
    uuid,
)
from qilbeedb._errors import refuse
from qilbeedb._identities import AUTHOR, DEPENDENCY_WORK, SOURCE_REF

DISPOSITION = choice("approved", "rejected", "unreviewed")
REVIEW = closed({"disposition": DISPOSITION, "evidence_ref": EVIDENCE, "author": AUTHOR, "reviewed_at_millis": MILLIS})
EPISODE_NAMES = ("Conversation", "TaskExecution", "Observation", "Decision", "Error")
FAILURE_REASONS = (
    "deleted",
    "expired",
    "rejected",
    "source_missing",
    "source_revision_changed",
    "dependency_cycle",
    "depth_limit",
    "node_limit",
)


def episode_type(value: Any) -> None:
    """One of the documented kinds, or a custom one."""
    if isinstance(value, dict):
        closed({"Custom": text})(value)
    else:
        choice(*EPISODE_NAMES)(value)


_CONTENT = closed(
    {"primary": text},
    {
        "secondary": nullable(text),
        "context": nullable(text),
        "data": anything,
        "embedding": nullable(array(number(-FLOAT32_MAX, FLOAT32_MAX))),
    },
)
_PAYLOAD = closed(
    {"episode_type": episode_type, "content": _CONTENT, "event_time_millis": MILLIS},
    {"valid_until_millis": nullable(MILLIS), "tags": array(text), "metadata": any_object},
)
_DERIVATION = closed(
    {"sources": array(SOURCE_REF, 1, 16), "method": NAME, "method_revision": NAME, "evidence_ref": EVIDENCE}
)
_RECORD = closed(
    {
        "schema_version": VERSION_1,
        "record_id": uuid,
        "revision": REVISION,
        "created_at_millis": MILLIS,
        "modified_at_millis": MILLIS,
        "author": AUTHOR,
        "payload": _PAYLOAD,
    },
    {"review": nullable(REVIEW), "derivation": nullable(_DERIVATION)},
)


def record(value: Any) -> None:
    """A memory record that is served: not deleted, and its derivation names distinct sources."""
    _RECORD(value)
    derivation = value.get("derivation")
    if derivation is not None:
        distinct(source["record_id"] for source in derivation["sources"])


def is_expired(value: Any, evaluated_at_millis: int) -> bool:
    """Tell whether a checked record is past its exclusive end."""
    valid_until = value["payload"].get("valid_until_millis")
    return valid_until is not None and not evaluated_at_millis < valid_until


def is_rejected(value: Any) -> bool:
    """Tell whether a checked record's review forbids to serve it."""
    review = value.get("review")
    return review is not None and review["disposition"] == "rejected"


def is_self_derived(value: Any) -> bool:
    """Tell whether a checked record names itself as a source."""
    derivation = value.get("derivation")
    return derivation is not None and any(source["record_id"] == value["record_id"] for source in derivation["sources"])


def served_record(value: Any) -> None:
    """A record as reads and searches return it, where no clock of the answer is known."""
    record(value)
    if is_rejected(value) or is_self_derived(value):
        refuse()


ELIGIBILITY_FAILURE = closed(
    {
        "record_id": uuid,
        "expected_revision": nullable(REVISION),
        "actual_revision": nullable(REVISION),
        "reason": choice(*FAILURE_REASONS),
    }
)
ELIGIBILITY = closed(
    {
        "record_id": uuid,
        "revision": REVISION,
        "eligible": boolean,
        "evaluated_at_millis": MILLIS,
        "first_failure": nullable(ELIGIBILITY_FAILURE),
        "dependencies_checked": integer(0, 64),
        "max_depth_examined": integer(0, U64_MAX),
        "all_dependencies_checked": boolean,
        "dependency_work": DEPENDENCY_WORK,
    }
)
RECORD_RECEIPT = closed(
    {
        "contract_version": VERSION_1,
        "idempotency_key": NAME,
        "record_id": uuid,
        "revision": REVISION,
        "action": choice("created", "updated", "deleted", "derived"),
        "committed_at_millis": MILLIS,
        "author": AUTHOR,
    }
)
REVIEW_RECEIPT = closed(
    {
        "contract_version": VERSION_1,
        "idempotency_key": NAME,
        "record_id": uuid,
        "revision": REVISION,
        "review": REVIEW,
        "receipt_digest": hex64,
    }
)
REVIEW_STATE = closed(
    {"record_id": uuid, "revision": REVISION, "review": nullable(REVIEW), "deleted": boolean, "expired": boolean}
)
EMBEDDING_SPACE = closed({"provider": NAME, "model": NAME, "revision": NAME, "dimensions": integer(1, 32_768)})
EMBEDDING_RECEIPT = closed(
    {
        "contract_version": VERSION_1,
        "idempotency_key": NAME,
        "record_id": uuid,
        "record_revision": REVISION,
        "space": EMBEDDING_SPACE,
        "vector_digest": hex64,
        "author": AUTHOR,
        "committed_at_millis": MILLIS,
    }
)
