"""Clients that mean harm or know no better: slow ones, floods, bodies too large, bytes that are no HTTP or no JSON.

Each answer that they get must be a documented refusal. They hold a key without rights, or none.
"""

from __future__ import annotations

import json
import random
import socket
import ssl
import threading
from collections import Counter
from collections.abc import Callable

from soak.caller import Tally, envelope_problems
from soak.history import History, foreign_markers
from tests.harness.raw_http import Door, RawConnection, RawResponse, request_bytes

COMMANDS = "/api/v1/memory/commands"
_FLOOD = 60
_OVERSIZE = 70_000
_SLOW_BYTES = 24
_SLOW_PAUSE_S = 0.4
_PAUSE_S = 0.5
# Longer than the edge and the gateway wait for the rest of a request.
_PATIENCE_S = 45.0
_REFUSALS = {400, 401, 403, 404, 405, 413, 500, 503, 504}


class Attacker:
    """One of them. Used by one thread.

    Args:
        doors: Where to: the edge, and the gateway behind it.
        key: A valid one that may do nothing.

    Attributes:
        attacks: How often each was made.
    """

    def __init__(
        self, doors: tuple[Door, ...], key: str, history: History, tally: Tally, seed: str, stop: threading.Event
    ) -> None:
        self._doors, self._key, self._history, self._tally, self._stop = doors, key, history, tally, stop
        self._random = random.Random(seed)
        self.attacks: Counter[str] = Counter()
        self._ways: dict[str, Callable[[Door], None]] = {
            "byte at a time": self._trickle,
            "half a request, then nothing": self._leave_half,
            "body over the limit": self._send_oversize,
            "malformed JSON": self._send_bad_json,
            "bytes that are no HTTP": self._send_noise,
            "too many headers": self._send_headers,
            "connection flood": self._flood,
            "unknown routes and methods": self._ask_elsewhere,
        }

    def take_turn(self) -> None:
        """Attack once."""
        name = self._random.choice(list(self._ways))
        self.attacks[name] += 1
        try:
            self._ways[name](self._random.choice(self._doors))
        except TimeoutError:
            self._tally.count("attack", name, "left hanging", "")
        except (OSError, EOFError, ValueError):
            # A connection that is closed on one is a good answer to all of this.
            self._tally.count("attack", name, "closed", "")
        self._stop.wait(_PAUSE_S)

    def _trickle(self, door: Door) -> None:
        data = self._command(b'{"contract_version": 1}')
        with RawConnection(door) as connection:
            for place in range(min(_SLOW_BYTES, len(data))):
                connection.send(data[place : place + 1])
                if self._stop.wait(_SLOW_PAUSE_S):
                    return
            connection.send(data[_SLOW_BYTES:])
            self._judge("byte at a time", connection.receive())

    def _leave_half(self, door: Door) -> None:
        with RawConnection(door) as connection:
            connection.socket.settimeout(_PATIENCE_S)
            connection.send(self._command(b"{" * 50)[:-20])
            self._judge("half a request, then nothing", connection.receive())

    def _send_oversize(self, door: Door) -> None:
        body = b'{"x": "' + b"a" * _OVERSIZE + b'"}'
        with RawConnection(door) as connection:
            connection.send(self._command(body))
            self._judge("body over the limit", connection.receive(), {400, 413})

    def _send_bad_json(self, door: Door) -> None:
        good = json.dumps({"contract_version": 1, "idempotency_key": "k", "operation": {"type": "create"}}).encode()
        body = bytearray(good)
        for _ in range(self._random.randint(1, 4)):
            place = self._random.randrange(len(body))
            body[place] = self._random.randrange(256)
        with RawConnection(door) as connection:
            connection.send(self._command(bytes(body)))
            self._judge("malformed JSON", connection.receive())

    def _send_noise(self, door: Door) -> None:
        with RawConnection(door) as connection:
            connection.send(self._random.randbytes(200) + b"\r\n\r\n")
            self._judge("bytes that are no HTTP", connection.receive())

    def _send_headers(self, door: Door) -> None:
        many = tuple(f"X-{number}: {'v' * 40}" for number in range(self._random.choice((120, 600))))
        with RawConnection(door) as connection:
            connection.send(request_bytes("GET", "/api/v1/identity", headers=many))
            self._judge("too many headers", connection.receive())

    def _flood(self, door: Door) -> None:
        opened: list[socket.socket | ssl.SSLSocket] = []
        try:
            for _ in range(_FLOOD):
                opened.append(door.connect())
            for connection in opened[::2]:
                connection.sendall(b"POST /api/v1/")
        finally:
            for connection in opened:
                connection.close()

    def _ask_elsewhere(self, door: Door) -> None:
        path = self._random.choice(("/", "/api/v1/..%2f", "/api/v2/identity", "/api/v1/memory/records/%00", COMMANDS))
        method = self._random.choice(("GET", "DELETE", "PUT", "TRACE", "BREW"))
        with RawConnection(door) as connection:
            connection.send(request_bytes(method, path))
            self._judge("unknown routes and methods", connection.receive())

    def _command(self, body: bytes) -> bytes:
        return request_bytes("POST", COMMANDS, body, headers=(f"Authorization: Bearer {self._key}",))

    def _judge(self, name: str, answer: RawResponse, statuses: set[int] = _REFUSALS) -> None:
        document = json.loads(answer.body)
        code = document.get("error", {}).get("code", "") if isinstance(document, dict) else ""
        self._tally.count("attack", name, str(answer.status), code)
        problems = envelope_problems(document)
        if answer.status not in statuses | {500, 503, 504}:
            problems.append(f"its status is {answer.status}")
        if answer.headers.get("cache-control") != "no-store":
            problems.append("it may be cached")
        if foreign_markers(answer.body.decode("utf-8", "replace"), frozenset()):
            problems.append("it holds memory content")
        for problem in problems:
            self._history.fault(f"{name} -> {answer.status}: {problem}")
