"""When a pass over the whole store is due, and its pieces."""

from __future__ import annotations

import itertools
from bisect import bisect_left

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.storage.compaction import CompactionSchedule, plan_slices
from services.storage.layout import data_key, deletion_key, head_key, log_key

HOUR_MS = 3_600_000
SCHEDULE = CompactionSchedule(interval_ms=24 * HOUR_MS, idle_ms=60_000)


@pytest.mark.parametrize(
    ("now_ms", "last_commit_ms", "has_commits", "is_due"),
    [
        (24 * HOUR_MS, 23 * HOUR_MS, True, True),
        (24 * HOUR_MS - 1, 23 * HOUR_MS, True, False),
        (24 * HOUR_MS, 24 * HOUR_MS - 60_000, True, True),
        (24 * HOUR_MS, 24 * HOUR_MS - 59_999, True, False),
        (48 * HOUR_MS, 48 * HOUR_MS, True, True),
        (48 * HOUR_MS - 1, 48 * HOUR_MS - 1, True, False),
        (99 * HOUR_MS, 0, False, False),
    ],
)
def test_a_pass_waits_for_quiet_but_not_for_ever(
    now_ms: int, last_commit_ms: int, has_commits: bool, is_due: bool
) -> None:
    """After the interval once nobody writes, after twice the interval anyway, and never when nothing was written."""
    due = SCHEDULE.is_due(now_ms, last_pass_ms=0, last_commit_ms=last_commit_ms, has_commits=has_commits)
    assert due is is_due


def test_no_interval_is_no_pass() -> None:
    """Zero switches it off."""
    schedule = CompactionSchedule(interval_ms=0)
    assert not schedule.is_due(10**15, last_pass_ms=0, last_commit_ms=0, has_commits=True)


PARTITION = st.integers(0, 3).map(lambda number: bytes([number]) + bytes(31))
SHORT_KEY = st.binary(min_size=1, max_size=12)
KEY = st.one_of(
    st.builds(data_key, PARTITION, SHORT_KEY),
    st.builds(deletion_key, PARTITION, SHORT_KEY),
    st.builds(log_key, PARTITION, st.integers(0, 2**40), SHORT_KEY),
    st.builds(head_key, PARTITION),
    st.just(b"m"),
)


@given(st.sets(KEY, max_size=30), st.integers(1, 10))
def test_slices_cover_everything_once(keys: set[bytes], most: int) -> None:
    """Every key lies in exactly one slice, slices come in order, and none that could be cut is too large."""
    ordered = sorted(keys)

    def stored(start: bytes, end: bytes) -> int:
        return bisect_left(ordered, end) - bisect_left(ordered, start)

    slices = list(plan_slices(stored, most))
    assert [key for piece in slices for key in ordered if piece.start <= key < piece.end] == ordered
    assert all(earlier.end <= later.start for earlier, later in itertools.pairwise(slices))
    assert all(1 <= piece.stored_bytes == stored(piece.start, piece.end) for piece in slices)
    # Only keys that agree in their first 49 bytes stay together.
    assert all(
        piece.stored_bytes <= most or len({key[:49] for key in ordered if piece.start <= key < piece.end}) == 1
        for piece in slices
    )
