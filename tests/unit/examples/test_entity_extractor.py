"""Which memories record the same thing, and what the evidence says."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples.entity_extractor import EXTRACTOR, assertions_between, entities_of, extract
from qilbeedb import ConsolidationInput


def record(number: int, text: str = "", *, at: int = 0, **payload: Any) -> dict[str, Any]:
    return {
        "record_id": f"00000000-0000-4000-8000-{number:012}",
        "revision": number,
        "payload": {"episode_type": "Observation", "content": {"primary": text}, "event_time_millis": at, **payload},
    }


@pytest.mark.parametrize(
    ("text", "entities"),
    [
        ("modified cli/main.py", {"file:cli/main.py"}),
        ("renamed a/b.c.py -> a/d.py.", {"file:a/b.c.py", "file:a/d.py"}),
        ("see services/storage/core.py:12", {"file:services/storage/core.py"}),
        ("see https://example.org/a/b.html and main.py", set()),
        ("BEE-42 is like [BEE-7], not X-1, BEE-0 or aBEE-3", {"ticket:BEE-42", "ticket:BEE-7"}),
        ("PEP 8, PEP-8 and RFC 9110, in UTF-8 with SHA-256", {"ticket:PEP-8", "ticket:RFC-9110"}),
        ("db1.eu.example.org fell over.", {"host:db1.eu.example.org"}),
        ("Ask me@mail.example.org about example.org e.g. now", set()),
        ("and/or 1/2 n/a", set()),
    ],
)
def test_entities_in_text(text: str, entities: set[str]) -> None:
    """Paths, tickets and host names; not addresses, words with slashes, or parts of something longer."""
    assert entities == entities_of(record(1, text))


def test_entities_that_are_recorded() -> None:
    """Tags and metadata by their names; other names and types are not meant."""
    found = record(
        1, tags=["file:x", "file:", "ticket", "colour:red"], metadata={"host": "h", "file": 7, "ticket": "T"}
    )
    assert {"file:x", "host:h", "ticket:T"} == entities_of(found)


def test_all_of_the_text_is_read() -> None:
    """Primary, secondary and context; null is no text."""
    found = record(1)
    found["payload"]["content"].update(secondary="BEE-1", context=None)
    assert {"ticket:BEE-1"} == entities_of(found)


def test_links_in_the_order_of_events() -> None:
    """Each memory is linked to the next that records the same, and evidence names all that a pair shares."""
    records = [
        record(1, "BEE-1 in a/b.py", at=30),
        record(2, "BEE-1", at=10),
        record(3, "a/b.py for BEE-1", at=20),
        record(4, "nothing of that", at=15),
    ]
    assert [
        (3, 1, "file:a/b.py; ticket:BEE-1"),
        (2, 3, "ticket:BEE-1"),
    ] == [
        (found["source"]["revision"], found["target"]["revision"], found["evidence_ref"])
        for found in assertions_between(records, 16)
    ]
    assert {"same_entity"} == {found["kind"] for found in assertions_between(records, 16)}


def test_the_best_pairs_fit() -> None:
    """When there are more pairs than allowed, those that share most stay."""
    records = [record(1, "BEE-1 BEE-2"), record(2, "BEE-1 BEE-2"), record(3, "BEE-2")]
    assert ["ticket:BEE-1; ticket:BEE-2"] == [found["evidence_ref"] for found in assertions_between(records, 1)]


def test_a_whole_result() -> None:
    """No model was asked, and nothing was found, which is an outcome."""
    result = extract(ConsolidationInput("j", "attempt", {"max_relations": 4}, [record(1), record(2)], lambda: None))
    assert ([], False, 0) == (result.assertions, result.failed, result.usage["model_calls"])
    assert "shared_reference/1 attempt attempt" == result.evidence_ref
    assert "tool_observation" == EXTRACTOR["origin"]


@given(st.lists(st.text(alphabet="aA/.-1BEx \x00\u00e9", max_size=40), max_size=6), st.integers(1, 16))
def test_whatever_is_said(texts: list[str], count_max: int) -> None:
    """Assertions never exceed the bound, never join a record to itself, and evidence is never too long nor empty."""
    records = [record(number, text) for number, text in enumerate(texts, start=1)]
    found = assertions_between(records, count_max)
    assert len(found) <= count_max
    assert all(one["source"] != one["target"] for one in found)
    assert all(0 < len(one["evidence_ref"].encode()) <= 2048 and one["evidence_ref"].isprintable() for one in found)
