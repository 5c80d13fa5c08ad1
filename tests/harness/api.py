"""The documented routes as short calls, for tests whose subject is what comes back."""

from __future__ import annotations

from typing import Any

import httpx

from tests.harness import builders


class Api:
    """One client in one scope.

    Attributes:
        client: The HTTP client, for requests that have no method here.
        scope: The scope of every request.
    """

    def __init__(self, client: httpx.Client, scope: dict[str, Any]) -> None:
        self.client = client
        self.scope = scope

    def post(self, path: str, body: dict[str, Any]) -> httpx.Response:
        """POST to a route below /api/v1, with contract_version and scope unless the body has them."""
        return self.client.post(f"/api/v1/{path}", json={"contract_version": 1, "scope": self.scope, **body})

    def expect(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """POST, and return the JSON of a 200."""
        response = self.post(path, body)
        assert response.status_code == 200, response.text
        document: dict[str, Any] = response.json()
        return document

    def create(self, text: str, **members: Any) -> dict[str, Any]:
        """Create a record and return its reference, `{record_id, revision}`."""
        receipt = self.expect("memory/commands", builders.create_body(self.scope, text, **members))["receipt"]
        return builders.reference(receipt["record_id"], receipt["revision"])

    def update(self, record: dict[str, Any], text: str, **members: Any) -> dict[str, Any]:
        """Replace a record's content and return its new reference."""
        operation = {
            "type": "update",
            "record_id": record["record_id"],
            "expected_revision": record["revision"],
            "record": builders.record_json(text, **members),
        }
        return self._operate(operation)

    def delete(self, record: dict[str, Any]) -> dict[str, Any]:
        """Delete a record and return the reference of its tombstone."""
        operation = {
            "type": "delete",
            "record_id": record["record_id"],
            "expected_revision": record["revision"],
        }
        return self._operate(operation)

    def relate(self, source: dict[str, Any], target: dict[str, Any], kind: str = "supports", **members: Any) -> str:
        """Assert a relation and return its id."""
        body = builders.assert_body(self.scope, source, target, kind, **members)
        relation_id: str = self.expect("memory/relations/commands", body)["receipt"]["relation_id"]
        return relation_id

    def attach(self, record: dict[str, Any], vector: list[float], **members: Any) -> dict[str, Any]:
        """Attach a vector and return the receipt."""
        body = builders.attach_body(self.scope, record["record_id"], vector, revision=record["revision"], **members)
        receipt: dict[str, Any] = self.expect("memory/embeddings", body)["receipt"]
        return receipt

    def get(self, record_id: str) -> httpx.Response:
        """Read one record."""
        query = {name: value for name, value in self.scope.items() if value is not None}
        return self.client.get(f"/api/v1/memory/records/{record_id}", params={"contract_version": 1, **query})

    def _operate(self, operation: dict[str, Any]) -> dict[str, Any]:
        body = {"idempotency_key": builders.new_key(operation["type"]), "operation": operation}
        receipt = self.expect("memory/commands", body)["receipt"]
        return builders.reference(receipt["record_id"], receipt["revision"])
