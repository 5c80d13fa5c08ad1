"""Records: commands, reads, embeddings and reviews."""

from __future__ import annotations

from typing import Any, List, Optional, Sequence
from urllib.parse import urlencode

from qilbeedb._checks import NAME, REVISION, any_object, array, choice, distinct, integer, nullable, uuid
from qilbeedb._errors import refuse
from qilbeedb._identities import SOURCE_REF, reference_key
from qilbeedb._memory_routes import MemoryRoutes
from qilbeedb._record_pages import BATCH, ORDERED_PAGE, RECORD_PAGE
from qilbeedb._records import (
    ELIGIBILITY,
    EMBEDDING_RECEIPT,
    RECORD_RECEIPT,
    REVIEW_RECEIPT,
    REVIEW_STATE,
    is_expired,
    served_record,
)
from qilbeedb._session import VECTOR_REQUEST_BYTES_MAX
from qilbeedb._strict_json import JsonObject

_ACTIONS = {"create": "created", "update": "updated", "delete": "deleted", "derive": "derived"}
_DISPOSITION = choice("approved", "rejected", "unreviewed")


class RecordRoutes(MemoryRoutes):
    """Versioned records of one scope."""

    def create(self, record: JsonObject, *, idempotency_key: str) -> JsonObject:
        """Create a record and return the receipt; `record` is the documented RecordInput."""
        return self._operate({"type": "create", "record": record}, idempotency_key)

    def update(self, record_id: str, expected_revision: int, record: JsonObject, *, idempotency_key: str) -> JsonObject:
        """Replace the content of a record at exactly this revision and return the receipt."""
        operation = {
            "type": "update",
            "record_id": record_id,
            "expected_revision": expected_revision,
            "record": record,
        }
        return self._operate(operation, idempotency_key)

    def delete(self, record_id: str, expected_revision: int, *, idempotency_key: str) -> JsonObject:
        """Delete a record at exactly this revision and return the receipt."""
        operation = {"type": "delete", "record_id": record_id, "expected_revision": expected_revision}
        return self._operate(operation, idempotency_key)

    def derive(self, record: JsonObject, derivation: JsonObject, *, idempotency_key: str) -> JsonObject:
        """Create a record out of others, its sources at exact revisions, and return the receipt."""
        return self._operate({"type": "derive", "record": record, "derivation": derivation}, idempotency_key)

    def read(self, record_id: str) -> JsonObject:
        """Return one record that is served now; everything else is a refusal `record_not_found`."""
        uuid(record_id)
        members = {name: value for name, value in self._session.scope.items() if value is not None}
        path = f"/api/v1/memory/records/{record_id}?{urlencode({'contract_version': 1, **members})}"
        with self._session.operation():
            record: JsonObject = self._repeat(lambda: self._session.send("GET", path, None, "record"))
        served_record(record)
        if record["record_id"] != record_id:
            refuse()
        return record

    def read_batch(self, record_ids: Sequence[str]) -> JsonObject:
        """Return a batch with one entry for each id, in their order; a null record is unavailable for any reason."""
        ids = list(record_ids)
        array(uuid, 1, 100)(ids)
        distinct(ids)
        batch: JsonObject = self._read("/api/v1/memory/records/batch", {"record_ids": ids}, "batch")
        BATCH(batch)
        if [entry["record_id"] for entry in batch["entries"]] != ids:
            refuse()
        for entry in batch["entries"]:
            record = entry["record"]
            if record is not None and record["record_id"] != entry["record_id"]:
                refuse()
        _check_validity([entry["record"] for entry in batch["entries"]], batch)
        return batch

    def query(self, *, limit: int = 100, after: Optional[str] = None, **filters: Any) -> JsonObject:
        """Return a page of records in the order of their ids; only a null `next_after` ends the list.

        Args:
            limit: Most records in the page, 1 to 1000.
            after: `next_after` of the page before.
            **filters: `text_contains`, `episode_type`, `tag`, `scan_limit`.
        """
        integer(1, 1000)(limit)
        nullable(uuid)(after)
        page: JsonObject = self._read(
            "/api/v1/memory/query", {"filter": {"limit": limit, "after": after, **filters}}, "page"
        )
        RECORD_PAGE(page)
        ids = [record["record_id"] for record in page["records"]]
        passed = ids if after is None else [after, *ids]
        if len(ids) > limit or passed != sorted(set(passed)):
            refuse()
        next_after = page["next_after"]
        if next_after is not None and (next_after < passed[-1] if ids else next_after == after):
            refuse()
        return page

    def query_ordered(self, **query: Any) -> JsonObject:
        """Return a page of records by the time of their creation; a null `next_cursor` ends the list.

        Args:
            **query: `order`, `limit`, `scan_limit`, `cursor`, `text_contains`, `tag`, `episode_type`; all optional.
        """
        page: JsonObject = self._read("/api/v1/memory/query/ordered", {"query": query}, "page")
        ORDERED_PAGE(page)
        _check_validity(page["records"], page)
        return page

    def attach_embedding(
        self, record_id: str, record_revision: int, space: JsonObject, vector: Sequence[float], *, idempotency_key: str
    ) -> JsonObject:
        """Attach a vector to one revision of a record, in a space that you name, and return the receipt."""
        uuid(record_id)
        REVISION(record_revision)
        members = {
            "idempotency_key": idempotency_key,
            "record_id": record_id,
            "record_revision": record_revision,
            "space": space,
            "vector": list(vector),
        }
        receipt: JsonObject = self._command(
            "/api/v1/memory/embeddings",
            members,
            idempotency_key=idempotency_key,
            bytes_max=VECTOR_REQUEST_BYTES_MAX,
        )
        EMBEDDING_RECEIPT(receipt)
        self._check_receipt(receipt, idempotency_key=idempotency_key, author=receipt["author"])
        if (receipt["record_id"], receipt["record_revision"], receipt["space"]) != (record_id, record_revision, space):
            refuse()
        return receipt

    def review(
        self, record_id: str, expected_revision: int, disposition: str, evidence_ref: str, *, idempotency_key: str
    ) -> JsonObject:
        """Approve or reject a record at exactly this revision, or take that back, and return the receipt."""
        uuid(record_id)
        REVISION(expected_revision)
        _DISPOSITION(disposition)
        command = {
            "contract_version": 1,
            "idempotency_key": idempotency_key,
            "record_id": record_id,
            "expected_revision": expected_revision,
            "disposition": disposition,
            "evidence_ref": evidence_ref,
        }
        with self._session.operation():
            NAME(idempotency_key)
            receipt: JsonObject = self._repeat(lambda: self._session.post_review(command))
        REVIEW_RECEIPT(receipt)
        self._check_receipt(receipt, idempotency_key=idempotency_key, author=receipt["review"]["author"])
        found = (receipt["record_id"], receipt["revision"], receipt["review"]["disposition"])
        if found != (record_id, expected_revision + 1, disposition):
            refuse()
        return receipt

    def review_state(self, record_id: str) -> JsonObject:
        """Return a record's current review, also of one that is not served."""
        return self._about(record_id, "reviews/state", "state", REVIEW_STATE)

    def review_receipt(self, record_id: str, revision: int) -> JsonObject:
        """Return the receipt of the review that made this revision."""
        uuid(record_id)
        REVISION(revision)
        receipt: JsonObject = self._read(
            "/api/v1/memory/reviews/read",
            {"record_id": record_id, "revision": revision},
            "receipt",
            echoes_scope=False,
        )
        REVIEW_RECEIPT(receipt)
        if (receipt["record_id"], receipt["revision"]) != (record_id, revision):
            refuse()
        return receipt

    def eligibility(self, record_id: str) -> JsonObject:
        """Return whether a record is served now, and if not, why."""
        return self._about(record_id, "eligibility", "eligibility", ELIGIBILITY)

    def _about(self, record_id: str, path: str, payload: str, check: Any) -> JsonObject:
        uuid(record_id)
        found: JsonObject = self._read(f"/api/v1/memory/{path}", {"record_id": record_id}, payload)
        check(found)
        if found["record_id"] != record_id:
            refuse()
        return found

    def _operate(self, operation: JsonObject, idempotency_key: str) -> JsonObject:
        any_object(operation.get("record", {}))
        if "record_id" in operation:
            SOURCE_REF({"record_id": operation["record_id"], "revision": operation["expected_revision"]})
        members = {"idempotency_key": idempotency_key, "operation": operation}
        receipt: JsonObject = self._command("/api/v1/memory/commands", members, idempotency_key=idempotency_key)
        RECORD_RECEIPT(receipt)
        self._check_receipt(receipt, idempotency_key=idempotency_key, author=receipt["author"])
        if receipt["action"] != _ACTIONS[operation["type"]]:
            refuse()
        if "record_id" in operation:
            after = (operation["record_id"], operation["expected_revision"] + 1)
            if reference_key(receipt) != after:
                refuse()
        elif receipt["revision"] != 1:
            refuse()
        return receipt


def _check_validity(records: List[Optional[JsonObject]], answer: JsonObject) -> None:
    for record in records:
        if record is not None and is_expired(record, answer["evaluated_at_millis"]):
            refuse()
