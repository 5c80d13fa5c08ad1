"""A tiny HTTP server that sends whatever bytes a test wants, for clients that must not trust what they read."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

TIMEOUT_S = 20.0


@dataclass(frozen=True)
class PlainRequest:
    """One request; header names in lower case."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class Pieces:
    """Bytes that go out one piece after the other; the connection then falls silent, or is closed if `is_whole`."""

    parts: tuple[bytes, ...]
    is_whole: bool


Reply = bytes | Pieces | None
"""Bytes to send before the connection is closed; None keeps it open, silent, until the client gives up."""


@dataclass
class PlainServer:
    """Serves one request a connection.

    Attributes:
        answer: Request -> reply.
        requests: What has arrived, in order.
    """

    answer: Callable[[PlainRequest], Reply]
    requests: list[PlainRequest] = field(default_factory=list)
    url: str = ""

    def serve(self, listener: socket.socket) -> None:
        """Accept connections until the listener is shut."""
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                connection.settimeout(TIMEOUT_S)
                try:
                    self._serve_one(connection)
                except OSError:
                    # The client has gone before it has read everything, as it should with some answers.
                    continue

    def _serve_one(self, connection: socket.socket) -> None:
        request = _read_request(connection)
        if request is None:
            return
        self.requests.append(request)
        reply = self.answer(request)
        if isinstance(reply, Pieces):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for part in reply.parts:
                connection.sendall(part)
        elif reply is not None:
            connection.sendall(reply)
        if reply is not None and not (isinstance(reply, Pieces) and not reply.is_whole):
            connection.shutdown(socket.SHUT_WR)
        # Until the client closes; closing first could take the answer away from it.
        while connection.recv(65_536):
            pass


def json_reply(document: Any, *, status: int = 200) -> bytes:
    """Return a well-formed answer with a JSON document, or with text that is sent as it is."""
    body = document.encode("utf-8") if isinstance(document, str) else json.dumps(document).encode("utf-8")
    return raw_reply(body, status=status)


def raw_reply(
    body: bytes,
    *headers: str,
    status: int = 200,
    content_type: str | None = "application/json",
    cache_control: str | None = "no-store",
    length: int | None = -1,
) -> bytes:
    """Return an answer as bytes; a length of -1 is the true one, None declares none."""
    lines = [f"HTTP/1.1 {status} Status", *headers]
    if content_type is not None:
        lines.append(f"Content-Type: {content_type}")
    if cache_control is not None:
        lines.append(f"Cache-Control: {cache_control}")
    if length is not None:
        lines.append(f"Content-Length: {len(body) if length == -1 else length}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


@contextmanager
def plain_server(answer: Callable[[PlainRequest], Reply]) -> Iterator[PlainServer]:
    """Run a server in a thread."""
    server = PlainServer(answer)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        thread = threading.Thread(target=server.serve, args=(listener,), name="plain-server")
        thread.start()
        try:
            yield server
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


def _read_request(connection: socket.socket) -> PlainRequest | None:
    data = b""
    while b"\r\n\r\n" not in data:
        part = connection.recv(65_536)
        if not part:
            return None
        data += part
    head, body = data.split(b"\r\n\r\n", 1)
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
    while len(body) < int(headers.get("content-length", "0")):
        body += connection.recv(65_536)
    method, path, _ = first.split(" ")
    return PlainRequest(method, path, headers, body)
