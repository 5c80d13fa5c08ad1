"""Stores for tests: every implementation behind one shape, with a clock to move and a restart."""

from __future__ import annotations

import itertools
import tempfile
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from services.runtime.server import Registry, RunningServer
from services.runtime.transport import MESSAGE_BYTES_MAX
from services.storage.client import GrpcStore
from services.storage.contract import (
    Commit,
    Delete,
    KeyExpectation,
    PartitionCommit,
    PartitionRead,
    Put,
    Store,
    Write,
)
from services.storage.core import LocalStore, StoreOptions
from services.storage.directory import DataDirectory, create_store
from services.storage.servicer import StorageServicer
from services.storage.volume import DiskSpace, MemoryVolume, Volume
from waggle.storage.v1 import storage_service_pb2_grpc

P = b"p" * 32
Q = b"q" * 32
START_MS = 1_700_000_000_000
IMPLEMENTATIONS = ("leveldb", "memory", "grpc")


class ManualClock:
    """A host clock that stands still until it is moved."""

    def __init__(self, now_ms: int = START_MS) -> None:
        self.ms = now_ms

    def now_ms(self) -> int:
        """The present time."""
        return self.ms


class StoreBench:
    """One implementation of `Store` with what tests need around it.

    Attributes:
        store: The implementation under test.
        local: The store in this process that is behind it.
        clock: The host's clock of that store.
    """

    store: Store
    local: LocalStore

    def __init__(self, implementation: str, path: Path, options: StoreOptions | None = None) -> None:
        self._implementation = implementation
        self._options = options
        self._path = path
        self.clock = ManualClock()
        self._memory = MemoryVolume()
        self._server: RunningServer | None = None
        self._sockets: tempfile.TemporaryDirectory[str] | None = None
        if implementation != "memory":
            create_store(path)
        self._open()

    def restart(self) -> None:
        """Close the store and open it again: a new incarnation on the same data."""
        self.close()
        self._open()

    def close(self) -> None:
        """Close whatever is open."""
        self.store.close()
        if self._server is not None and self._sockets is not None:
            self._server.drain(0)
            self._sockets.cleanup()
        self.local.close()

    def _open(self) -> None:
        volume: Volume = self._memory if self._implementation == "memory" else DataDirectory(self._path)
        self.local = LocalStore(volume, clock=self.clock, options=self._options)
        self.store = self.local
        if self._implementation == "grpc":
            # A path that is short enough for a socket, whatever the test's own directory is called.
            self._sockets = tempfile.TemporaryDirectory(prefix="waggle-")
            address = f"unix:{self._sockets.name}/storage.sock"
            self._server = serve_store(self.local, address)
            self.store = GrpcStore(address)


class RoomyVolume(MemoryVolume):
    """A store in memory on a disk whose room a test sets.

    Attributes:
        free_bytes: What is free of 1 GiB.
    """

    def __init__(self, free_bytes: int = 1 << 30) -> None:
        super().__init__()
        self.free_bytes = free_bytes

    def disk_space(self) -> DiskSpace | None:
        """1 GiB in all."""
        return DiskSpace(1 << 30, self.free_bytes)


def serve_store(store: Store, address: str) -> RunningServer:
    """Serve a store; the caller drains the server and closes the store."""
    registry = Registry()
    registry.request_bytes_max = MESSAGE_BYTES_MAX
    registry.add(storage_service_pb2_grpc.add_StorageServiceServicer_to_server, StorageServicer(store))
    return RunningServer(registry, address)


def write(store: Store, *writes: Write, partition: bytes = P) -> int:
    """Commit writes without expectations and return the sequence."""
    return store.commit(Commit([PartitionCommit(partition, writes=writes)]))


def put(store: Store, partition: bytes = P, **values: bytes) -> int:
    """Commit named keys and return the sequence."""
    return write(store, *(Put(key.encode(), value) for key, value in values.items()), partition=partition)


def delete(store: Store, *keys: bytes, partition: bytes = P) -> int:
    """Commit deletions and return the sequence."""
    return write(store, *map(Delete, keys), partition=partition)


def get(store: Store, key: bytes, partition: bytes = P) -> bytes | None:
    """Return the value of one key."""
    return store.read([PartitionRead(partition, [key])]).partitions[0].values[0].value


def version(store: Store, key: bytes, partition: bytes = P) -> int:
    """Return the version of one key, 0 when it is absent."""
    return store.read([PartitionRead(partition, [key])]).partitions[0].values[0].version


def expecting(key: bytes, seen: int, *writes: Write, partition: bytes = P) -> Commit:
    """A commit that holds only while a key has the version that was seen."""
    return Commit([PartitionCommit(partition, [KeyExpectation(key, seen)], writes=writes)])


def changes(
    store: Store, after: int, *, prefixes: Sequence[bytes] = (), partition: bytes = P
) -> list[tuple[bytes, bytes | None]]:
    """What `changed_since` tells, as keys with values, None for deleted."""
    pages = store.changed_since(partition, after, key_prefixes=prefixes)
    rows = itertools.chain.from_iterable(page.rows for page in pages)
    return [(row.key, None if row.deleted else row.value) for row in rows]


def run_together(count: int, action: Callable[[int], None]) -> None:
    """Run an action in threads that start together, each with its number; the first failure is raised."""
    barrier = threading.Barrier(count)

    def begin(number: int) -> None:
        barrier.wait()
        action(number)

    with ThreadPoolExecutor(count) as pool:
        for future in [pool.submit(begin, number) for number in range(count)]:
            future.result()
