"""Where damage was met, nothing is written any more."""

from __future__ import annotations

import pytest

from services.domain.errors import StorageInconsistency
from services.storage.contract import Commit, KeyExpectation, PartitionCommit, PartitionRead, Put
from services.storage.core import LocalStore
from services.storage.engine import EngineClosed, EngineCorrupt, EngineError
from services.storage.errors import SnapshotExpired, StorageUnavailable
from services.storage.layout import data_key, pack_value
from services.storage.quarantine import Place, Quarantine
from services.storage.volume import MemoryVolume
from tests.harness.storage import P, Q, get, put

R = b"r" * 32


@pytest.mark.parametrize(
    ("met", "partitions", "is_refused"),
    [
        ([], [P], False),
        ([P], [P], True),
        ([P], [Q, P], True),
        ([P], [Q, R], False),
        ([P], [], False),
        ([None], [P], True),
        ([None], [], True),
        ([P, None], [Q], True),
    ],
)
def test_a_write_is_refused_where_damage_was_met(met: list[Place], partitions: list[bytes], is_refused: bool) -> None:
    """In the partition that it was met in; everywhere when its place is not known."""
    quarantine = Quarantine()
    for place in met:
        quarantine.note(place)
    assert (quarantine.check(partitions) is not None) is is_refused
    assert quarantine.places() == set(met)


@pytest.mark.parametrize(
    ("error", "becomes", "places"),
    [
        (StorageInconsistency("x", partition=P), StorageInconsistency, {P}),
        (StorageInconsistency("x"), StorageInconsistency, {None}),
        (EngineCorrupt("x"), StorageInconsistency, {None}),
        (EngineError("x"), StorageUnavailable, set()),
        (EngineClosed("x"), StorageUnavailable, set()),
        (StorageUnavailable("x"), StorageUnavailable, set()),
    ],
)
def test_watched_failures_are_typed_and_damage_is_noted(
    error: Exception, becomes: type[Exception], places: set[Place]
) -> None:
    """Only damage is noted, with its place if it is known."""
    quarantine = Quarantine()
    with pytest.raises(becomes), quarantine.watch():
        raise error
    assert quarantine.places() == places


def test_a_closed_pinned_snapshot_has_expired() -> None:
    """Which is no damage, and not the store's failure."""
    quarantine = Quarantine()
    with pytest.raises(SnapshotExpired), quarantine.watch(pinned=True):
        raise EngineClosed("x")


def test_a_check_that_finds_nothing_lifts_what_was_met_before_it() -> None:
    """What is met while the check runs stays noted."""
    quarantine = Quarantine()
    quarantine.note(P)
    before = quarantine.places()
    quarantine.note(Q)
    quarantine.lift(before)
    assert (quarantine.check([P]), quarantine.places()) == (None, {Q})


def test_a_store_accepts_writes_again_after_a_clean_check() -> None:
    """Damage that came and went, as of bad memory, needs no restart; while it is there, a check keeps writes out."""
    volume = MemoryVolume()
    with LocalStore(volume) as store:
        put(store, a=b"1")
    engine = volume.open_engine()
    engine.write([(data_key(P, b"a"), pack_value(data_key(P, b"a"), 1, b"1")[:-1] + b"2")])
    with LocalStore(volume) as store:
        with pytest.raises(StorageInconsistency):
            get(store, b"a")
        with pytest.raises(StorageInconsistency, match="waggle verify"):
            put(store, b=b"")
        assert len(store.verify().problems) == 1
        with pytest.raises(StorageInconsistency):
            put(store, b=b"")
        # Reading a key of it, without writing there, keeps nobody from writing elsewhere.
        looks_at_p = PartitionCommit(P, [KeyExpectation(b"b", 0)])
        store.commit(Commit([looks_at_p, PartitionCommit(Q, writes=[Put(b"k", b"")])]))
        engine.write([(data_key(P, b"a"), pack_value(data_key(P, b"a"), 1, b"1"))])
        assert (store.verify().problems, put(store, b=b"")) == ([], 3)
        assert store.read([PartitionRead(P, [b"a", b"b"])]).partitions[0].head == 3
