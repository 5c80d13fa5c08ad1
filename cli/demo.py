"""`make demo`: the whole suite on a temporary directory, filled with something real, searched, and explained.

python -m cli.demo [--keep]
"""

from __future__ import annotations

import argparse
import itertools
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from google.protobuf.json_format import MessageToDict

from cli.connection import Gateway, Visibility, scope_json
from cli.console import out
from cli.demo_consolidation import show_consolidation
from cli.demo_corpus import Corpus, choose_corpus, embedding_commands
from cli.imports import counts_in_words, import_commands, scope_message
from cli.local_vectors import LatentSpace
from cli.search import expansion_json, print_graph_page, titles_for
from cli.suite import MEMORY, PROCESSES, VERIFIER_KEY_FILE, find_address
from qilbeedb import ConsolidationClient, MemoryClient
from services.identity.bootstrap import bootstrap_tenant
from services.identity.verifier_key import create_verifier_key
from services.storage.directory import create_store, open_store

COMPANY = "demo-company"
SUBJECT = "demo"
PROJECT = "demo"
AGENT = "importer"
STOP_S = 30.0
REPOSITORY = Path(__file__).resolve().parent.parent


@dataclass(frozen=True, slots=True)
class _Question:
    text: str
    answer: dict[str, Any]
    step_count: int


def main() -> int:
    """Run the demonstration and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m cli.demo", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--keep", action="store_true", help="leave the suite running until Ctrl-C")
    keep = parser.parse_args().keep
    started_at_s = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="waggle-demo-") as scratch:
        data_directory = Path(scratch) / "data"
        chapters = itertools.count(1)
        _chapter(chapters, "A store, a company, the suite")
        admin_key = _prepare(data_directory)
        with _suite(data_directory) as url:
            out.print(f"{len(PROCESSES)} processes are up, HTTP at {url}, data in {data_directory}", markup=False)
            with Gateway(url, admin_key) as gateway:
                writer_key = _issue_writer(gateway)
            _chapter(chapters, "Memories with provenance")
            corpus = choose_corpus(REPOSITORY)
            space = LatentSpace(corpus.texts)
            _import(data_directory, writer_key, corpus, space)
            with Gateway(url, writer_key) as gateway:
                questions = _ask(gateway, corpus, space)
                _show_lexical(gateway, chapters, questions[0].text)
                for question in questions[:2]:
                    _show_graph(gateway, chapters, question)
                _show_hybrid(gateway, chapters, space, questions[0].text)
                _chapter(chapters, "What an external extractor finds in these memories")
                _show_job(gateway, url, writer_key, questions, Path(scratch) / "worker-journal")
            out.print(f"\nAll of that took {time.monotonic() - started_at_s:.0f} s.")
            _show_next(url, writer_key, keep=keep)
            if keep:
                out.print("\nThe suite keeps running; Ctrl-C ends it and removes its data.")
                _wait_for_interrupt()
    return 0


def _prepare(data_directory: Path) -> str:
    create_store(data_directory)
    key = create_verifier_key(data_directory / VERIFIER_KEY_FILE)
    store = open_store(data_directory)
    try:
        answer = bootstrap_tenant(store, key, tenant_id=COMPANY, subject_id="administrator")
    finally:
        store.close()
    out.print(f"Made a store and the company {COMPANY} with its first administrator (offline, as an operator would).")
    secret: str = answer["secret"]
    return secret


@contextmanager
def _suite(data_directory: Path) -> Iterator[str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    log_path = data_directory.parent / "suite.log"
    with log_path.open("w", encoding="utf-8") as log:
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "cli.main", "serve"),
                *("--data-dir", str(data_directory), "--listen", f"127.0.0.1:{port}"),
            ],
            cwd=REPOSITORY,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            # Ctrl-C is for this program, which then stops the suite.
            start_new_session=True,
        )
    try:
        line = process.stdout.readline() if process.stdout else ""
        if "ready at" not in line:
            raise SystemExit(f"The suite did not start:\n{log_path.read_text(encoding='utf-8')}")
        yield f"http://127.0.0.1:{port}"
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        process.wait(STOP_S)


def _issue_writer(gateway: Gateway) -> str:
    spec = {
        "subject_id": SUBJECT,
        "capabilities": ["memory_read", "memory_write"],
        "grants": [scope_json(PROJECT, AGENT, "", Visibility.SHARED)],
    }
    answer = gateway.post("/api/v1/credentials", {"spec": spec})
    out.print("The administrator issued a credential that may read and write exactly one scope, through the gateway.")
    secret: str = answer["secret"]
    return secret


def _import(data_directory: Path, key: str, corpus: Corpus, space: LatentSpace) -> None:
    vectors = embedding_commands(corpus, space)
    address = find_address(data_directory, MEMORY.name)
    scope = scope_message(PROJECT, AGENT, "", Visibility.SHARED)
    commands = [*corpus.commands, *vectors]
    result = import_commands(address, key, scope, commands, total=len(commands))
    out.print(
        f"Imported {corpus.what}: {len(corpus.texts)} memories, {corpus.relation_count} relations, {len(vectors)} "
        f"vectors ({result.committed} commands, every one durable)."
    )
    out.print(
        f"The vectors are a truncated SVD of these very texts, {space.dimensions} dimensions; their embedding space "
        f"is named {space.space.provider}/{space.space.model}/{space.space.revision}."
    )
    again = import_commands(address, key, scope, commands, total=len(commands))
    out.print(f"Importing it again: {counts_in_words(again.committed, again.replayed)}, that is, all of it was there.")


def _graph_query(seed: dict[str, Any]) -> dict[str, Any]:
    return {
        "scope": scope_json(PROJECT, AGENT, "", Visibility.SHARED),
        "query": {
            "ranking_version": "typed_path_balanced_v1",
            "seed": seed,
            "limit": 5,
            "expansion": expansion_json("both", 2),
        },
    }


def _ask(gateway: Gateway, corpus: Corpus, space: LatentSpace) -> list[_Question]:
    """Ask everything that the corpus suggests; what has a vector, more than one word and long paths comes first."""
    questions = []
    for text in corpus.questions:
        answer = gateway.post("/api/v1/memory/search/graph", _graph_query({"mode": "lexical", "text": text}))
        hits = answer["page"]["hits"]
        step_count = sum(len(hit["graph"]["steps"]) for hit in hits if hit["graph"] is not None)
        if hits:
            questions.append(_Question(text, answer, step_count))
    if not questions:
        raise SystemExit("Nothing in the imported texts answers any of the prepared questions.")
    return sorted(
        questions,
        key=lambda question: (not space.embed(question.text).any(), " " not in question.text, -question.step_count),
    )


def _show_lexical(gateway: Gateway, chapters: Iterator[int], text: str) -> None:
    _chapter(chapters, f"By words alone: \u201c{text}\u201d")
    answer = gateway.post(
        "/api/v1/memory/search/lexical",
        {
            "scope": scope_json(PROJECT, AGENT, "", Visibility.SHARED),
            "mode": "lexical",
            "query": {"text": text, "limit": 5},
        },
    )
    # The words of a lexical hit are those of an anchor of a graph search without a graph.
    for rank, hit in enumerate(answer["page"]["hits"], start=1):
        title = str(hit["record"]["payload"]["content"]["primary"]).splitlines()[0]
        out.print(f"{rank:>3}. {title}", style="bold", markup=False)
        out.print(f"     BM25 {hit['score']:.2f}", style="dim")
    _print_micros(answer["timing"]["retrieval_micros"])


def _show_graph(gateway: Gateway, chapters: Iterator[int], question: _Question) -> None:
    _chapter(chapters, f"Along the graph: \u201c{question.text}\u201d")
    scope = scope_json(PROJECT, AGENT, "", Visibility.SHARED)
    print_graph_page(question.answer, titles_for(gateway, scope, question.answer))


def _show_hybrid(gateway: Gateway, chapters: Iterator[int], space: LatentSpace, text: str) -> None:
    vector = space.embed(text)
    if not vector.any():
        return
    _chapter(chapters, f"Words and vectors together, then along the graph: \u201c{text}\u201d")
    seed = {
        "mode": "hybrid",
        "text": text,
        "space": MessageToDict(space.space, preserving_proto_field_name=True),
        "vector": [float(value) for value in vector],
        "ranking_version": "weighted_rrf_v2",
    }
    answer = gateway.post("/api/v1/memory/search/graph", _graph_query(seed))
    scope = scope_json(PROJECT, AGENT, "", Visibility.SHARED)
    print_graph_page(answer, titles_for(gateway, scope, answer))


def _show_job(gateway: Gateway, url: str, key: str, questions: list[_Question], journal: Path) -> None:
    scope = scope_json(PROJECT, AGENT, "", Visibility.SHARED)
    jobs = ConsolidationClient(url, key, tenant_id=COMPANY, subject_id=SUBJECT, scope=scope)
    memory = MemoryClient(url, key, tenant_id=COMPANY, subject_id=SUBJECT, scope=scope)
    environment = {
        "WAGGLE_URL": url,
        "WAGGLE_KEY": key,
        "WAGGLE_PROJECT": PROJECT,
        "WAGGLE_AGENT": AGENT,
        "WAGGLE_MISSION": "",
        "WAGGLE_VISIBILITY": Visibility.SHARED.value,
    }
    show_consolidation(gateway, (jobs, memory), scope, [question.text for question in questions], journal, environment)


def _show_next(url: str, key: str, *, keep: bool) -> None:
    _heading("What to try next")
    if keep:
        out.print(f"  export WAGGLE_URL={url} WAGGLE_KEY={key}", markup=False)
        out.print(f"  export WAGGLE_PROJECT={PROJECT} WAGGLE_AGENT={AGENT}", markup=False)
        out.print('  .venv/bin/waggle search graph "your own question"', markup=False)
        return
    lines = (
        "make demo DEMO=--keep                      the same, left running for your own searches",
        ".venv/bin/waggle admin create-store data   a store of your own, then a company and its administrator:",
        ".venv/bin/waggle admin bootstrap-tenant data my-company me",
        "make serve                                 the suite on it, at http://127.0.0.1:7474",
        "README.md, Your own data                   the history of a repository of yours, or lines of your own",
        "README.md                                  a first session by hand with curl, and what the answers mean",
    )
    for line in lines:
        out.print(f"  {line}", markup=False)


def _print_micros(micros: int) -> None:
    out.print(f"     retrieval took {micros / 1000:.1f} ms", style="dim")


def _chapter(chapters: Iterator[int], text: str) -> None:
    _heading(f"{next(chapters)}. {text}")


def _heading(text: str) -> None:
    out.print(f"\n{text}", style="bold cyan", markup=False)


def _wait_for_interrupt() -> None:
    try:
        signal.pause()
    except KeyboardInterrupt:
        out.print("")


if __name__ == "__main__":
    os.environ.pop("WAGGLE_DATA_DIR", None)
    sys.exit(main())
