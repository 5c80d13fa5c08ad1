"""Callers that send at the same moment, from several processes.

`python -m tests.harness.callers` reads one JSON document from standard input, `{url, key, requests}` with requests of
`[path, body]`, opens a connection and a thread for each, says "ready", waits for a line, sends all of them behind one
barrier, and prints `[[status, document], ...]` in the order of the requests.
"""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    # Not in a process of callers, which is to start quickly.
    from tests.harness.suite import Suite

TIMEOUT_S = 60.0
Request = tuple[str, dict[str, Any]]
Answer = tuple[int, dict[str, Any]]


def send_at_once(suite: Suite, requests: Sequence[Request], *, process_count: int = 2) -> list[Answer]:
    """POST every request below /api/v1 as the writer, all at once, from this many processes; answers in their order."""
    processes = []
    for number in range(process_count):
        share = {"url": suite.url, "key": suite.writer_key, "requests": requests[number::process_count]}
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.harness.callers"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert process.stdin is not None
        process.stdin.write(json.dumps(share) + "\n")
        process.stdin.flush()
        processes.append(process)
    for process in processes:
        assert process.stdout is not None
        assert "ready\n" == process.stdout.readline()
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    answers: list[Answer] = [(0, {})] * len(requests)
    for number, process in enumerate(processes):
        said, _ = process.communicate(timeout=2 * TIMEOUT_S)
        answers[number::process_count] = [(status, document) for status, document in json.loads(said)]
    return answers


def main() -> None:
    """One process of callers."""
    share = json.loads(sys.stdin.readline())
    barrier = threading.Barrier(len(share["requests"]) + 1)

    def send(request: Request) -> Answer:
        path, body = request
        headers = {"Authorization": f"Bearer {share['key']}", "Content-Type": "application/json"}
        connection = http.client.HTTPConnection(str(urlsplit(share["url"]).netloc), timeout=TIMEOUT_S)
        connection.connect()
        barrier.wait()
        connection.request("POST", f"/api/v1/{path}", json.dumps(body), headers)
        response = connection.getresponse()
        answer = response.status, json.loads(response.read())
        connection.close()
        return answer

    with ThreadPoolExecutor(len(share["requests"])) as threads:
        answers = [threads.submit(send, request) for request in share["requests"]]
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        sys.stdin.readline()
        barrier.wait()
        sys.stdout.write(json.dumps([answer.result() for answer in answers]))


if __name__ == "__main__":
    main()
