"""A bare HTTP/1.1 client on a socket, for tests that send what no client library would."""

from __future__ import annotations

import json
import select
import socket
import ssl
from dataclasses import dataclass
from typing import Any

TIMEOUT_S = 20.0


@dataclass(frozen=True)
class RawResponse:
    """One response; header names in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str:
        """Error code of the envelope, whose shape is checked on the way."""
        document = self.json
        if set(document) != {"contract_version", "error"} or set(document["error"]) != {"code", "message"}:
            raise AssertionError(f"not the documented envelope: {document}")
        code: str = document["error"]["code"]
        return code


@dataclass(frozen=True)
class Door:
    """Where HTTP is served on this machine: a port, and the client's TLS context when it speaks TLS."""

    port: int
    tls: ssl.SSLContext | None = None

    def connect(self) -> socket.socket:
        """Open a connection."""
        plain = socket.create_connection(("127.0.0.1", self.port), timeout=TIMEOUT_S)
        if self.tls is None:
            return plain
        try:
            return self.tls.wrap_socket(plain, server_hostname="127.0.0.1")
        except BaseException:
            plain.close()
            raise


class RawConnection:
    """A connection that sends bytes as they are and reads responses one by one."""

    def __init__(self, door: Door | int) -> None:
        self.socket = (Door(door) if isinstance(door, int) else door).connect()
        self._buffer = b""

    def __enter__(self) -> RawConnection:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def send_until_answered(self, data: bytes) -> int:
        """Send the same bytes over and over, as long as nothing comes back; the number of bytes that were taken."""
        sent, at = 0, 0
        while not self._has_input():
            try:
                count = self.socket.send(data[at:])
            except (BlockingIOError, ssl.SSLWantWriteError):
                select.select([self.socket], [self.socket], [], TIMEOUT_S)
                continue
            sent, at = sent + count, (at + count) % len(data)
        self.socket.settimeout(TIMEOUT_S)
        return sent

    def _has_input(self) -> bool:
        self.socket.settimeout(0.0)
        try:
            self._fill()
        except (BlockingIOError, ssl.SSLWantReadError):
            return False
        return True

    def receive(self, *, has_body: bool = True) -> RawResponse:
        """Read one response; EOFError when the connection ends first."""
        while b"\r\n\r\n" not in self._buffer:
            self._fill()
        head, self._buffer = self._buffer.split(b"\r\n\r\n", 1)
        status_line, *lines = head.decode("latin-1").split("\r\n")
        headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
        length = int(headers.get("content-length", "0")) if has_body else 0
        while len(self._buffer) < length:
            self._fill()
        body, self._buffer = self._buffer[:length], self._buffer[length:]
        return RawResponse(int(status_line.split(" ")[1]), headers, body)

    def is_closed_by_server(self) -> bool:
        """Wait for the end of the connection: True at a clean end with nothing unread before it."""
        if self._buffer:
            return False
        return self.socket.recv(1) == b""

    def _fill(self) -> None:
        data = self.socket.recv(65_536)
        if not data:
            raise EOFError("the connection ended inside a response")
        self._buffer += data


def request_bytes(
    method: str,
    path: str,
    body: bytes | None = None,
    *,
    headers: tuple[str, ...] = (),
    content_type: str | None = "application/json",
) -> bytes:
    """A well-formed request; with a body it has Content-Length and Content-Type unless told otherwise."""
    lines = [f"{method} {path} HTTP/1.1", "Host: gateway", *headers]
    if body is not None:
        lines.append(f"Content-Length: {len(body)}")
        if content_type is not None:
            lines.append(f"Content-Type: {content_type}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + (body or b"")


def chunked_bytes(body: bytes, chunk_bytes: int) -> bytes:
    """A body in chunks of the given size, the last one shorter."""
    parts = [body[at : at + chunk_bytes] for at in range(0, len(body), chunk_bytes)]
    return b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"
