"""Judges reads of records that several clients write: was there one order of commits that explains all of them?

Revisions number the commits of a record, and each commit lies between beginning and end of its write. So the order is
known but for when exactly each commit was made, and every read narrows that further. What is checked:

- at most one write made each revision, without gaps, and the record at the end is what the last one left;
- a record is shown as the write of that revision left it, and never as a refused write would have;
- a read shows no revision older than one that was acknowledged, or shown to anyone, before it began;
- a read shows no revision whose write began after it ended;
- what is deleted or rejected is not shown, and what is served is not missing from an answer that holds everything;
- all answers together: commits and reads have an order in which each read lies after the commits that it shows and
  before those that change what it shows, and whatever ended before something else began comes first. So every answer,
  of however many records, is one moment of one history; see `find_cycle`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from soak.commit_order import Event, find_cycle
from soak.history import HIDING_REVIEW, FinalPlace, Json, Seen, Sighting, Write


@dataclass(slots=True)
class _State:
    """A record after one commit."""

    write: Write
    seen: Seen
    is_served: bool


@dataclass(slots=True)
class _Record:
    """What is known of one record.

    Attributes:
        states: By revision, from 1.
        known_ns, known_revisions: From each of these moments on everybody sees that revision or a later one.
    """

    states: list[_State] = field(default_factory=list)
    known_ns: list[int] = field(default_factory=list)
    known_revisions: list[int] = field(default_factory=list)

    def oldest_allowed(self, began_ns: int) -> int:
        place = bisect_left(self.known_ns, began_ns)
        return self.known_revisions[place - 1] if place else 0

    def newest_allowed(self, ended_ns: int) -> int:
        # A write begins after the one that it builds on was seen, so beginnings ascend with revisions.
        return bisect_right([state.write.began_ns for state in self.states], ended_ns)


def check_records(
    place: str, writes: Iterable[Write], sightings: Iterable[Sighting], final: FinalPlace, checks: Counter[str]
) -> Iterator[str]:
    """Yield a sentence for each thing in one place that no order of commits explains.

    Args:
        writes: Of this place; those of unknown outcome are taken as made when their receipt is stored.
        sightings: Of this place.
        final: The place at the end.
        checks: Counts what was compared.
    """
    made, refused_texts = _made(writes, final)
    records: dict[str, _Record] = {}
    for record_id, found in made.items():
        record = records[record_id] = _Record()
        yield from _build(record_id, record, found)
        yield from _check_final(record_id, record, final.records.get(record_id), checks)
    for record_id in final.records.keys() - made.keys():
        yield f"record {record_id} is there, and nobody has written it"
    sightings = list(sightings)
    _learn(records, sightings)
    is_explained = True
    for sighting in sightings:
        where = f"{sighting.client} on {sighting.route}"
        for problem in _check_sighting(sighting, records, refused_texts, checks):
            is_explained = False
            yield f"{place}: {where}: {problem}"
    checks["commits and reads in one order"] += sum(len(record.states) for record in records.values()) + len(sightings)
    # What one answer alone shows wrongly was told already, and would be told again.
    cycle = find_cycle(_events(records, sightings)) if is_explained else []
    if cycle:
        yield f"{place}: no order of commits explains what was read: {' -> '.join(map(str, cycle))}"


def _made(writes: Iterable[Write], final: FinalPlace) -> tuple[dict[str, dict[int, list[Write]]], set[str]]:
    """Writes that took effect, by record and revision, and the texts of those that did not."""
    receipts = {key: receipt for (_, key), receipt in final.receipts.items()}
    made: dict[str, dict[int, list[Write]]] = defaultdict(lambda: defaultdict(list))
    refused = set()
    for write in writes:
        receipt = receipts.get(write.key)
        record_id = write.record_id or (receipt or {}).get("record_id", "")
        if write.outcome == "acknowledged" or (write.outcome == "unknown" and receipt is not None):
            made[record_id][write.revision].append(write)
        elif write.text:
            refused.add(write.text)
    return made, refused


def _build(record_id: str, record: _Record, found: Mapping[int, list[Write]]) -> Iterator[str]:
    text, is_deleted = "", False
    for revision in range(1, max(found) + 1):
        writes = found.get(revision, [])
        if len(writes) != 1:
            yield f"record {record_id} revision {revision} was written by {len(writes)} commands"
            if not writes:
                return
        write = writes[0]
        if is_deleted:
            yield f"record {record_id} was written after its deletion, at revision {revision}"
        text = write.text or text
        is_deleted = write.kind == "delete"
        seen = Seen(revision, "" if is_deleted else text, write.disposition)
        record.states.append(_State(write, seen, not is_deleted and write.disposition != HIDING_REVIEW))


def _check_final(record_id: str, record: _Record, found: Json | None, checks: Counter[str]) -> Iterator[str]:
    checks["records as their last write left them"] += 1
    if found is None:
        yield f"record {record_id} was written and is lost"
    elif not record.states or seen_record(found) != record.states[-1].seen:
        yield f"record {record_id} is not as its last write left it"


def _learn(records: Mapping[str, _Record], sightings: Iterable[Sighting]) -> None:
    """From which moment on each revision has to be seen: acknowledged, or shown to anyone."""
    moments: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for record_id, record in records.items():
        moments[record_id] += [
            (state.write.ended_ns, state.seen.revision)
            for state in record.states
            if state.write.outcome == "acknowledged"
        ]
    for sighting in sightings:
        for record_id, seen in sighting.records.items():
            moments[record_id].append((sighting.ended_ns, seen.revision))
    for record_id, record in records.items():
        newest = 0
        for moment_ns, revision in sorted(moments[record_id]):
            newest = max(newest, revision)
            record.known_ns.append(moment_ns)
            record.known_revisions.append(newest)


def _events(records: Mapping[str, _Record], sightings: Sequence[Sighting]) -> list[Event]:
    """Commits and reads as the points of one history."""
    events = []
    for record_id, record in records.items():
        for state in record.states:
            write, revision = state.write, state.seen.revision
            ended_ns = write.ended_ns if write.outcome == "acknowledged" else None
            after = ((record_id, revision - 1),) if revision > 1 else ()
            events.append(Event((record_id, revision), write.began_ns, ended_ns, after))
    for number, sighting in enumerate(sightings):
        shown = [
            (record_id, seen.revision)
            for record_id, seen in sighting.records.items()
            if record_id in records and seen.revision <= len(records[record_id].states)
        ]
        changes = tuple(
            (record_id, revision + 1) for record_id, revision in shown if revision < len(records[record_id].states)
        )
        name = f"{sighting.client} on {sighting.route}"
        events.append(Event((name, number), sighting.began_ns, sighting.ended_ns, tuple(shown), changes))
    return events


def _check_sighting(
    sighting: Sighting, records: Mapping[str, _Record], refused_texts: set[str], checks: Counter[str]
) -> Iterator[str]:
    checks["answers that show records"] += 1
    for record_id, seen in sighting.records.items():
        checks["records shown"] += 1
        record = records.get(record_id)
        if seen.text in refused_texts:
            yield f"shows what a refused write would have left, in record {record_id}"
        if record is None or seen.revision > len(record.states):
            yield f"shows record {record_id} at revision {seen.revision}, which nobody has written"
            continue
        state = record.states[seen.revision - 1]
        if seen != state.seen:
            yield f"shows record {record_id} otherwise than revision {seen.revision} left it"
        if not state.is_served:
            yield f"shows record {record_id}, which is deleted or rejected"
        oldest = record.oldest_allowed(sighting.began_ns)
        if seen.revision < oldest:
            yield f"shows revision {seen.revision} of record {record_id} after revision {oldest} was known"
        if seen.revision > record.newest_allowed(sighting.ended_ns):
            yield f"shows revision {seen.revision} of record {record_id} before it was sent"
    absent = records.keys() - sighting.records.keys() if sighting.is_complete else sighting.absent
    for record_id in absent:
        checks["records not shown"] += 1
        if record_id in records and not _may_be_absent(records[record_id], sighting):
            yield f"does not show record {record_id}, which is served"


def _may_be_absent(record: _Record, sighting: Sighting) -> bool:
    oldest = record.oldest_allowed(sighting.began_ns)
    newest = record.newest_allowed(sighting.ended_ns)
    return oldest == 0 or any(not state.is_served for state in record.states[oldest - 1 : newest])


def seen_record(record: Json) -> Seen:
    """A documented record as a sighting holds it."""
    payload, review = record["payload"], record["review"]
    text = "" if payload is None else payload["content"]["primary"]
    return Seen(record["revision"], text, None if review is None else review["disposition"])
