"""Doctored histories of shared records: whatever no order of commits explains is told."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from soak.history import FinalPlace, Outcome, Seen, Sighting, Write, WriteKind
from soak.record_checker import check_records

PLACE, RECORD, OTHER = "mk0000000001", "r1", "r2"


def write(
    kind: WriteKind,
    revision: int,
    began_ns: int,
    ended_ns: int,
    *,
    outcome: Outcome = "acknowledged",
    record_id: str = RECORD,
    disposition: str | None = None,
) -> Write:
    text = f"text {revision}" if kind in ("create", "update") else ""
    key = f"{record_id} {revision} {outcome}"
    return Write(PLACE, kind, key, record_id, revision - 1, text, disposition, began_ns, ended_ns, outcome)


def sighting(began_ns: int, ended_ns: int, revision: int | None, text: str = "", **members: Any) -> Sighting:
    """RECORD at a revision; None when the answer holds everything and RECORD is missing from it."""
    records = {} if revision is None else {RECORD: Seen(revision, text or f"text {revision}", None)}
    whole = {"records": records, "is_complete": revision is None, **members}
    return Sighting("reader", PLACE, "record", began_ns, ended_ns, **whole)


def record_json(revision: int, text: str | None, disposition: str | None = None) -> dict[str, Any]:
    payload = None if text is None else {"content": {"primary": text}}
    review = None if disposition is None else {"disposition": disposition}
    return {"revision": revision, "payload": payload, "review": review}


def problems(writes: list[Write], sightings: list[Sighting], final: FinalPlace | None = None) -> list[str]:
    found = final or FinalPlace(records={RECORD: record_json(2, "text 2")})
    return list(check_records(PLACE, writes, sightings, found, Counter()))


TWO = [write("create", 1, 10, 20), write("update", 2, 30, 40)]


@pytest.mark.parametrize(
    "seen",
    [
        sighting(12, 14, 1),
        sighting(12, 14, None),
        sighting(25, 28, 1),
        sighting(32, 35, 1),
        sighting(32, 35, 2),
        sighting(50, 60, 2),
    ],
)
def test_what_an_order_of_commits_explains_passes(seen: Sighting) -> None:
    """A read that overlaps a write may show the record before or after it."""
    assert [] == problems(TWO, [seen])


def test_a_lost_write_is_found() -> None:
    """It was acknowledged; at the end the record is what it was before, or not there."""
    lost = problems(TWO, [], FinalPlace(records={RECORD: record_json(1, "text 1")}))
    assert [f"record {RECORD} is not as its last write left it"] == lost
    assert [f"record {RECORD} was written and is lost"] == problems(TWO, [], FinalPlace())


def test_a_stale_read_is_found() -> None:
    """After a write was acknowledged, or shown to anybody, nobody sees what was before."""
    (stale,) = problems(TWO, [sighting(45, 50, 1)])
    assert f"shows revision 1 of record {RECORD} after revision 2 was known" in stale
    unanswered = [TWO[0], write("update", 2, 30, 90)]
    (back,) = problems(unanswered, [sighting(32, 35, 2), sighting(36, 38, 1)])
    assert f"shows revision 1 of record {RECORD} after revision 2 was known" in back


def test_a_read_of_the_future_is_found() -> None:
    """A revision is not shown before anybody has asked for it."""
    (early,) = problems(TWO, [sighting(22, 25, 2)])
    assert "before it was sent" in early
    (never,) = problems(TWO, [sighting(50, 55, 3)])
    assert "which nobody has written" in never


def test_a_resurrected_record_is_found() -> None:
    """Once its deletion was acknowledged a record is never shown again, in no search and no page."""
    writes = [TWO[0], write("delete", 2, 30, 40)]
    gone = FinalPlace(records={RECORD: record_json(2, None)})
    assert [] == problems(writes, [sighting(45, 50, None)], gone)
    (risen,) = problems(writes, [sighting(45, 50, 1)], gone)
    assert "after revision 2 was known" in risen
    shown = problems(writes, [sighting(45, 50, 2, "text 1")], gone)
    assert any("which is deleted or rejected" in problem for problem in shown)
    again = [*writes, write("update", 3, 50, 60)]
    found = problems(again, [], FinalPlace(records={RECORD: record_json(3, "text 3")}))
    assert [f"record {RECORD} was written after its deletion, at revision 3"] == found


def test_a_missing_record_is_found() -> None:
    """An answer that holds everything holds each record that is served."""
    (missing,) = problems(TWO, [sighting(45, 50, None)])
    assert f"does not show record {RECORD}, which is served" in missing


def test_a_rejected_record_is_not_shown() -> None:
    """Until another review or an update, and a read meanwhile may miss it."""
    writes = [TWO[0], write("review", 2, 30, 40, disposition="rejected")]
    final = FinalPlace(records={RECORD: record_json(2, "text 1", "rejected")})
    assert [] == problems(writes, [sighting(45, 50, None)], final)
    rejected = {RECORD: Seen(2, "text 1", "rejected")}
    (shown,) = problems(writes, [sighting(45, 50, 2, records=rejected)], final)
    assert "which is deleted or rejected" in shown


def test_two_winners_of_one_revision_are_found() -> None:
    """Of two commands that build on the same revision one is refused."""
    twice = [*TWO, write("update", 2, 31, 41)]
    assert f"record {RECORD} revision 2 was written by 2 commands" in problems(twice, [])


def test_what_a_refused_write_would_have_left_is_found() -> None:
    """Its text is nowhere, neither in an answer nor at the end."""
    refused = write("update", 2, 30, 40, outcome="refused")
    final = FinalPlace(records={RECORD: record_json(1, "text 1")})
    assert [] == problems([TWO[0], refused], [], final)
    found = problems([TWO[0], refused], [sighting(45, 50, 1, "text 2")], final)
    assert any("what a refused write would have left" in problem for problem in found)
    assert [f"record {RECORD} is not as its last write left it"] == problems([TWO[0], refused], [])


def test_an_unknown_write_is_wholly_there_or_not_at_all() -> None:
    """Its receipt says which; the record agrees."""
    unknown = write("update", 2, 30, 40, outcome="unknown")
    receipt = {"record_id": RECORD, "committed_at_millis": 5}
    stored = {("memory/commands", unknown.key): receipt}
    made, unmade = record_json(2, "text 2"), record_json(1, "text 1")
    assert [] == problems([TWO[0], unknown], [], FinalPlace(receipts=stored, records={RECORD: made}))
    assert [] == problems([TWO[0], unknown], [], FinalPlace(records={RECORD: unmade}))
    for half in (FinalPlace(receipts=stored, records={RECORD: unmade}), FinalPlace(records={RECORD: made})):
        assert [f"record {RECORD} is not as its last write left it"] == problems([TWO[0], unknown], [], half)


def test_a_record_that_nobody_wrote_is_found() -> None:
    """Whatever lies there was asked for."""
    final = FinalPlace(records={RECORD: record_json(2, "text 2"), OTHER: record_json(1, "x")})
    assert [f"record {OTHER} is there, and nobody has written it"] == problems(TWO, [], final)


BOTH = FinalPlace(records={RECORD: record_json(2, "text 2"), OTHER: record_json(2, "text 2")})


def pair(began_ns: int, ended_ns: int, first: int, second: int) -> Sighting:
    """RECORD and OTHER at a revision each."""
    shown = {RECORD: Seen(first, f"text {first}", None), OTHER: Seen(second, f"text {second}", None)}
    return sighting(began_ns, ended_ns, None, records=shown, is_complete=False)


def test_an_answer_of_two_moments_is_found() -> None:
    """What it shows together was so at one commit, though each record alone would be explained."""
    others = [write("create", 1, 10, 20, record_id=OTHER), write("update", 2, 46, 47, record_id=OTHER)]
    for explained in (pair(21, 99, 1, 1), pair(21, 99, 2, 1), pair(21, 99, 2, 2)):
        assert [] == problems([*TWO, *others], [explained], BOTH)
    # RECORD was changed before the change of OTHER was even sent.
    (mixed,) = problems([*TWO, *others], [pair(21, 99, 1, 2)], BOTH)
    assert "no order of commits explains what was read" in mixed


def test_reads_agree_on_one_order() -> None:
    """Both changes overlap, so either may be the first one; but not each of them before the other."""
    others = [write("create", 1, 10, 20, record_id=OTHER), write("update", 2, 30, 40, record_id=OTHER)]
    assert [] == problems([*TWO, *others], [pair(31, 38, 1, 2), pair(32, 39, 2, 2)], BOTH)
    assert [] == problems([*TWO, *others], [pair(31, 38, 2, 1), pair(32, 39, 1, 1)], BOTH)
    (found,) = problems([*TWO, *others], [pair(31, 38, 1, 2), pair(32, 39, 2, 1)], BOTH)
    assert "no order of commits explains what was read" in found


def test_an_unanswered_write_may_be_committed_at_any_time() -> None:
    """Its client knows no end of it; those who see it do."""
    unknown = write("update", 2, 30, 40, outcome="unknown")
    stored = {("memory/commands", unknown.key): {"record_id": RECORD}}
    final = FinalPlace(stored, {RECORD: record_json(2, "text 2")})
    assert [] == problems([TWO[0], unknown], [sighting(50, 60, 1), sighting(55, 70, 2)], final)
    assert problems([TWO[0], unknown], [sighting(50, 60, 2), sighting(61, 70, 1)], final)
