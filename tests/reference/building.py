"""Small worlds by hand: records are letters, relations are numbers, and both sort as they read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from services.domain.embeddings import Binding, EmbeddingReceipt, Space, vector_digest
from services.domain.records import Author, Content, Derivation, Record, RecordInput, Review, SourceRef
from services.domain.relations import Provenance, Relation, RelationInput, RelationKind
from tests.reference.world import World

NOW_MS = 1_700_000_000_000
AUTHOR = Author("00000000-0000-4000-8000-00000000000a", "subject")
SPACE = Space("local", "plane", "1", 2)


def letter_id(letter: str) -> str:
    """Record id of a letter; "Z" and the like may stand for what is not there."""
    return f"{ord(letter):08x}-0000-4000-8000-000000000000"


def number_id(number: int) -> str:
    """Relation id of a number."""
    return f"ffffffff-0000-4000-8000-{number:012x}"


def letter_of(record_id: str) -> str:
    """The letter of a record id."""
    return chr(int(record_id[:8], 16))


def number_of(relation_id: str) -> int:
    """The number of a relation id."""
    return int(relation_id[-12:], 16)


class WorldBuilder:
    """Adds records and relations to a world."""

    def __init__(self) -> None:
        self.world = World(NOW_MS)

    def record(
        self,
        letter: str,
        text: str = "alder",
        *,
        revision: int = 1,
        valid_until_millis: int | None = None,
        tags: tuple[str, ...] = (),
        rejected: bool = False,
        deleted: bool = False,
        sources: Sequence[tuple[str, int]] = (),
        vector: Sequence[float] | None = None,
        bound_revision: int | None = None,
    ) -> WorldBuilder:
        """Add a record, with a binding of `vector` to `bound_revision` (its own unless said)."""
        payload = RecordInput("Observation", Content(text), NOW_MS, valid_until_millis, tags)
        refs = tuple(SourceRef(letter_id(source), at) for source, at in sources)
        record_id = letter_id(letter)
        self.world.records[record_id] = Record(
            record_id,
            revision,
            NOW_MS,
            NOW_MS,
            AUTHOR,
            None if deleted else payload,
            Review("rejected", "why", AUTHOR, NOW_MS) if rejected else None,
            Derivation(refs, "summary", "1", "why") if refs else None,
        )
        if vector is not None:
            array = np.array(vector, np.float32)
            receipt = EmbeddingReceipt(
                "key", record_id, bound_revision or revision, SPACE, vector_digest(array), AUTHOR, NOW_MS
            )
            self.world.bindings[record_id, SPACE] = Binding(receipt, array)
        return self

    def records(self, letters: str, **members: Any) -> WorldBuilder:
        """Add a record for each letter."""
        for letter in letters:
            self.record(letter, **members)
        return self

    def relate(
        self,
        number: int,
        ends: str,
        kind: RelationKind = "supports",
        *,
        revisions: tuple[int, int] = (1, 1),
        valid_from_millis: int | None = None,
        valid_until_millis: int | None = None,
        evidence: Sequence[tuple[str, int]] = (),
        state: str = "active",
        rejected: bool = False,
        evidence_ref: str = "why",
    ) -> WorldBuilder:
        """Assert a relation from the first to the second letter of `ends`."""
        stated = RelationInput(
            SourceRef(letter_id(ends[0]), revisions[0]),
            SourceRef(letter_id(ends[1]), revisions[1]),
            kind,
            Provenance("human_statement", "told", "1", evidence_ref),
            valid_from_millis,
            valid_until_millis,
            tuple(SourceRef(letter_id(source), at) for source, at in evidence),
        )
        review = Review("rejected", "why", AUTHOR, NOW_MS) if rejected else None
        self.world.relations[number_id(number)] = Relation(
            number_id(number),
            1,
            stated,
            AUTHOR,
            NOW_MS,
            NOW_MS,
            state,  # type: ignore[arg-type]
            review,
        )
        return self
