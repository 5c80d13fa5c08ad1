"""The supervision of a company, as its administrator calls it."""

from __future__ import annotations

from typing import Any

import httpx

from tests.harness.closed_shapes import ClosedShapes


class Company:
    """An administrator's client."""

    def __init__(self, client: httpx.Client, shapes: ClosedShapes) -> None:
        self.client = client
        self.shapes = shapes

    def post(self, path: str, body: dict[str, Any]) -> httpx.Response:
        """POST to a route below /api/v1/company/memory; the answer must have its declared shape."""
        route = f"/api/v1/company/memory/{path}"
        response = self.client.post(route, json={"contract_version": 1, **body})
        assert self.shapes.faults("POST", route, response.status_code, response.json()) == []
        assert response.headers["cache-control"] == "no-store"
        return response

    def expect(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """POST, and return the JSON of a 200."""
        response = self.post(path, body)
        assert response.status_code == 200, response.text
        document: dict[str, Any] = response.json()
        return document

    def refusal(self, path: str, body: dict[str, Any]) -> tuple[int, str]:
        """POST, and return status and code of the refusal."""
        response = self.post(path, body)
        return response.status_code, response.json()["error"]["code"]

    def workspaces(self, **query: Any) -> dict[str, Any]:
        """A page of the directory."""
        response = self.client.get("/api/v1/company/memory/workspaces", params={"contract_version": 1, **query})
        assert response.status_code == 200, response.text
        document: dict[str, Any] = response.json()
        assert self.shapes.faults("GET", "/api/v1/company/memory/workspaces", 200, document) == []
        return document

    def find(self, scope: dict[str, Any], subject: str | None = None) -> dict[str, Any]:
        """The workspace of a scope."""
        after: dict[str, str] = {}
        while True:
            page = self.workspaces(limit=100, **after)["page"]
            for workspace in page["workspaces"]:
                if (workspace["scope"], workspace["private_subject_id"]) == (scope, subject):
                    found: dict[str, Any] = workspace
                    return found
            assert page["next_after_workspace_id"] is not None, "the directory lacks a workspace"
            after = {"after_workspace_id": page["next_after_workspace_id"]}


def workspace_of(workspace: dict[str, Any]) -> dict[str, str]:
    """The member that names a workspace in a request."""
    return {"workspace_id": workspace["workspace_id"]}
