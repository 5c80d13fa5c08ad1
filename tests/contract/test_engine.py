"""What every storage engine must do, run on each of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from services.storage.engine import Engine, EngineClosed, EngineExists, EngineFactory, EngineMissing
from services.storage.engine_registry import ENGINES

ROWS = [(b"a", b"1"), (b"b", b"2"), (b"b\x00", b"3"), (b"c", b"4"), (b"\xff", b"5")]


@pytest.fixture(params=sorted(ENGINES))
def factory(request: pytest.FixtureRequest) -> EngineFactory:
    """Each engine of the registry."""
    return ENGINES[request.param]


@pytest.fixture
def engine(factory: EngineFactory, tmp_path: Path) -> Iterator[Engine]:
    """An engine with ROWS in it."""
    made = factory.create(tmp_path / "engine")
    made.write(ROWS)
    yield made
    made.close()


def test_it_is_registered_under_its_name(factory: EngineFactory, engine: Engine) -> None:
    """The name in the registry, of the factory and of the engine are one."""
    assert (factory.name, ENGINES[factory.name]) == (engine.name, factory)


def test_gets_keep_request_order_and_tell_absence(engine: Engine) -> None:
    """Values come in the order of the keys, repeated ones too, None for each absent one; an empty value is a value."""
    engine.write([(b"empty", b"")])
    snapshot = engine.snapshot()
    assert [b"4", None, b"1", b"4", b""] == snapshot.get_many([b"c", b"x", b"a", b"c", b"empty"])
    assert (snapshot.get(b"b"), snapshot.get(b"x"), snapshot.get_many([])) == (b"2", None, [])


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        (b"", b"\xff\xff", ROWS),
        (b"a", b"b", ROWS[:1]),
        (b"b", b"c", ROWS[1:3]),
        (b"b\x00", b"c", ROWS[2:3]),
        (b"b", b"b", []),
        (b"c", b"b", []),
        (b"x", b"y", []),
    ],
)
def test_a_scan_walks_start_inclusive_to_end_exclusive(
    engine: Engine, start: bytes, end: bytes, expected: list[tuple[bytes, bytes]]
) -> None:
    """Both directions find the same rows of [start, end)."""
    snapshot = engine.snapshot()
    assert (expected, False) == snapshot.scan(start, end)
    assert (expected[::-1], False) == snapshot.scan(start, end, reverse=True)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("limit", range(1, 7))
def test_a_row_limit_says_whether_more_exists(engine: Engine, limit: int, reverse: bool) -> None:
    """At most `limit` rows, and `more` exactly when at least one is left."""
    ordered = ROWS[::-1] if reverse else ROWS
    found = engine.snapshot().scan(b"", b"\xff\xff", row_limit=limit, reverse=reverse)
    assert (ordered[:limit], limit < len(ROWS)) == found


def test_a_byte_limit_ends_after_the_row_that_reaches_it(engine: Engine) -> None:
    """The row that brings the sum of value bytes to the limit is the last."""
    engine.write([(b"a", b"x" * 10), (b"b", b"y" * 10)])
    snapshot = engine.snapshot()
    assert (2, True) == _size(snapshot.scan(b"", b"\xff\xff", byte_limit=11))
    assert (1, True) == _size(snapshot.scan(b"", b"\xff\xff", byte_limit=10))
    assert (5, False) == _size(snapshot.scan(b"", b"\xff\xff", byte_limit=23))
    assert (1, True) == _size(snapshot.scan(b"", b"\xff\xff", byte_limit=11, row_limit=1))


def test_a_batch_applies_in_order(engine: Engine) -> None:
    """A later operation of a batch on the same key wins."""
    engine.write([(b"k", b"1"), (b"k", None), (b"a", None), (b"a", b"again")])
    assert [None, b"again"] == engine.snapshot().get_many([b"k", b"a"])


def test_a_half_built_batch_is_not_written(engine: Engine) -> None:
    """When the operations themselves fail, nothing of the batch is there."""

    def operations() -> Iterator[tuple[bytes, bytes | None]]:
        yield b"half", b"1"
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        engine.write(operations())
    assert engine.snapshot().get(b"half") is None


def test_a_snapshot_does_not_change(engine: Engine) -> None:
    """Overwrites, deletions and new keys after a snapshot are not in it, in gets and scans; they are in later ones."""
    first = engine.snapshot()
    engine.write([(b"a", b"new"), (b"b", None), (b"n", b"new")])
    second = engine.snapshot()
    engine.write([(b"a", None), (b"b", b"back")])
    assert (ROWS, False) == first.scan(b"", b"\xff\xff")
    assert [b"1", b"2", None] == first.get_many([b"a", b"b", b"n"])
    assert [b"new", None, b"new"] == second.get_many([b"a", b"b", b"n"])
    first.close()
    assert [b"new", None, b"new"] == second.get_many([b"a", b"b", b"n"])
    second.close()
    assert [None, b"back", b"new"] == engine.snapshot().get_many([b"a", b"b", b"n"])


def test_a_closed_snapshot_reads_no_more(engine: Engine) -> None:
    """Reads of a closed snapshot fail as such; closing it again is fine; the engine goes on."""
    snapshot = engine.snapshot()
    snapshot.close()
    snapshot.close()
    with pytest.raises(EngineClosed):
        snapshot.get(b"a")
    with pytest.raises(EngineClosed):
        snapshot.scan(b"", b"\xff")
    assert b"1" == engine.snapshot().get(b"a")


def test_closing_the_engine_ends_its_snapshots(engine: Engine) -> None:
    """After close nothing reads or writes, snapshots taken before included."""
    snapshot = engine.snapshot()
    engine.close()
    engine.close()
    for act in (
        lambda: snapshot.get(b"a"),
        lambda: snapshot.scan(b"a", b"b"),
        engine.snapshot,
        lambda: engine.write([(b"a", b"2")]),
    ):
        with pytest.raises(EngineClosed):
            act()
    snapshot.close()


def test_what_was_written_is_there_after_reopening(factory: EngineFactory, engine: Engine, tmp_path: Path) -> None:
    """Close and open find the same rows."""
    engine.close()
    again = factory.open(tmp_path / "engine")
    assert (ROWS, False) == again.snapshot().scan(b"", b"\xff\xff")
    again.close()


def test_creating_over_something_is_refused(factory: EngineFactory, engine: Engine, tmp_path: Path) -> None:
    """Create never touches what is there."""
    with pytest.raises(EngineExists):
        factory.create(tmp_path / "engine")
    assert b"1" == engine.snapshot().get(b"a")


def test_opening_nothing_is_refused_and_makes_nothing(factory: EngineFactory, tmp_path: Path) -> None:
    """Open never creates."""
    with pytest.raises(EngineMissing):
        factory.open(tmp_path / "nowhere")
    assert [] == list(tmp_path.iterdir())


def _size(scan: tuple[list[tuple[bytes, bytes]], bool]) -> tuple[int, bool]:
    rows, more = scan
    return len(rows), more
