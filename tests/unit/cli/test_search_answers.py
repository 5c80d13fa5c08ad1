"""What `waggle search` says of an answer that holds little, or that a limit cut short."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import cli.main
import cli.search

NEXT = "00000000-0000-4000-8000-0000000000aa"
EMPTY = {"hits": [], "scanned_records": 10_000, "scanned_embeddings": 0}
FURTHER = (
    f"10,000 memories were examined, and there are more: narrow the search with --tag, or go on with --after {NEXT}"
)
NO_SPACE = "No memory in this scope has a vector in the space me/m/1, 2 dimensions."


class Answering:
    """Stands where a session with the gateway is, and answers every request alike."""

    asked: dict[str, Any]

    def __init__(self, page: dict[str, Any]) -> None:
        self.page = page

    def __call__(self, _url: str, _key: str) -> Answering:
        return self

    def __enter__(self) -> Answering:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def post(self, _path: str, body: dict[str, Any]) -> dict[str, Any]:
        self.asked = body
        return {"page": self.page}


def search(monkeypatch: pytest.MonkeyPatch, page: dict[str, Any], *arguments: str) -> tuple[dict[str, Any], list[str]]:
    """The query that a command sends, and the lines that it prints of the answer."""
    gateway = Answering(page)
    monkeypatch.setattr(cli.search, "Session", gateway)
    done = CliRunner().invoke(cli.main.app, ["search", *arguments])
    assert 0 == done.exit_code, done.output
    return gateway.asked["query"], done.output.splitlines()


@pytest.mark.parametrize("kind", ["lexical", "semantic", "hybrid"])
def test_a_search_that_examined_a_part_denies_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: str
) -> None:
    """It says so whether it found something or not, and where to go on; nothing is claimed of the rest."""
    (tmp_path / "vector").write_text(json.dumps([1, 0]), encoding="utf-8")
    seed = ["nectar"] if kind != "semantic" else []
    if kind != "lexical":
        seed += ["--vector", str(tmp_path / "vector"), "--provider", "me", "--model", "m"]
    page = {**EMPTY, "exhaustive": False, "next_after": NEXT}
    query, lines = search(monkeypatch, page, kind, *seed, "--after", NEXT)
    assert (NEXT, ["No memory found.", FURTHER]) == (query["after"], lines)


def test_a_space_without_vectors_is_named_when_everything_was_examined(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A misspelt space is the usual reason of an empty answer."""
    (tmp_path / "vector").write_text(json.dumps([1, 0]), encoding="utf-8")
    asked = ("semantic", "--vector", str(tmp_path / "vector"), "--provider", "me", "--model", "m")
    query, lines = search(monkeypatch, {**EMPTY, "exhaustive": True, "next_after": None}, *asked)
    assert ["No memory found.", NO_SPACE] == lines
    assert "after" not in query
    _, lines = search(monkeypatch, {**EMPTY, "exhaustive": False, "next_after": None}, *asked, "--after", NEXT)
    assert ["No memory found."] == lines
