"""Typed relations: commands and reads."""

from __future__ import annotations

from typing import Any, Sequence

from qilbeedb._checks import REVISION, any_object, array, choice, distinct, uuid
from qilbeedb._errors import refuse
from qilbeedb._graph_pages import ANCESTRY_GRAPH, TYPED_GRAPH
from qilbeedb._memory_routes import MemoryRoutes
from qilbeedb._relations import RELATION_HISTORY, RELATION_INSPECTION, RELATION_RECEIPT, relation
from qilbeedb._strict_json import JsonObject

_ROUTES = "/api/v1/memory/relations"
_ACTIONS = {"assert": "asserted", "retire": "retired", "restore": "restored", "review": "reviewed"}


class RelationRoutes(MemoryRoutes):
    """Typed relations of one scope, and walks along them."""

    def assert_relation(self, relation_input: JsonObject, *, idempotency_key: str) -> JsonObject:
        """Assert a relation, the documented RelationInput, and return the receipt."""
        any_object(relation_input)
        return self._operate_relation({"type": "assert", "relation": relation_input}, idempotency_key)

    def retire_relation(
        self, relation_id: str, expected_revision: int, evidence_ref: str, *, idempotency_key: str
    ) -> JsonObject:
        """Take an assertion back and return the receipt."""
        return self._change("retire", relation_id, expected_revision, evidence_ref, idempotency_key)

    def restore_relation(
        self, relation_id: str, expected_revision: int, evidence_ref: str, *, idempotency_key: str
    ) -> JsonObject:
        """Make a retired assertion active again and return the receipt."""
        return self._change("restore", relation_id, expected_revision, evidence_ref, idempotency_key)

    def review_relation(
        self, relation_id: str, expected_revision: int, disposition: str, evidence_ref: str, *, idempotency_key: str
    ) -> JsonObject:
        """Approve or reject an assertion and return the receipt."""
        choice("approved", "rejected", "unreviewed")(disposition)
        return self._change(
            "review", relation_id, expected_revision, evidence_ref, idempotency_key, disposition=disposition
        )

    def read_relation(self, relation_id: str) -> JsonObject:
        """Return one relation that is served now; everything else is a refusal `record_not_found`."""
        uuid(relation_id)
        found: JsonObject = self._read(f"{_ROUTES}/read", {"relation_id": relation_id}, "relation")
        relation(found)
        if found["relation_id"] != relation_id or found["state"] != "active":
            refuse()
        return found

    def inspect_relation(self, relation_id: str) -> JsonObject:
        """Return any retained relation, and whether it is served now; if not, why."""
        uuid(relation_id)
        inspection: JsonObject = self._read(f"{_ROUTES}/inspect", {"relation_id": relation_id}, "inspection")
        RELATION_INSPECTION(inspection)
        if inspection["relation"]["relation_id"] != relation_id:
            refuse()
        return inspection

    def relation_revision(self, relation_id: str, revision: int) -> JsonObject:
        """Return a relation exactly as of one revision, and the receipt of the command that made it."""
        uuid(relation_id)
        REVISION(revision)
        history: JsonObject = self._read(
            f"{_ROUTES}/revision", {"relation_id": relation_id, "revision": revision}, "history"
        )
        RELATION_HISTORY(history)
        for part in (history["relation"], history["receipt"]):
            if (part["relation_id"], part["revision"]) != (relation_id, revision):
                refuse()
        return history

    def traverse(self, root_record_ids: Sequence[str], **query: Any) -> JsonObject:
        """Walk typed relations from these records and return the graph.

        Args:
            root_record_ids: 1 to 16 records.
            **query: `direction`, `relation_kinds`, `max_depth`, `node_limit`, `edge_limit`, `scan_limit`.
        """
        return self._walk("/api/v1/memory/graph/typed", root_record_ids, query, TYPED_GRAPH)

    def ancestry(self, root_record_ids: Sequence[str], **query: Any) -> JsonObject:
        """Return the graph of what these records were derived from.

        Args:
            root_record_ids: 1 to 16 records.
            **query: `max_depth`, `node_limit`.
        """
        return self._walk("/api/v1/memory/graph", root_record_ids, query, ANCESTRY_GRAPH)

    def _walk(self, path: str, root_record_ids: Sequence[str], query: JsonObject, check: Any) -> JsonObject:
        roots = list(root_record_ids)
        array(uuid, 1, 16)(roots)
        distinct(roots)
        graph: JsonObject = self._read(path, {"query": {"root_record_ids": roots, **query}}, "graph")
        check(graph)
        if [root["record_id"] for root in graph["roots"]] != roots:
            refuse()
        return graph

    def _change(
        self, kind: str, relation_id: str, expected_revision: int, evidence_ref: str, key: str, **members: str
    ) -> JsonObject:
        uuid(relation_id)
        REVISION(expected_revision)
        operation = {
            "type": kind,
            "relation_id": relation_id,
            "expected_revision": expected_revision,
            "evidence_ref": evidence_ref,
            **members,
        }
        receipt = self._operate_relation(operation, key)
        if (receipt["relation_id"], receipt["revision"]) != (relation_id, expected_revision + 1):
            refuse()
        return receipt

    def _operate_relation(self, operation: JsonObject, key: str) -> JsonObject:
        members = {"idempotency_key": key, "operation": operation}
        receipt: JsonObject = self._command(f"{_ROUTES}/commands", members, idempotency_key=key)
        RELATION_RECEIPT(receipt)
        self._check_receipt(receipt, idempotency_key=key, author=receipt["author"])
        if receipt["action"] != _ACTIONS[operation["type"]]:
            refuse()
        return receipt
