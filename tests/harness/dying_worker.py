# ruff: noqa: T201 - its parent reads what it prints
"""A worker process that ends itself with SIGKILL at a named step; without one it runs to the end.

    python -m tests.harness.dying_worker SETTINGS-JSON

Prints the receipt's action, or the code that it stopped with. Each call of the extractor adds a line to a file.
"""

from __future__ import annotations

import http.client
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from qilbeedb import (
    ConsolidationClient,
    ConsolidationInput,
    ConsolidationResult,
    ConsolidationStopped,
    ExternalConsolidationWorker,
    SQLiteConsolidationJournal,
    _journal,
)

USAGE = {"status": "reported", "model_calls": 1, "input_tokens": 2, "output_tokens": 3, "cost_microusd": None}


def die() -> None:
    """End at once, as if the power had failed."""
    os.kill(os.getpid(), signal.SIGKILL)


def arm(step: str) -> None:
    """Make the process die `before` or `after` a stage is saved, or when a command has been `sent`."""
    moment, _, name = step.partition(" ")
    save = _journal.JournalTransaction.save
    request = http.client.HTTPConnection.request

    def dying_save(self: Any, binding_id: str, job_id: str, state: dict[str, Any]) -> None:
        if (moment, name) == ("before", state["stage"]):
            die()
        save(self, binding_id, job_id, state)
        if (moment, name) == ("after", state["stage"]):
            die()

    def dying_request(self: Any, method: str, url: str, body: Any = None, headers: Any = None) -> None:
        request(self, method, url, body=body, headers=headers or {})
        if moment in ("sent", "answered") and body and json.loads(body).get("operation", {}).get("type") == name:
            if moment == "answered":
                # The server has carried it out and says so; nobody reads it.
                self.sock.recv(1)
            die()

    _journal.JournalTransaction.save = dying_save  # type: ignore[method-assign]
    http.client.HTTPConnection.request = dying_request  # type: ignore[assignment, method-assign]


def main() -> None:
    """Run one job once."""
    settings = json.loads(sys.argv[1])
    arm(settings["step"])

    def extract(given: ConsolidationInput) -> ConsolidationResult:
        with Path(settings["calls"]).open("a", encoding="utf-8") as calls:
            calls.write(given.attempt_id + "\n")
        if settings["step"] == "in callback":
            die()
        if settings["renew"]:
            given.renew()
        source, target = given.spec["sources"]
        found = {"source": source, "target": target, "kind": "same_entity", "evidence_ref": "seen"}
        return ConsolidationResult([found], USAGE, "run")

    client = ConsolidationClient(
        settings["url"],
        settings["key"],
        tenant_id=settings["company"],
        subject_id="writer",
        scope=settings["scope"],
        timeout=30,
    )
    worker = ExternalConsolidationWorker(client, SQLiteConsolidationJournal(settings["journal"]), worker_id="w")
    try:
        print(worker.run_once(settings["job"], extract)["receipt"]["action"])
    except ConsolidationStopped as stop:
        print(stop.code)


if __name__ == "__main__":
    main()
