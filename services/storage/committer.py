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

from services.domain.errors import StorageInconsistency, WaggleError
from services.runtime.fault_points import FaultInjected, fault_point
from services.runtime.logging import get_logger
from services.runtime.status import RpcFailure
from services.storage.batch import Batch
from services.storage.contract import Commit
from services.storage.engine import Engine, EngineCorrupt, EngineError
from services.storage.errors import StorageFailure, StorageFull, StorageUnavailable
from services.storage.layout import META_KEY, StoreMeta, pack_meta, unpack_meta
from services.storage.store_clock import StoreClock

BATCH_COMMITS_MAX: Final = 256
BATCH_BYTES_MAX: Final = 16 * 1024 * 1024
WAITING_COMMITS_MAX: Final = 4096

_Outcome = int | RpcFailure | WaggleError


class _Waiting(NamedTuple):
    commit: Commit
    value_bytes: int
    answer: queue.SimpleQueue[_Outcome]


class Committer:
    """The only writer of one opening of the store.

    Args:
        engine: What to write to.
        meta: The store's own entry, as this opening wrote it.
        clock: The store's clock.
        check_room: Called with the value bytes of a batch before it is built. Returns the refusal when the disk is too
            full to write.
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
        self._waiting: queue.SimpleQueue[_Waiting | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._closed = False
        self._failed = False
        self._thread = threading.Thread(target=self._run, name="committer", daemon=True)
        self._thread.start()

    @property
    def has_failed(self) -> bool:
        """A batch was not confirmed; nothing more is accepted."""
        return self._failed

    @property
    def sequence(self) -> int:
        """Sequence of the newest durable commit."""
        return self._meta.sequence

    def commit(self, commit: Commit, value_bytes: int) -> int:
        """Wait for a commit to be decided and durable, and return its sequence.

        Raises:
            CommitConflict, InvalidRequest, StorageFull: Nothing was written.
            StorageUnavailable: The outcome is unknown.
        """
        waiting = _Waiting(commit, value_bytes, queue.SimpleQueue())
        with self._lock:
            if self._closed:
                raise StorageUnavailable("the store is closed")
            if self._waiting.qsize() >= WAITING_COMMITS_MAX:
                raise StorageUnavailable("too many commits are waiting")
            self._waiting.put(waiting)
        outcome = waiting.answer.get()
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
            batch, is_last = self._take()
            if batch:
                self._process(batch)
        if not self._failed:
            try:
                self._write(self._meta._replace(clock_ms=self._clock.now_ms()), [])
            except EngineError as error:
                get_logger().warning("clock_not_persisted", cause=str(error))

    def _take(self) -> tuple[list[_Waiting], bool]:
        taken: list[_Waiting] = []
        value_bytes = 0
        item = self._waiting.get()
        while item is not None:
            taken.append(item)
            value_bytes += item.value_bytes
            if len(taken) >= BATCH_COMMITS_MAX or value_bytes >= BATCH_BYTES_MAX:
                return taken, False
            try:
                item = self._waiting.get_nowait()
            except queue.Empty:
                return taken, False
        return taken, True

    def _process(self, taken: list[_Waiting]) -> None:
        try:
            refusal: StorageFailure | None = self._check_room(sum(waiting.value_bytes for waiting in taken))
            if refusal is None and self._failed:
                refusal = StorageUnavailable("the store is about to be opened again")
            if refusal is not None:
                _answer_all(taken, refusal)
                return
            outcomes = self._decide_and_write(taken)
        except Exception as error:  # noqa: BLE001 - told to everybody who waits
            # Whatever it was, whether the batch is there is not known. Opening the store again finds out.
            is_expected = isinstance(error, EngineError | FaultInjected | OSError)
            get_logger().error("commit_failed", cause=str(error), exc_info=not is_expected)
            self._failed = True
            _answer_all(taken, StorageUnavailable("the outcome of the commit is unknown"))
            self._on_failure()
        else:
            for waiting, outcome in zip(taken, outcomes, strict=True):
                waiting.answer.put(outcome)

    def _decide_and_write(self, taken: list[_Waiting]) -> list[_Outcome]:
        fault_point("storage.before_batch")
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

    def _write(self, meta: StoreMeta, operations: list[tuple[bytes, bytes | None]]) -> None:
        operations.append((META_KEY, pack_meta(meta)))
        self._engine.write(operations)
        self._meta = meta


def _answer_all(taken: list[_Waiting], refusal: StorageFailure) -> None:
    for waiting in taken:
        # One exception object per waiter: raising writes a traceback into it.
        waiting.answer.put(type(refusal)(refusal.message))
