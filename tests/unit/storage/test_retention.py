"""Which deletions may be forgotten, and what is written to forget them."""

from __future__ import annotations

import pytest

from services.storage.engine import Operation
from services.storage.layout import (
    PartitionHead,
    deletion_key,
    head_key,
    log_key,
    pack_deletion,
    pack_head,
    pack_log_entry,
    unpack_head,
)
from services.storage.retention import SequenceHistory, forget_deletions
from services.storage.volume import MemoryVolume
from tests.harness.storage import P, Q

RETENTION_MS = 24_000


@pytest.mark.parametrize(
    ("now_ms", "expected"), [(0, 0), (23_999, 0), (24_000, 5), (25_999, 5), (26_000, 7), (10**9, 9)]
)
def test_only_what_is_certainly_older_is_forgettable(now_ms: int, expected: int) -> None:
    """The newest commit of the last look that lies a whole retention back."""
    history = SequenceHistory(RETENTION_MS)
    for at_ms, sequence in ((0, 5), (2_000, 7), (9_000, 9)):
        history.note(at_ms, sequence)
    assert history.forgettable(now_ms) == expected


def test_looks_are_few() -> None:
    """However often it is told, a history holds one look for each 24th of the retention, and none that is over."""
    history = SequenceHistory(RETENTION_MS)
    for at_ms in range(0, 100_000, 10):
        history.note(at_ms, at_ms)
        assert history.forgettable(at_ms) <= max(at_ms - RETENTION_MS, 0)
    assert len(history._samples) <= 26
    assert 100_000 - RETENTION_MS - 1_000 <= history.forgettable(100_000)


def _noted(*sequences: int) -> list[Operation]:
    operations: list[Operation] = []
    for sequence in sequences:
        key = b"k%03d" % sequence
        note, entry = deletion_key(P, key), log_key(P, sequence, key)
        operations += [(note, pack_deletion(note, sequence)), (entry, pack_log_entry(entry, deleted=True))]
    head = PartitionHead(max(sequences), len(sequences), {})
    return [*operations, (head_key(P), pack_head(head_key(P), head))]


@pytest.mark.parametrize(
    ("up_to", "count", "head"),
    [(1, 0, (9, 3, {}, 0)), (2, 1, (9, 2, {}, 2)), (5, 2, (9, 1, {}, 5)), (8, 2, (9, 1, {}, 5)), (9, 3, (9, 0, {}, 9))],
)
def test_old_deletions_are_forgotten_and_the_head_says_so(
    up_to: int, count: int, head: tuple[int, int, dict[int, int], int]
) -> None:
    """Note and entry of each go together; the head counts the rest and knows the newest that is gone."""
    engine = MemoryVolume().open_engine()
    engine.write(_noted(2, 5, 9))
    found = forget_deletions(engine.snapshot(), P, up_to)
    engine.write(found.operations)
    snapshot = engine.snapshot()
    assert (found.forgotten_count, found.next_start) == (count, None)
    assert unpack_head(head_key(P), snapshot.get(head_key(P))) == head
    left = [sequence for sequence in (2, 5, 9) if snapshot.get(deletion_key(P, b"k%03d" % sequence)) is not None]
    entries = [
        sequence for sequence in (2, 5, 9) if snapshot.get(log_key(P, sequence, b"k%03d" % sequence)) is not None
    ]
    assert (left, entries) == ([sequence for sequence in (2, 5, 9) if sequence > up_to],) * 2


def test_many_deletions_are_forgotten_step_by_step() -> None:
    """A step looks at 1,024 notes and says where the next one begins; other partitions are left alone."""
    engine = MemoryVolume().open_engine()
    engine.write(_noted(*range(1, 1500)))
    first = forget_deletions(engine.snapshot(), P, 2000)
    engine.write(first.operations)
    second = forget_deletions(engine.snapshot(), P, 2000, first.next_start)
    engine.write(second.operations)
    snapshot = engine.snapshot()
    assert (first.forgotten_count, second.forgotten_count, second.next_start) == (1024, 475, None)
    assert unpack_head(head_key(P), snapshot.get(head_key(P))) == (1499, 0, {}, 1499)
    assert forget_deletions(snapshot, Q, 2000) == ([], 0, None)
