"""The end of the demonstration: a job over memories just imported, a worker, and the same question asked again."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cli.connection import Gateway
from cli.console import out
from cli.path_words import title_of
from cli.search import expansion_json, print_graph_page, titles_for
from examples.entity_extractor import EXTRACTOR, assertions_between, entities_of
from qilbeedb import ConsolidationClient, MemoryClient

# Only here do the kinds that the worker asserts weigh fully, and the order of commits nothing.
PROFILE = "typed_path_entity_v1"
SOURCES_MAX = 6
HITS = 6
# A path from a lower hit would hardly be among the first of the next answer.
STARTS_MAX = 3
WORKER_S = 60.0


def choose_sources(
    records: Sequence[dict[str, Any]], found: Sequence[str], *, starts_max: int = STARTS_MAX
) -> list[dict[str, Any]]:
    """Return the records of a job: something that a search found, and what it missed although both record the same.

    Pure.

    Args:
        records: All memories.
        found: Ids of the hits of the search, best first.
        starts_max: How many of them may be the one that was found.

    Returns:
        Two to six records, the found one first; none when nothing fits.
    """
    by_id = {record["record_id"]: record for record in records}
    missed = [record for record in records if record["record_id"] not in found]
    for record_id in found[:starts_max]:
        hit = by_id[record_id]
        named = entities_of(hit)
        related = sorted(
            (record for record in missed if named & entities_of(record)),
            key=lambda record: (-len(named & entities_of(record)), record["record_id"]),
        )
        sources = [hit, *related[: SOURCES_MAX - 1]]
        if any(record_id in _ends(assertion) for assertion in assertions_between(sources, SOURCES_MAX)):
            return sources
    return []


def show_consolidation(
    gateway: Gateway,
    worker_client: tuple[ConsolidationClient, MemoryClient],
    scope: dict[str, Any],
    texts: Sequence[str],
    journal: Path,
    environment: dict[str, str],
) -> None:
    """Ask, let a job be done, and ask again.

    Args:
        gateway: As the owner of the memories.
        worker_client: The same, through the SDK.
        scope: Of the memories.
        texts: Questions; the one whose best hit has something to consolidate is taken.
        journal: Directory for the worker.
        environment: WAGGLE_* variables that tell the worker where and who.
    """
    jobs, memory = worker_client
    plan = _choose_question(_all_records(memory), [(text, _ask(gateway, scope, text)) for text in texts])
    if plan is None:
        out.print("No two of these memories record the same file, ticket or host, so there is nothing to consolidate.")
        return
    text, before, sources = plan
    out.print(f"\u201c{text}\u201d, along relations that say what is about the same thing. So far:", markup=False)
    for rank, hit in enumerate(before["page"]["hits"], start=1):
        out.print(f"{rank:>3}. {title_of(hit['record'])}", markup=False)
    job_id = _create_job(jobs, sources)
    out.print(
        f"\nA job over {len(sources)} memories, {job_id}; waggle worker runs its extractor, which needs no model:"
    )
    _run_worker(job_id, journal, environment)
    inspection = jobs.inspect(job_id)
    _show_receipt(jobs, inspection["job"])
    relation_ids = [receipt["relation_id"] for receipt in inspection["job"]["output_receipts"]]
    _show_assertions(memory, relation_ids, {record["record_id"]: title_of(record) for record in sources})
    after = _ask(gateway, scope, text)
    out.print("\nThe same question again:")
    print_graph_page(after, titles_for(gateway, scope, after))
    ranks = _ranks_through(after, relation_ids)
    out.print(
        f"Found through what the job asserted: {', '.join(f'hit {rank}' for rank in ranks)}."
        if ranks
        else "None of the first hits needed what the job asserted."
    )


def _choose_question(
    records: Sequence[dict[str, Any]], asked: Sequence[tuple[str, dict[str, Any]]]
) -> tuple[str, dict[str, Any], list[dict[str, Any]]] | None:
    for starts_max in range(1, STARTS_MAX + 1):
        for text, answer in asked:
            found = [hit["record"]["record_id"] for hit in answer["page"]["hits"]]
            sources = choose_sources(records, found, starts_max=starts_max)
            if sources:
                return text, answer, sources
    return None


def _ends(assertion: dict[str, Any]) -> tuple[str, str]:
    return assertion["source"]["record_id"], assertion["target"]["record_id"]


def _all_records(memory: MemoryClient) -> list[dict[str, Any]]:
    records: list[dict[str, Any]] = []
    after = None
    while True:
        page = memory.query(limit=200, after=after)
        records.extend(page["records"])
        after = page["next_after"]
        if after is None:
            return records


def _ask(gateway: Gateway, scope: dict[str, Any], text: str) -> dict[str, Any]:
    query = {
        "ranking_version": PROFILE,
        "seed": {"mode": "lexical", "text": text},
        "limit": HITS,
        "expansion": expansion_json("both", 2),
    }
    return gateway.post("/api/v1/memory/search/graph", {"scope": scope, "query": query})


def _create_job(jobs: ConsolidationClient, sources: Sequence[dict[str, Any]]) -> str:
    spec = {
        "sources": [{"record_id": record["record_id"], "revision": record["revision"]} for record in sources],
        "objective": "Link memories that record the same file, ticket or host.",
        "policy_ref": "policy:demo",
        "extractor": {**EXTRACTOR, "evidence_ref": "demo:manifest"},
        "max_relations": 16,
        "max_attempts": 3,
        "lease_millis": 30_000,
        "max_attempt_millis": 300_000,
    }
    receipt = jobs.command({"type": "create", "spec": spec}, idempotency_key="demo-job")
    job_id: str = receipt["job_id"]
    return job_id


def _run_worker(job_id: str, journal: Path, environment: dict[str, str]) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "cli.main", "worker", "--job", job_id, "--journal", str(journal)],
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        text=True,
        timeout=WORKER_S,
        check=False,
    )
    for line in ended.stdout.splitlines():
        out.print(f"     {line}", style="dim", markup=False)
    if ended.returncode:
        raise SystemExit(f"The worker ended with {ended.returncode}.")


def _show_receipt(jobs: ConsolidationClient, job: dict[str, Any]) -> None:
    receipt = jobs.revision(job["job_id"], job["revision"])["receipt"]
    out.print(
        f"Its receipt: {receipt['action']} as revision {receipt['revision']} by {receipt['author']['subject_id']}, "
        f"digest {receipt['receipt_digest'][:16]}, one commit for all of these assertions:",
        markup=False,
    )


def _show_assertions(memory: MemoryClient, relation_ids: Sequence[str], titles: dict[str, str]) -> None:
    for relation_id in relation_ids:
        given = memory.read_relation(relation_id)["input"]
        source, target = (titles[given[end]["record_id"]] for end in ("source", "target"))
        out.print(f"     \u201c{source}\u201d is about the same thing as \u201c{target}\u201d", markup=False)
        out.print(f"       {_shortened(given['provenance']['evidence_ref'])}", style="dim", markup=False)


def _shortened(text: str, length: int = 110) -> str:
    return text if len(text) <= length else text[: length - 1] + "\u2026"


def _ranks_through(answer: dict[str, Any], relation_ids: Sequence[str]) -> list[int]:
    return [
        rank
        for rank, hit in enumerate(answer["page"]["hits"], start=1)
        if hit["graph"] is not None and any(step["relation_id"] in relation_ids for step in hit["graph"]["steps"])
    ]
