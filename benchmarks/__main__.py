"""`python -m benchmarks`: run the suite, import a corpus, measure, print figure and budget side by side."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from benchmarks.corpus import Corpus, generate_corpus, load_corpus
from benchmarks.figures import Figure, figures_as_json, latency_figures, print_figures
from benchmarks.http_load import Answer, Connection, measure_latency, measure_throughput
from benchmarks.importing import import_corpus, record_body
from benchmarks.jobs import measure_jobs
from benchmarks.searches import (
    SearchBody,
    found_names,
    graph_search,
    hybrid_search,
    lexical_search,
    mean_ndcg,
    mean_recall,
    semantic_search,
)
from benchmarks.suite_process import RunningSuite, create_company, issue_key, run_suite

_CLIENTS = 16
_WARM_UP = 20
_SEARCHES_A_CLIENT = 60
_COMMANDS_A_CLIENT = 100

_MODES: dict[str, SearchBody] = {
    "lexical": lexical_search,
    "semantic": semantic_search,
    "hybrid": hybrid_search,
    "graph": graph_search,
}

_console = Console(width=120)


def main(
    data: Annotated[Path | None, typer.Option(help="Directory of a real corpus; generated without it.")] = None,
    passages: Annotated[int, typer.Option(help="Size of the generated corpus.")] = 10_000,
    output: Annotated[Path | None, typer.Option(help="Keep the figures as JSON in this file.")] = None,
) -> None:
    """Measure every budget. Exit status 1 when one is missed."""
    corpus = generate_corpus(passages=passages) if data is None else load_corpus(data)
    figures = measure_corpus(corpus)
    title = f"{corpus.name}: {len(corpus.passages):,} memories x {corpus.dimensions}, {len(corpus.links):,} relations"
    print_figures(title, figures)
    if output is not None:
        output.write_text(json.dumps(figures_as_json(figures), indent=2) + "\n", encoding="utf-8")
    raise typer.Exit(int(any(figure.holds is False for figure in figures)))


def measure_corpus(corpus: Corpus) -> list[Figure]:
    """Every figure of one corpus, on a store of its own in a temporary directory."""
    with tempfile.TemporaryDirectory(prefix="waggle-bench-") as temporary:
        directory = Path(temporary) / "data"
        administrator = create_company(directory)
        _console.print("importing ...")
        with run_suite(directory) as suite:
            key = issue_key(suite.address, administrator)
            figures = [Figure("waggle serve, empty store", "to ready", suite.ready_seconds, "s", 4.0)]
            commands, seconds = import_corpus(suite.memory_address, key, corpus)
            figures.append(Figure("bulk import, durable", "rate", commands / seconds, "commands/s", 5000, "above"))
        _console.print("measuring ...")
        with run_suite(directory) as suite:
            figures.append(Figure("waggle serve, with data", "to ready", suite.ready_seconds, "s", 4.0))
            figures += _cold_figures(suite, key, corpus)
            figures += _search_figures(suite, key, corpus)
            figures += _load_figures(suite, key, corpus)
            figures += measure_jobs(lambda: Connection(suite.address, key), workers=_CLIENTS)
        return figures


def _cold_figures(suite: RunningSuite, key: str, corpus: Corpus) -> list[Figure]:
    idle = suite.resident_bytes("services.retrieval")
    connection = Connection(suite.address, key)
    seconds, _ = measure_latency(connection, [connection.prepare(*graph_search(corpus, 0))])
    connection.close()
    grown = (suite.resident_bytes("services.retrieval") - idle) / 1e6
    return [
        Figure("first query after a cold start", "latency", seconds[0], "s", 1.5),
        Figure("memory of retrieval above idle", "resident", grown, "MB", 80),
    ]


def _search_figures(suite: RunningSuite, key: str, corpus: Corpus) -> list[Figure]:
    budgets = {"graph": (4.5, 15.0), "lexical": (3.0, None)}
    connection = Connection(suite.address, key)
    figures: list[Figure] = []
    numbers = range(len(corpus.questions))
    # Odd questions are the test half of a real corpus; a generated one has no halves, all the same.
    judged = [number for number in numbers if number % 2]
    for mode, body in _MODES.items():
        requests = [connection.prepare(*body(corpus, number)) for number in numbers]
        measure_latency(connection, requests[:_WARM_UP])
        seconds, answers = measure_latency(connection, requests)
        p50_ms, p99_ms = budgets.get(mode, (None, None))
        figures += latency_figures(f"{mode} search, JSON to JSON", seconds, p50_ms=p50_ms, p99_ms=p99_ms)
        figures += latency_figures(
            f"{mode} search, inside retrieval", _inside_seconds(answers), p50_ms=2.0 if mode == "graph" else None
        )
        rankings = [found_names(answer) for answer in answers]
        figures.append(Figure(f"{mode} search, quality", "recall@10", mean_recall(corpus, rankings, judged), ""))
        figures.append(Figure(f"{mode} search, quality", "nDCG@10", mean_ndcg(corpus, rankings, judged), ""))
    connection.close()
    return figures


def _inside_seconds(answers: Sequence[Answer]) -> list[float]:
    seconds = []
    for answer in answers:
        micros = answer.headers.get("x-qilbee-retrieval-micros")
        if micros is None:
            micros = json.loads(answer.body)["timing"]["retrieval_micros"]
        seconds.append(int(micros) / 1e6)
    return seconds


def _load_figures(suite: RunningSuite, key: str, corpus: Corpus) -> list[Figure]:
    def searches(connection: Connection, client: int) -> list[bytes]:
        numbers = [(client * 7 + turn) % len(corpus.questions) for turn in range(_SEARCHES_A_CLIENT)]
        return [connection.prepare(*graph_search(corpus, number)) for number in numbers]

    def commands(connection: Connection, client: int) -> list[bytes]:
        first = client * _COMMANDS_A_CLIENT
        bodies = (record_body(number) for number in range(first, first + _COMMANDS_A_CLIENT))
        return [connection.prepare("/api/v1/memory/commands", body) for body in bodies]

    def connect() -> Connection:
        return Connection(suite.address, key)

    rate, seconds = measure_throughput(connect, searches, clients=_CLIENTS)
    work = f"graph search, {_CLIENTS} clients"
    figures = [Figure(work, "rate", rate, "1/s", 300, "above"), *latency_figures(work, seconds)]
    rate, seconds = measure_throughput(connect, commands, clients=_CLIENTS)
    work = f"durable create, {_CLIENTS} clients"
    return [*figures, Figure(work, "rate", rate, "1/s", 500, "above"), *latency_figures(work, seconds)]


if __name__ == "__main__":
    typer.run(main)
