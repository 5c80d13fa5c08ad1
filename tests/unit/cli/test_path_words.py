"""Paths in words."""

from __future__ import annotations

from typing import Any

import pytest

from cli.path_words import cuts_in_words, hit_in_words, records_on_paths, title_of

TITLES = {"a": "Bees swarm in May", "b": "The hive was moved", "c": "Honey was harvested"}


def record(record_id: str, text: str = "text") -> dict[str, Any]:
    """Return as much of a record as the words need."""
    return {"record_id": record_id, "payload": {"content": {"primary": text}}}


def relation(kind: str) -> dict[str, Any]:
    """Return a relation with its provenance."""
    return {"input": {"kind": kind, "provenance": {"method": "rule", "method_revision": "2", "evidence_ref": "log:7"}}}


def step(start: str, end: str, direction: str, relation_id: str = "r") -> dict[str, Any]:
    """Return one step of a path."""
    return {
        "relation_id": relation_id,
        "direction": direction,
        "from": {"record_id": start, "revision": 1},
        "to": {"record_id": end, "revision": 1},
    }


def hit(record_id: str, *steps: dict[str, Any], base: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return a hit that was reached from the record "a"."""
    graph = {"anchor": {"record_id": "a", "revision": 1}, "anchor_rank": 1, "steps": list(steps)}
    return {"record": record(record_id), "base": base, "graph": graph, "affinity": None}


@pytest.mark.parametrize(
    ("kind", "direction", "words"),
    [
        ("temporal_before", "outgoing", "came before"),
        ("temporal_before", "incoming", "came after"),
        ("supports", "outgoing", "supports"),
        ("supports", "incoming", "is supported by"),
        ("contradicts", "incoming", "is contradicted by"),
        ("same_entity", "incoming", "is about the same thing as"),
    ],
)
def test_a_step_reads_in_the_direction_it_was_walked(kind: str, direction: str, words: str) -> None:
    """Walking a relation against its direction turns the verb round, not the assertion."""
    lines = hit_in_words(hit("b", step("a", "b", direction)), {"r": relation(kind)}, TITLES)
    assert [
        "reached from “Bees swarm in May”, hit 1 of the base search:",
        f"  “Bees swarm in May” {words} “The hive was moved” [rule 2: log:7]",
    ] == lines


def test_a_base_hit_says_how_it_was_found() -> None:
    """An anchor has no steps; its own retrieval is the explanation."""
    base = {"rank": 1, "retrieval": {"mode": "lexical", "score": 7.312}, "contribution": 0.08}
    assert ["found by its words (rank 1, BM25 7.31)"] == hit_in_words(hit("a", base=base), {}, TITLES)


def test_records_that_paths_pass_through_are_named_once() -> None:
    """They have to be read to be told by their titles; hits have their titles already."""
    hits = [hit("c", step("a", "b", "outgoing"), step("b", "c", "outgoing")), hit("d", step("b", "d", "outgoing"))]
    assert ["a", "b"] == records_on_paths(hits)


@pytest.mark.parametrize(
    ("text", "title"),
    [("One\nTwo", "One"), ("  \n One ", "One"), ("", "(no text)"), ("x" * 100, "x" * 71 + "…")],
)
def test_a_title_is_one_readable_line(text: str, title: str) -> None:
    """The first line, cut to a length that fits."""
    assert title == title_of(record("a", text))


def test_a_title_holds_nothing_that_a_terminal_obeys() -> None:
    """Memory text may hold control characters; what is shown does not, and other writing systems stay as they are."""
    assert "\ufffd[31mred\ufffd M\u00fcller\u00a07 \U0001f41d" == title_of(
        record("a", "\x1b[31mred\x07 M\u00fcller\u00a07 \U0001f41d\nmore")
    )


def page(*stop_reasons: str, **coverage: bool) -> dict[str, Any]:
    """Return a page that is complete but for what is named."""
    names = ("source_complete", "candidates_complete", "graph_complete", "embeddings_complete")
    return {
        "coverage": {**dict.fromkeys(names, True), **coverage},
        "expansion": {"max_depth": 2, "node_limit": 128, "edge_limit": 256, "scan_limit": 1024},
        "ranking": {"base_candidate_limit": 100},
        "graph_coverage": {"stop_reasons": list(stop_reasons)},
    }


def test_a_complete_page_has_no_cuts() -> None:
    """Nothing is said when everything was looked at."""
    assert [] == cuts_in_words(page())


def test_every_cut_is_said_with_its_limit() -> None:
    """A reader sees which limit to raise."""
    assert [
        "memories beyond the limit of the scan",
        "base hits beyond the best 100",
        "paths of more than 2 steps",
        "more than 128 memories on paths",
        "more than 256 relations",
        "more than 1024 adjacency entries",
        "memories without a current vector in this space",
    ] == cuts_in_words(
        page(
            *("depth_limit", "node_limit", "edge_limit", "scan_limit"),
            source_complete=False,
            candidates_complete=False,
            graph_complete=False,
            embeddings_complete=False,
        )
    )
