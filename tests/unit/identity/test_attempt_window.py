"""Bounds on failed logins, to the millisecond."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from services.identity.attempt_window import NAME_FAILURES_MAX, TOTAL_FAILURES_MAX, WINDOW_MS, AttemptWindow


def test_the_bounds_are_the_decided_ones() -> None:
    """Ten for a name and three hundred in all, within a minute."""
    assert (60_000, 10, 300) == (WINDOW_MS, NAME_FAILURES_MAX, TOTAL_FAILURES_MAX)


def test_a_name_is_bounded_for_exactly_the_window() -> None:
    """The attempt beyond the bound is refused until the first one is a whole window old; other names are free."""
    window = AttemptWindow(window_ms=100, name_max=2, total_max=9)
    assert [True, True, False] == [window.begin(b"a", at_ms) is not None for at_ms in (0, 10, 10)]
    assert window.begin(b"b", 10) is not None
    assert [False, True, False] == [window.begin(b"a", at_ms) is not None for at_ms in (99, 100, 109)]
    assert window.begin(b"a", 110) is not None


def test_all_names_together_are_bounded() -> None:
    """Many names do not give many attempts."""
    window = AttemptWindow(window_ms=100, name_max=2, total_max=3)
    assert [True, True, True, False] == [window.begin(bytes([name]), 0) is not None for name in range(4)]
    assert window.begin(b"z", 100) is not None


def test_a_refused_attempt_does_not_count() -> None:
    """Whoever goes on trying is not kept out for longer."""
    window = AttemptWindow(window_ms=100, name_max=1, total_max=9)
    assert window.begin(b"a", 0) is not None
    assert all(window.begin(b"a", at_ms) is None for at_ms in range(1, 100))
    assert window.begin(b"a", 100) is not None


def test_a_withdrawn_attempt_counts_no_longer() -> None:
    """However often it is withdrawn, it makes room for one."""
    window = AttemptWindow(window_ms=100, name_max=1, total_max=2)
    first = window.begin(b"a", 0)
    assert first is not None
    for _ in range(3):
        window.withdraw(first)
    assert [True, False] == [window.begin(b"a", 0) is not None for _ in range(2)]
    assert window.begin(b"b", 0) is not None


@given(
    st.lists(
        st.tuples(st.sampled_from([b"a", b"b", b"c"]), st.integers(0, 30), st.booleans()),
        max_size=60,
    )
)
def test_it_never_admits_more_than_its_bounds(steps: list[tuple[bytes, int, bool]]) -> None:
    """Against a plain count of all attempts: name, time that passes before, whether it succeeds."""
    window = AttemptWindow(window_ms=50, name_max=3, total_max=5)
    failed: list[tuple[bytes, int]] = []
    now_ms = 0
    for name, passed_ms, succeeds in steps:
        now_ms += passed_ms
        recent = [one for one, at_ms in failed if now_ms - at_ms < 50]
        attempt = window.begin(name, now_ms)
        assert (attempt is not None) == (Counter(recent)[name] < 3 and len(recent) < 5)
        if attempt is not None and succeeds:
            window.withdraw(attempt)
        elif attempt is not None:
            failed.append((name, now_ms))
