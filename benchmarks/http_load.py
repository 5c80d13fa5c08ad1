"""A closed-loop HTTP/1.1 client that costs next to nothing, so that what is measured is the server.

Each client holds one keep-alive connection and sends prepared requests one after the other.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

_HEAD_END = b"\r\n\r\n"


@dataclass(frozen=True)
class Answer:
    """Status, lower-case headers and body of one answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Connection:
    """One keep-alive connection to HOST:PORT."""

    def __init__(self, address: str, key: str) -> None:
        host, _, port = address.rpartition(":")
        self._address = address
        self._key = key
        self._socket = socket.create_connection((host, int(port)), timeout=60)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def prepare(self, path: str, body: bytes) -> bytes:
        """The whole POST request as bytes."""
        head = (
            f"POST {path} HTTP/1.1\r\nHost: {self._address}\r\nAuthorization: Bearer {self._key}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        return head.encode() + body

    def exchange(self, request: bytes) -> Answer:
        """Send a prepared request and read its answer."""
        self._socket.sendall(request)
        received = self._socket.recv(262_144)
        while _HEAD_END not in received:
            received += self._receive()
        head, _, body = received.partition(_HEAD_END)
        status_line, *lines = head.decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        length = int(headers["content-length"])
        parts, size = [body], len(body)
        while size < length:
            parts.append(self._receive())
            size += len(parts[-1])
        return Answer(int(status_line.split(" ", 2)[1]), headers, b"".join(parts))

    def post(self, path: str, body: bytes) -> Answer:
        """Prepare and exchange."""
        return self.exchange(self.prepare(path, body))

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def _receive(self) -> bytes:
        data = self._socket.recv(262_144)
        if not data:
            raise ConnectionError("the server closed the connection in the middle of an answer")
        return data


def measure_latency(connection: Connection, requests: Sequence[bytes]) -> tuple[list[float], list[Answer]]:
    """Send the requests one after the other; seconds and answer of each.

    Raises:
        RuntimeError: An answer was not 200.
    """
    seconds, answers = [], []
    for request in requests:
        begin = time.perf_counter()
        answer = connection.exchange(request)
        seconds.append(time.perf_counter() - begin)
        answers.append(_checked(answer))
    return seconds, answers


def measure_throughput(
    open_connection: Callable[[], Connection],
    requests_of_client: Callable[[Connection, int], Sequence[bytes]],
    *,
    clients: int,
) -> tuple[float, list[float]]:
    """Let clients send their own requests side by side.

    Returns:
        Answers a second over the whole run, and the seconds of each answer.

    Raises:
        RuntimeError: An answer was not 200.
    """
    connections = [open_connection() for _ in range(clients)]
    prepared = [requests_of_client(connection, number) for number, connection in enumerate(connections)]
    seconds: list[list[float]] = [[] for _ in range(clients)]
    failures: list[BaseException] = []
    start = threading.Barrier(clients + 1)

    def run(number: int) -> None:
        start.wait()
        try:
            seconds[number], _ = measure_latency(connections[number], prepared[number])
        except (OSError, RuntimeError) as failure:
            failures.append(failure)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(clients)]
    for thread in threads:
        thread.start()
    start.wait()
    begin = time.perf_counter()
    for thread in threads:
        thread.join()
    elapsed = time.perf_counter() - begin
    for connection in connections:
        connection.close()
    if failures:
        raise RuntimeError("a client failed") from failures[0]
    return sum(map(len, prepared)) / elapsed, [duration for durations in seconds for duration in durations]


def _checked(answer: Answer) -> Answer:
    if answer.status != 200:
        raise RuntimeError(f"status {answer.status}: {answer.body[:300]!r}")
    return answer
