"""Group commit: one thread decides waiting commits, writes them as one synced batch, then answers all of them.

The order below is what durability rests on:

1. take what is waiting, read the clock, decide every commit against the engine and against those before it;
2. write all accepted ones as one batch, synced;
3. only then answer.

A commit that is refused is answered in step 3 as well: it may have been decided against a commit of the same batch.
When step 2 fails, the outcome of the batch is unknown. Everybody who waits is told so, and this committer accepts
nothing more: the store has to be opened again, under a new incarnation. Reads go on meanwhile.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Final, NamedTuple
from uuid import UUID

from services.domain.errors import StorageFull, StorageInconsistency, WaggleError
from services.runtime.fault_points import FaultInjected, fault_point
from services.runtime.logging import get_logger
from services.runtime.status import RpcFailure
from services.storage.batch import Batch
from services.storage.contract import Commit
from services.storage.engine import (
    Engine,
    EngineCorrupt,
    EngineError,
    EngineSnapshot,
    EngineWriteFailed,
    Operation,
)
from services.storage.errors import StorageUnavailable
from services.storage.instruments import BATCH_COMMITS, COMMITS, SEQUENCE, SYNC_SECONDS, WAITING_COMMITS
from services.storage.layout import META_KEY, StoreMeta, pack_meta, unpack_meta
from services.storage.store_clock import StoreClock

BATCH_COMMITS_MAX: Final = 256
BATCH_BYTES_MAX: Final = 16 * 1024 * 1024
WAITING_COMMITS_MAX: Final = 4096

BuildOperations = Callable[[EngineSnapshot], list[Operation]]
"""Makes what to write from the present state."""

_Outcome = int | RpcFailure | WaggleError


class _Waiting(NamedTuple):
    commit: Commit
    write_bytes: int
    answer: queue.SimpleQueue[_Outcome]


class _Chore(NamedTuple):
    build: BuildOperations | None
    """None to write nothing but the clock, whatever the room."""
    answer: queue.SimpleQueue[_Outcome]


class _Taken(NamedTuple):
    commits: list[_Waiting]
    chore: _Chore | None
    """To be done after the commits."""
    is_last: bool


class Committer:
    """The only writer of one opening of the store.

    Args:
        engine: What to write to.
        meta: The store's own entry, as this opening wrote it.
        clock: The store's clock.
        check_room: Called with the bytes that a batch will write before it is built. Returns the refusal when the disk
            is too full for them.
        on_failure: Called once, from the committer's thread, when the store has to be opened again.
    """

    def __init__(
        self,
        engine: Engine,
        meta: StoreMeta,
        clock: StoreClock,
        *,
        check_room: Callable[[int], StorageFull | None],
        on_failure: Callable[[], None],
    ) -> None:
        self._engine = engine
        self._meta = meta
        self._incarnation = str(UUID(bytes=meta.incarnation))
        self._clock = clock
        self._check_room = check_room
        self._on_failure = on_failure
        self._waiting: queue.SimpleQueue[_Waiting | _Chore | None] = queue.SimpleQueue()
        WAITING_COMMITS.set_function(self._waiting.qsize)
        self._lock = threading.Lock()
        self._closed = False
        self._failed = False
        self._found_damage = False
        self._thread = threading.Thread(target=self._run, name="committer", daemon=True)
        self._thread.start()

    @property
    def has_failed(self) -> bool:
        """A batch was not confirmed; nothing more is accepted."""
        return self._failed

    @property
    def found_damage(self) -> bool:
        """The batch was not confirmed because the engine found its files damaged."""
        return self._found_damage

    @property
    def sequence(self) -> int:
        """Sequence of the newest durable commit."""
        return self._meta.sequence

    def commit(self, commit: Commit, write_bytes: int) -> int:
        """Wait for a commit to be decided and durable, and return its sequence.

        Args:
            commit: What to decide.
            write_bytes: About how many bytes it will write.

        Raises:
            CommitConflict, InvalidRequest, StorageFull, StorageInconsistency: Nothing was written.
            StorageUnavailable: The outcome is unknown.
        """
        try:
            sequence = self._answered(_Waiting(commit, write_bytes, queue.SimpleQueue()))
        except StorageUnavailable:
            COMMITS.labels("unavailable").inc()
            raise
        except (RpcFailure, WaggleError):
            COMMITS.labels("refused").inc()
            raise
        COMMITS.labels("durable").inc()
        return sequence

    def run_chore(self, build: BuildOperations) -> None:
        """Write what is no commit and changes nothing that a reader of the present state sees, between two batches.

        Args:
            build: Runs in the committer's thread.

        Raises:
            StorageFull, StorageInconsistency: Nothing was written.
            StorageUnavailable: It may have been written or not.
        """
        self._answered(_Chore(build, queue.SimpleQueue()))

    def probe(self) -> None:
        """Write the clock, room or not, to learn whether the engine still writes.

        An engine whose background work has failed tells so with the next batch only, and while there is no room none
        comes.

        Raises:
            StorageUnavailable: It does not; the store has to be opened again.
        """
        self._answered(_Chore(None, queue.SimpleQueue()))

    def _answered(self, item: _Waiting | _Chore) -> int:
        with self._lock:
            if self._closed:
                raise StorageUnavailable("the store is closed")
            if self._waiting.qsize() >= WAITING_COMMITS_MAX:
                raise StorageUnavailable("too many commits are waiting")
            self._waiting.put(item)
        outcome = item.answer.get()
        if isinstance(outcome, int):
            return outcome
        raise outcome

    def close(self) -> None:
        """Finish what is waiting, persist the clock, end the thread. Safe to repeat."""
        with self._lock:
            if not self._closed:
                self._closed = True
                self._waiting.put(None)
        self._thread.join()

    def _run(self) -> None:
        is_last = False
        while not is_last:
            commits, chore, is_last = self._take()
            if commits:
                self._process(commits)
            if chore is not None:
                self._process_chore(chore)
        if not self._failed:
            try:
                self._write(self._meta._replace(clock_ms=self._clock.now_ms()), [])
            except EngineError as error:
                get_logger().warning("clock_not_persisted", cause=str(error))

    def _take(self) -> _Taken:
        commits: list[_Waiting] = []
        write_bytes = 0
        item = self._waiting.get()
        while item is not None:
            if isinstance(item, _Chore):
                return _Taken(commits, item, is_last=False)
            commits.append(item)
            write_bytes += item.write_bytes
            if len(commits) >= BATCH_COMMITS_MAX or write_bytes >= BATCH_BYTES_MAX:
                return _Taken(commits, None, is_last=False)
            try:
                item = self._waiting.get_nowait()
            except queue.Empty:
                return _Taken(commits, None, is_last=False)
        return _Taken(commits, None, is_last=True)

    def _process(self, taken: list[_Waiting]) -> None:
        try:
            taken = self._refuse_for_room(taken)
            if not taken:
                return
            if self._failed:
                _answer_all(taken, "the store is about to be opened again")
                return
            outcomes = self._decide_and_write(taken)
        except Exception as error:  # noqa: BLE001 - told to everybody who waits
            self._fail(error)
            _answer_all(taken, "the outcome of the commit is unknown")
        else:
            for waiting, outcome in zip(taken, outcomes, strict=True):
                waiting.answer.put(outcome)

    def _process_chore(self, chore: _Chore) -> None:
        outcome: _Outcome = self._meta.sequence
        try:
            if self._failed:
                outcome = StorageUnavailable("the store is about to be opened again")
            else:
                outcome = self._do_chore(chore.build) or outcome
        except StorageInconsistency as error:
            outcome = error
        except Exception as error:  # noqa: BLE001 - told to who waits
            self._fail(error)
            outcome = StorageUnavailable("whether it was written is unknown")
        chore.answer.put(outcome)

    def _do_chore(self, build: BuildOperations | None) -> StorageFull | StorageInconsistency | None:
        if build is None:
            self._write(self._meta._replace(clock_ms=self._clock.now_ms()), [])
            return None
        snapshot = self._engine.snapshot()
        try:
            self._check_ownership(unpack_meta(snapshot.get(META_KEY) or b""))
            operations = build(snapshot)
        except EngineCorrupt as error:
            get_logger().error("chore_met_damage", cause=str(error))
            return StorageInconsistency("the engine found its files damaged")
        finally:
            snapshot.close()
        refusal = self._check_room(sum(len(key) + len(value or b"") for key, value in operations))
        if operations and refusal is None:
            self._write(self._meta._replace(clock_ms=self._clock.now_ms()), operations)
        return refusal

    def _fail(self, error: Exception) -> None:
        # Whatever it was, whether the batch is there is not known. Opening the store again finds out.
        is_expected = isinstance(error, EngineError | FaultInjected | OSError)
        get_logger().error("commit_failed", cause=str(error), exc_info=not is_expected)
        self._failed = True
        self._found_damage = isinstance(error, EngineWriteFailed) and error.found_damage
        self._on_failure()

    def _refuse_for_room(self, taken: list[_Waiting]) -> list[_Waiting]:
        """Answer those for which there is no room, and return the others."""
        if self._check_room(sum(waiting.write_bytes for waiting in taken)) is None:
            return taken
        # One that is large must not keep small ones out.
        fitting: list[_Waiting] = []
        write_bytes = 0
        for waiting in taken:
            refusal = self._check_room(write_bytes + waiting.write_bytes)
            if refusal is None:
                fitting.append(waiting)
                write_bytes += waiting.write_bytes
            else:
                waiting.answer.put(refusal)
        return fitting

    def _decide_and_write(self, taken: list[_Waiting]) -> list[_Outcome]:
        fault_point("storage.before_batch")
        BATCH_COMMITS.observe(len(taken))
        snapshot = self._engine.snapshot()
        try:
            self._check_ownership(unpack_meta(snapshot.get(META_KEY) or b""))
            clock_ms = self._clock.now_ms()
            batch = Batch(snapshot, sequence=self._meta.sequence, clock_ms=clock_ms, incarnation=self._incarnation)
            outcomes: list[_Outcome] = []
            for waiting in taken:
                try:
                    outcomes.append(batch.decide(waiting.commit))
                except (RpcFailure, WaggleError) as refusal:
                    outcomes.append(refusal)
                except EngineCorrupt as error:
                    get_logger().error("commit_met_damage", cause=str(error))
                    outcomes.append(StorageInconsistency("the engine found its files damaged"))
            operations = batch.operations()
        finally:
            snapshot.close()
        if operations:
            meta = self._meta._replace(sequence=batch.sequence, clock_ms=clock_ms)
            fault_point("storage.before_sync")
            self._write(meta, operations)
            fault_point("storage.after_sync")
        return outcomes

    def _check_ownership(self, stored: StoreMeta) -> None:
        if stored.incarnation != self._meta.incarnation or stored.sequence != self._meta.sequence:
            raise EngineError("somebody else wrote to the store")

    def _write(self, meta: StoreMeta, operations: list[Operation]) -> None:
        operations.append((META_KEY, pack_meta(meta)))
        with SYNC_SECONDS.time():
            self._engine.write(operations)
        self._meta = meta
        SEQUENCE.set(meta.sequence)


def _answer_all(taken: list[_Waiting], why: str) -> None:
    for waiting in taken:
        # One exception object per waiter: raising writes a traceback into it.
        waiting.answer.put(StorageUnavailable(why))
