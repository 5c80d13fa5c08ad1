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

    def checked(self) -> Answer:
        """Return the answer itself.

        Raises:
            RuntimeError: Its status is not 200.
        """
        if self.status != 200:
            raise RuntimeError(f"status {self.status}: {self.body[:300]!r}")
        return self


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
        answers.append(answer.checked())
    return seconds, answers


def measure_throughput(
    connect: Callable[[], Connection],
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
    seconds: list[list[float]] = [[] for _ in range(clients)]

    def work(connection: Connection, client: int) -> None:
        seconds[client], _ = measure_latency(connection, requests_of_client(connection, client))

    elapsed = run_clients(connect, work, clients=clients)
    durations = [duration for of_client in seconds for duration in of_client]
    return len(durations) / elapsed, durations


def run_clients(connect: Callable[[], Connection], work: Callable[[Connection, int], None], *, clients: int) -> float:
    """Run the work of clients side by side, each on a connection of its own; seconds from first start to last end.

    Raises:
        RuntimeError: A client failed.
    """
    failures: list[BaseException] = []
    start = threading.Barrier(clients + 1)

    def run(client: int) -> None:
        connection = connect()
        start.wait()
        try:
            work(connection, client)
        except (OSError, RuntimeError) as failure:
            failures.append(failure)
        finally:
            connection.close()

    threads = [threading.Thread(target=run, args=(client,)) for client in range(clients)]
    for thread in threads:
        thread.start()
    start.wait()
    begin = time.perf_counter()
    for thread in threads:
        thread.join()
    elapsed = time.perf_counter() - begin
    if failures:
        raise RuntimeError("a client failed") from failures[0]
    return elapsed
