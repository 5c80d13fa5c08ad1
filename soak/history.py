"""What happened, as values: who asked what, when it began and ended, and what came of it.

Times are nanoseconds of one monotonic clock. A place is one workspace, told by its marker, a word that stands in every
text that is written to it and in none elsewhere.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Json = dict[str, Any]
Outcome = Literal["acknowledged", "refused", "busy", "unknown"]
"""Of one sending. "busy" is a 503: nothing was begun, so it says nothing about sendings before it."""
WriteKind = Literal["create", "update", "delete", "review"]

MARKER = re.compile(r"mk[0-9a-f]{10}")
HIDING_REVIEW = "rejected"


@dataclass(frozen=True, slots=True)
class Attempt:
    """One sending of one command under its idempotency key.

    Attributes:
        place: Marker of the workspace.
        family: Route; keys of different routes have nothing to do with each other.
        key: Idempotency key.
        digest: Of the body, so that another command under the same key is told apart.
        outcome: What was answered.
        text: The answer as it came, when it was acknowledged.
    """

    place: str
    family: str
    key: str
    digest: str
    outcome: Outcome
    text: str = ""


@dataclass(frozen=True, slots=True)
class Write:
    """One command on a record that several clients write to; all of its sendings together.

    Attributes:
        kind: "review" changes the disposition and keeps the text.
        key: Idempotency key.
        record_id: "" while nobody knows it: a creation whose outcome is unknown.
        expected_revision: What the command builds on; 0 for a creation.
        text: What the record says afterwards; "" where the command does not say.
        disposition: Of a review.
        began_ns, ended_ns: First sending to last answer.
    """

    place: str
    kind: WriteKind
    key: str
    record_id: str
    expected_revision: int
    text: str
    disposition: str | None
    began_ns: int
    ended_ns: int
    outcome: Outcome

    @property
    def revision(self) -> int:
        """What the record has afterwards."""
        return self.expected_revision + 1


@dataclass(frozen=True, slots=True)
class Seen:
    """One record in an answer."""

    revision: int
    text: str
    disposition: str | None


@dataclass(frozen=True, slots=True)
class Sighting:
    """One answer that shows records.

    Attributes:
        client: Who read.
        route: Where.
        records: What it shows, by id.
        absent: Ids that it says are not served: asked for and not there, or missing from an answer that holds all.
        is_complete: It holds every served record of the place, so that whatever else is known is absent.
    """

    client: str
    place: str
    route: str
    began_ns: int
    ended_ns: int
    records: Mapping[str, Seen]
    absent: frozenset[str] = frozenset()
    is_complete: bool = False


@dataclass(frozen=True, slots=True)
class JobStep:
    """A receipt of a job's command."""

    place: str
    job_id: str
    action: str
    revision: int
    key: str


@dataclass(frozen=True, slots=True)
class JobRelation:
    """A relation that an extractor's publication has made; its evidence names job and attempt."""

    job_id: str
    fence: str
    relation_id: str


@dataclass(frozen=True, slots=True)
class FinalPlace:
    """One workspace at the end, read after everything was answered.

    Attributes:
        receipts: Stored receipt by (family, key); family as in `Attempt`.
        records: Documented record by id, tombstones included.
        jobs: Documented job by id.
        job_relations: Relations that publications made.
        job_steps: Stored steps of jobs.
    """

    receipts: Mapping[tuple[str, str], Json] = field(default_factory=dict)
    records: Mapping[str, Json] = field(default_factory=dict)
    jobs: Mapping[str, Json] = field(default_factory=dict)
    job_relations: tuple[JobRelation, ...] = ()
    job_steps: tuple[JobStep, ...] = ()


class History:
    """Collects what happens. Used by many threads.

    Attributes:
        faults: What was wrong with single answers, found at once.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.attempts: list[Attempt] = []
        self.writes: list[Write] = []
        self.sightings: list[Sighting] = []
        self.job_steps: list[JobStep] = []
        self.faults: list[str] = []

    def add(self, event: Attempt | Write | Sighting | JobStep) -> None:
        """Note an event."""
        with self._lock:
            if isinstance(event, Attempt):
                self.attempts.append(event)
            elif isinstance(event, Write):
                self.writes.append(event)
            elif isinstance(event, Sighting):
                self.sightings.append(event)
            else:
                self.job_steps.append(event)

    def fault(self, sentence: str) -> None:
        """Note what is wrong with an answer."""
        with self._lock:
            self.faults.append(sentence)


def foreign_markers(text: str, own: frozenset[str]) -> set[str]:
    """Markers of other places in a text."""
    return set(MARKER.findall(text)) - own
