"""Sends documented requests through Envoy, as JSON over HTTPS or as messages over gRPC, and looks at every answer."""

from __future__ import annotations

import json
import re
import threading
import time
from collections import Counter
from dataclasses import dataclass
from urllib.parse import urlencode

import grpc
import httpx

from services.gateway.route_table import Route
from soak.history import History, Json, foreign_markers
from soak.running import SoakedSuite
from tests.harness.closed_shapes import ClosedShapes
from tests.harness.edge import trusting
from tests.harness.message_caller import MessageCaller, find_route

ANSWER_S = 60.0
"""Within this time every request is answered or its connection is closed; anything else hangs."""
BUSY = "retrieval_busy"
STORAGE_FULL = "storage_full"
NO_ANSWER = "no answer"
# What the edge and the gateway may say on any route, whatever happens behind them; only the envelope is checked.
EVERYWHERE = {(500, "internal_error"), (503, BUSY), (504, "internal_error")}
_SECRET = re.compile(r"qdb[a-z]*1_[0-9a-f]{32}")
_SECRET_ROUTES = re.compile(r"/(rotate|credentials|admin-credentials|login)$")
_GRPC_WITHOUT_EFFECT_KNOWN = {
    grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.INTERNAL, grpc.StatusCode.CANCELLED,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request and what came of it.

    Attributes:
        status: HTTP status, 0 when nothing is known about the effect: no answer, or one of the 5xx but 503.
        code: Documented code of a refusal; "" for success.
        text: The answer; "" for a refusal over gRPC.
        began_ns, ended_ns: By the monotonic clock.
    """

    status: int
    code: str
    text: str
    began_ns: int
    ended_ns: int

    @property
    def json(self) -> Json:
        """The answer; the envelope, for a refusal."""
        if not self.text:
            return {"error": {"code": self.code}}
        document: Json = json.loads(self.text)
        return document

    @property
    def is_success(self) -> bool:
        """It did what was asked for."""
        return self.status in (200, 201)

    @property
    def is_unknown(self) -> bool:
        """Nothing is known about its effect."""
        return self.status == 0


class Tally:
    """Counts of the whole run. Used by many threads.

    Attributes:
        requests: By (transport, route, status or what happened instead).
        refusals: By (status, code).
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.requests: Counter[tuple[str, str, str]] = Counter()
        self.refusals: Counter[tuple[str, str]] = Counter()

    def count(self, transport: str, route: str, status: str, code: str) -> None:
        """Count an answer."""
        with self._lock:
            self.requests[transport, route, status] += 1
            if code:
                self.refusals[status, code] += 1


class Caller:
    """Sends and judges. Used by many threads.

    Args:
        soaked: Where to.
        history: Takes what is wrong with single answers.
        tally: Takes the counts.
        shapes: The published openapi.json.
    """

    def __init__(self, soaked: SoakedSuite, history: History, tally: Tally, shapes: ClosedShapes) -> None:
        self._history, self._tally, self._shapes = history, tally, shapes
        limits = httpx.Limits(max_connections=64, max_keepalive_connections=32)
        context = trusting(soaked.certificate)
        self._http = httpx.Client(
            base_url=soaked.edge_url, timeout=ANSWER_S, verify=context, limits=limits, trust_env=False
        )
        credentials = grpc.ssl_channel_credentials(soaked.certificate.read_bytes())
        options = [("grpc.max_reconnect_backoff_ms", 1000), ("grpc.max_receive_message_length", 1 << 26)]
        self._channel = grpc.secure_channel(f"127.0.0.1:{soaked.edge_port}", credentials, options)
        self._messages = MessageCaller(lambda _service: self._channel, timeout_s=ANSWER_S)

    def close(self) -> None:
        """Close all connections."""
        self._http.close()
        self._channel.close()

    def send(
        self,
        method: str,
        path: str,
        body: Json | None = None,
        *,
        key: str,
        own: frozenset[str],
        query: Json | None = None,
        over_grpc: bool = False,
    ) -> Exchange:
        """Send one request once.

        Args:
            path: Below /api/v1.
            key: The bearer key; "" for none.
            own: Markers that the answer may hold.
        """
        path = f"/api/v1/{path}"
        parameters = urlencode({name: value for name, value in (query or {}).items() if value is not None})
        content = b"" if body is None else json.dumps(body).encode()
        route, values = find_route(method, path)
        if over_grpc:
            exchange = self._send_message(route, values, parameters, content, key)
        else:
            exchange = self._send_json(route, f"{path}?{parameters}" if parameters else path, content, key)
        self._look(route, exchange, own)
        return exchange

    def _send_json(self, route: Route, url: str, content: bytes, key: str) -> Exchange:
        headers = {"authorization": f"Bearer {key}"} if key else {}
        if content:
            headers["content-type"] = "application/json"
        began_ns = time.monotonic_ns()
        try:
            response = self._http.request(route.method, url, content=content, headers=headers)
        except httpx.TimeoutException as error:
            self._history.fault(f"{route.template} hangs: {error!r}")
            return self._unanswered("json", route, began_ns)
        except httpx.TransportError:
            return self._unanswered("json", route, began_ns)
        ended_ns = time.monotonic_ns()
        code = self._judge(route, response)
        self._tally.count("json", f"{route.method} {route.template}", str(response.status_code), code)
        is_known = response.status_code < 500 or response.status_code == 503
        return Exchange(response.status_code if is_known else 0, code, response.text, began_ns, ended_ns)

    def _judge(self, route: Route, response: httpx.Response) -> str:
        """Check status, headers and shape of an answer; its code."""
        where = f"{route.method} {route.template} -> {response.status_code}"
        if response.headers.get("cache-control") != "no-store":
            self._history.fault(f"{where}: Cache-Control is {response.headers.get('cache-control')!r}")
        if response.headers.get("content-type") != "application/json":
            self._history.fault(f"{where}: Content-Type is {response.headers.get('content-type')!r}")
            return NO_ANSWER
        document = response.json()
        code: str = "" if response.is_success else document.get("error", {}).get("code", "")
        if (response.status_code, code) in EVERYWHERE:
            problems = envelope_problems(document)
        else:
            problems = self._shapes.faults(route.method, route.template, response.status_code, document)
        for problem in problems:
            self._history.fault(f"{where}: {problem}")
        return code

    def _send_message(
        self, route: Route, values: dict[str, str], parameters: str, content: bytes, key: str
    ) -> Exchange:
        began_ns = time.monotonic_ns()
        try:
            answer = self._messages.send(route, values, parameters, content, key)
        except grpc.RpcError as error:
            status: grpc.StatusCode = error.code()
            if status is grpc.StatusCode.RESOURCE_EXHAUSTED:
                self._tally.count("grpc", route.rpc, "503", BUSY)
                return Exchange(503, BUSY, "", began_ns, time.monotonic_ns())
            if status not in _GRPC_WITHOUT_EFFECT_KNOWN:
                self._history.fault(f"{route.rpc}: {status.name}: {error.details()}")
            if status is grpc.StatusCode.DEADLINE_EXCEEDED and time.monotonic_ns() - began_ns > ANSWER_S * 1e9:
                self._history.fault(f"{route.rpc} hangs")
            self._tally.count("grpc", route.rpc, status.name, "internal_error")
            return Exchange(0, "internal_error", "", began_ns, time.monotonic_ns())
        if answer is None:
            raise ValueError(f"{route.template}: the request cannot be said as a message")
        self._tally.count("grpc", route.rpc, str(answer.status), answer.code)
        return Exchange(answer.status, answer.code, answer.text, began_ns, time.monotonic_ns())

    def _unanswered(self, transport: str, route: Route, began_ns: int) -> Exchange:
        self._tally.count(transport, f"{route.method} {route.template}", NO_ANSWER, "")
        return Exchange(0, NO_ANSWER, "", began_ns, time.monotonic_ns())

    def _look(self, route: Route, exchange: Exchange, own: frozenset[str]) -> None:
        foreign = foreign_markers(exchange.text, own)
        if foreign:
            self._history.fault(f"{route.template} leaks {', '.join(sorted(foreign))} to a caller of {sorted(own)}")
        if not _SECRET_ROUTES.search(route.template) and _SECRET.search(exchange.text):
            self._history.fault(f"{route.template} answers a secret")


def envelope_problems(document: object) -> list[str]:
    """Return what is wrong with a refusal's body; empty when it is the documented envelope."""
    if not isinstance(document, dict) or set(document) != {"contract_version", "error"}:
        return ["it is no documented envelope"]
    error = document["error"]
    if not isinstance(error, dict) or set(error) != {"code", "message"} or document["contract_version"] != 1:
        return ["it is no documented envelope"]
    return []
