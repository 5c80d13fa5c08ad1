"""One documented request, sent twice: as JSON through the gateway, and as a message to the service behind it.

Both must come to the same decision, with the same code and the same member at fault; what succeeds must answer the same
document and the same headers. Every answer is held to openapi.json on the way.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any
from urllib.parse import urlencode

import httpx

from services.gateway.route_table import Route
from services.runtime.channel import open_channel
from tests.harness.closed_shapes import ClosedShapes
from tests.harness.message_caller import WORK_HEADERS, MessageAnswer, MessageCaller, find_route
from tests.harness.suite import Suite

TIMEOUT_S = 30.0
# Members that two equal requests may answer differently.
_CLOCKS = ("evaluated_at_millis", "retrieval_micros")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a request came to, the same both ways.

    Attributes:
        status: HTTP status.
        code: Documented code of a refusal, "" for success.
        member: The member at fault as gRPC names it, or None. None too when JSON alone could be refused.
        document: The answer as JSON.
        headers: The answer's headers that begin with x-qilbee, lower case.
        text: The answer as it came.
    """

    status: int
    code: str
    member: str | None
    document: dict[str, Any]
    headers: dict[str, str]
    text: str

    @property
    def verdict(self) -> tuple[int, str]:
        """Status and code."""
        return self.status, self.code


class BothWays:
    """A caller of a running suite.

    Attributes:
        suite: The suite.
        shapes: Its published openapi.json.
    """

    def __init__(self, suite: Suite) -> None:
        self.suite = suite
        self._http = httpx.Client(base_url=suite.url, timeout=TIMEOUT_S, verify=suite.verify, trust_env=False)
        self.shapes = ClosedShapes(self._http.get("/openapi.json").json())
        self._messages = MessageCaller(lambda service: open_channel(suite.address(service)), timeout_s=TIMEOUT_S)

    def __enter__(self) -> BothWays:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._http.close()
        self._messages.close()

    def send(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        key: str | None = None,
        query: dict[str, Any] | None = None,
        repeatable: bool = True,
    ) -> Outcome:
        """Send a request both ways and return what it came to.

        Args:
            path: Below /api/v1, unless it begins with a slash.
            body: The JSON body, or text that is sent as it is.
            key: The bearer key, the writer's by default, "" for none.
            query: Parameters of the query string; None values are left out.
            repeatable: The same request again has the same effect; otherwise it is sent through the gateway alone.
        """
        path = path if path.startswith("/") else f"/api/v1/{path}"
        token = self.suite.writer_key if key is None else key
        parameters = urlencode({name: value for name, value in (query or {}).items() if value is not None})
        content = b"" if body is None else body.encode() if isinstance(body, str) else json.dumps(body).encode()
        route, values = find_route(method, path)
        outcome = self._over_http(route, path, parameters, content, token)
        if not repeatable:
            return outcome
        other = self._messages.send(route, values, parameters, content, token)
        if other is None:
            assert 400 == outcome.status
            return outcome
        _compare(outcome, other)
        return replace(outcome, member=other.member)

    def post(self, path: str, body: dict[str, Any], *, key: str | None = None, repeatable: bool = True) -> Outcome:
        """POST with contract_version 1 unless the body has it; review commands hold it inside."""
        whole = body if "command" in body else {"contract_version": 1, **body}
        return self.send("POST", path, whole, key=key, repeatable=repeatable)

    def _over_http(self, route: Route, path: str, parameters: str, content: bytes, token: str) -> Outcome:
        headers = {"authorization": f"Bearer {token}"} if token else {}
        if content:
            headers["content-type"] = "application/json"
        url = f"{path}?{parameters}" if parameters else path
        response = self._http.request(route.method, url, content=content, headers=headers)
        assert "no-store" == response.headers["cache-control"]
        assert "application/json" == response.headers["content-type"]
        document = json.loads(response.text, object_pairs_hook=_distinct)
        assert [] == self.shapes.faults(route.method, route.template, response.status_code, document)
        code = "" if response.status_code == route.success_status else document["error"]["code"]
        worked = {name: value for name, value in response.headers.items() if WORK_HEADERS.fullmatch(name)}
        return Outcome(response.status_code, code, None, document, worked, response.text)


def _compare(outcome: Outcome, other: MessageAnswer) -> None:
    assert (other.status, other.code) == outcome.verdict, outcome.text
    if other.code:
        assert other.member is None or other.member in outcome.document["error"]["message"]
    else:
        assert steady(json.loads(other.text)) == steady(outcome.document)
        assert _without_clock(other.headers or {}) == _without_clock(outcome.headers)


def steady(document: Any) -> Any:
    """The document without the members that only tell when and how fast it was answered."""
    if isinstance(document, dict):
        return {name: steady(value) for name, value in document.items() if name not in _CLOCKS}
    if isinstance(document, list):
        return [steady(value) for value in document]
    return document


def _without_clock(headers: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name != "x-qilbee-retrieval-micros"}


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    assert len(pairs) == len(members), f"a member stands twice in {[name for name, _ in pairs]}"
    return members
