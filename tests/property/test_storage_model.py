"""The store against a dictionary of versions, over any sequence of commits, reads, upkeep and restarts."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path

from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from services.storage.contract import (
    Add,
    Commit,
    Delete,
    KeyExpectation,
    KeyRange,
    PartitionCommit,
    PartitionRead,
    Put,
    Write,
)
from services.storage.core import StoreOptions
from services.storage.errors import ChangesForgotten, CommitConflict
from services.storage.upkeep import UpkeepOptions
from tests.harness.storage import P, Q, StoreBench

# Few and short keys, so that commits meet each other; the counter's key is apart, since only counters can be added to.
KEYS = st.binary(min_size=1, max_size=2).map(lambda raw: bytes(byte % 3 + 97 for byte in raw))
BOUNDS = st.one_of(st.just(b""), KEYS)
COUNTER = b"n"
RETENTION_MS = 24_000
PARTITIONS = st.sampled_from([P, Q])
WRITES = st.one_of(
    st.builds(Put, KEYS, st.binary(max_size=3)),
    st.builds(Delete, KEYS),
    st.builds(Add, st.just(COUNTER), st.integers(-3, 3)),
    st.builds(Delete, st.just(COUNTER)),
)

Space = dict[tuple[bytes, bytes], tuple[bytes, int]]


class _Model:
    """Living keys with value and version, and for each key the sequence of its last change."""

    def __init__(self) -> None:
        self.living: Space = {}
        self.changed: dict[tuple[bytes, bytes], int] = {}
        self.heads: dict[bytes, int] = {P: 0, Q: 0}
        self.sequence = 0
        self.deletions: dict[bytes, set[int]] = {P: set(), Q: set()}
        self.forgettable = 0

    def may_be_forgotten(self, partition: bytes, after: int) -> bool:
        """Whether a deletion after a sequence is so old that it need no longer be told."""
        return any(after < at <= self.forgettable for at in self.deletions[partition])

    def apply(self, commit: Commit) -> None:
        """Do what an accepted commit does."""
        outcome: dict[tuple[bytes, bytes], bytes | None] = {}
        for part in commit.partitions:
            for write in part.writes:
                place = (part.partition, write.key)
                stored = self.living.get(place)
                present = outcome[place] if place in outcome else stored and stored[0]
                if isinstance(write, Put):
                    outcome[place] = write.value
                elif isinstance(write, Add):
                    total = write.amount + int.from_bytes(present or b"", "big", signed=True)
                    outcome[place] = total.to_bytes(8, "big", signed=True)
                else:
                    outcome[place] = None
        effective = {place: value for place, value in outcome.items() if value is not None or place in self.living}
        if not effective:
            return
        self.sequence += 1
        for place, value in effective.items():
            self.changed[place] = self.sequence
            self.heads[place[0]] = self.sequence
            if value is None:
                del self.living[place]
                self.deletions[place[0]].add(self.sequence)
            else:
                self.living[place] = (value, self.sequence)

    def holds(self, commit: Commit) -> bool:
        """Whether every expectation of a commit holds."""
        return all(
            all(self.living.get((part.partition, key), (b"", 0))[1] == version for key, version in part.expected_keys)
            and not any(
                partition == part.partition and at > commit.read_sequence and _is_in(key, wanted)
                for (partition, key), at in self.changed.items()
                for wanted in part.expected_ranges
            )
            for part in commit.partitions
        )

    def rows(self, partition: bytes, wanted: KeyRange) -> list[tuple[bytes, bytes, int]]:
        """Living rows of a range in key order."""
        return [
            (key, value, version)
            for (place, key), (value, version) in sorted(self.living.items())
            if place == partition and _is_in(key, wanted)
        ]


def _is_in(key: bytes, wanted: KeyRange) -> bool:
    return wanted.start <= key and (not wanted.end or key < wanted.end)


class StoreMachine(RuleBasedStateMachine):
    """Commits that read now or earlier, pulls from any earlier head, and restarts."""

    implementation = "memory"
    reads = Bundle("reads")

    def __init__(self) -> None:
        super().__init__()
        self._directory = tempfile.TemporaryDirectory(prefix="waggle-model-")
        options = StoreOptions(upkeep=UpkeepOptions(change_retention_ms=RETENTION_MS, forget_count_min=1))
        self.bench = StoreBench(self.implementation, Path(self._directory.name), options)
        self.model = _Model()

    @rule(target=reads, partition=PARTITIONS, keys=st.lists(KEYS, max_size=3), start=BOUNDS, end=BOUNDS)
    def read(self, partition: bytes, keys: list[bytes], start: bytes, end: bytes) -> object:
        """A read tells what the model holds; what it saw becomes the expectations of a later commit."""
        wanted = KeyRange(start, end)
        result = self.bench.store.read([PartitionRead(partition, keys, [wanted])])
        state = result.partitions[0]
        absent = (None, 0)
        assert [tuple(found) for found in state.values] == [
            self.model.living.get((partition, key), absent) for key in keys
        ]
        assert [tuple(row)[:3] for row in state.ranges[0].rows] == self.model.rows(partition, wanted)
        assert (state.head, result.sequence) == (self.model.heads[partition], self.model.sequence)
        expected = [KeyExpectation(key, found.version) for key, found in zip(keys, state.values, strict=True)]
        return result.sequence, PartitionCommit(partition, expected, [wanted])

    @rule(read=consumes(reads), partition=PARTITIONS, writes=st.lists(WRITES, max_size=4))
    def commit(self, read: tuple[int, PartitionCommit], partition: bytes, writes: list[Write]) -> None:
        """A commit succeeds exactly when the model says that all it read still holds."""
        sequence, seen = read
        commit = Commit([seen, PartitionCommit(partition, writes=writes)], read_sequence=sequence)
        if not self.model.holds(commit):
            try:
                self.bench.store.commit(commit)
            except CommitConflict:
                return
            raise AssertionError("a commit was accepted although something that it read has changed")
        try:
            answered = self.bench.store.commit(commit)
        except CommitConflict:
            assert self.model.may_be_forgotten(seen.partition, sequence)
            return
        self.model.apply(commit)
        assert answered == self.model.sequence

    @rule(partition=PARTITIONS, writes=st.lists(WRITES, min_size=1, max_size=4))
    def write_blindly(self, partition: bytes, writes: list[Write]) -> None:
        """A commit without expectations always holds."""
        commit = Commit([PartitionCommit(partition, writes=writes)])
        answered = self.bench.store.commit(commit)
        self.model.apply(commit)
        assert answered == self.model.sequence

    @rule(partition=PARTITIONS, data=st.data(), prefix=BOUNDS)
    def pull(self, partition: bytes, data: st.DataObject, prefix: bytes) -> None:
        """Changes since any sequence are the last changes of exactly the keys that changed, in their order."""
        after = data.draw(st.integers(0, self.model.heads[partition]))
        try:
            pages = list(self.bench.store.changed_since(partition, after, key_prefixes=[prefix], page_bytes=4))
        except ChangesForgotten:
            assert 0 < after
            assert self.model.may_be_forgotten(partition, after)
            return
        rows = [row for page in pages for row in page.rows]
        if after:
            expected = sorted(
                (at, key)
                for (place, key), at in self.model.changed.items()
                if place == partition and at > after and key.startswith(prefix)
            )
            assert [(row.version, row.key) for row in rows] == expected
        else:
            assert [row.key for row in rows] == [
                key for key, *_ in self.model.rows(partition, KeyRange(b"")) if key.startswith(prefix)
            ]
            counts = Counter(key[0] for place, key in self.model.living if place == partition)
            assert pages[-1].counts == counts
        for row in rows:
            assert self.model.living.get((partition, row.key)) == (None if row.deleted else (row.value, row.version))

    @rule(looks=st.integers(1, 2))
    def grow_old(self, looks: int) -> None:
        """Time passes, and upkeep is done: what was deleted may be forgotten, and nothing else."""
        self.bench.local.maintain()
        for _ in range(looks):
            self.bench.clock.ms += RETENTION_MS
            self.bench.local.maintain()
        self.model.forgettable = self.model.sequence

    @rule()
    def restart(self) -> None:
        """Closing and opening loses nothing."""
        self.bench.restart()

    @invariant()
    def everything_agrees(self) -> None:
        """Checksums, counts and change log are those of what is there."""
        assert self.bench.local.verify().problems == []

    def teardown(self) -> None:
        """Let the store go."""
        self.bench.close()
        self._directory.cleanup()


class LevelDBStoreMachine(StoreMachine):
    """The same on LevelDB."""

    implementation = "leveldb"


TestMemoryStore = StoreMachine.TestCase
TestLevelDBStore = LevelDBStoreMachine.TestCase
