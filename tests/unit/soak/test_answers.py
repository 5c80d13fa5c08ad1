"""What is looked for in every answer of a soaked suite."""

from __future__ import annotations

from soak.caller import envelope_problems
from soak.history import Seen, foreign_markers
from soak.rivals import records_in
from tests.harness import builders

OWN, FOREIGN = "mk0123456789", "mkabcdef0123"


def test_a_leaked_marker_is_found() -> None:
    """Wherever it stands in an answer; one's own may be there."""
    assert set() == foreign_markers(f'{{"text": "quarrel {OWN} nonce1"}}', frozenset({OWN}))
    assert {FOREIGN} == foreign_markers(f'{{"key": "{FOREIGN}c0n12", "text": "{OWN}"}}', frozenset({OWN}))
    assert {OWN, FOREIGN} == foreign_markers(f"{OWN}{FOREIGN}", frozenset())


def test_every_record_of_an_answer_is_taken() -> None:
    """As a hit, in a page or alone; a tombstone shows nothing."""
    payload = builders.record_json("text")
    record = {"record_id": "r1", "revision": 2, "payload": payload, "review": {"disposition": "approved"}}
    gone = {"record_id": "r2", "revision": 3, "payload": None, "review": None}
    answer = {"page": {"hits": [{"score": 1, "record": record}, {"record": gone}]}, "record_id": "none"}
    assert {"r1": Seen(2, "text", "approved")} == records_in(answer)


def test_an_envelope_has_exactly_the_documented_members() -> None:
    """Anything else is told."""
    good = {"contract_version": 1, "error": {"code": "not_found", "message": "m"}}
    assert [] == envelope_problems(good)
    for bad in ([], {}, {**good, "x": 1}, {**good, "contract_version": 2}, {**good, "error": {"code": "c"}}):
        assert ["it is no documented envelope"] == envelope_problems(bad)
