"""The client repeats reads while storage cannot be reached, never commits, and not for ever."""

from __future__ import annotations

import pytest

from services.storage.client import GrpcStore
from services.storage.contract import Commit, PartitionCommit, PartitionRead, Put
from services.storage.errors import StorageUnavailable
from tests.harness.storage import P

NOBODY = "unix:/nonexistent/waggle/storage.sock"


def test_reads_of_an_unreachable_store_give_up_at_the_limit() -> None:
    """With no time to repeat, the failure is told at once and typed."""
    with GrpcStore(NOBODY, retry_limit_s=0.0) as store:
        for act in (
            lambda: store.read([PartitionRead(P)]),
            lambda: list(store.changed_since(P, 0)),
            store.open_snapshot,
            store.status,
            lambda: store.commit(Commit([PartitionCommit(P, writes=[Put(b"k", b"")])])),
        ):
            with pytest.raises(StorageUnavailable):
                act()


def test_letting_a_snapshot_go_never_fails() -> None:
    """An unreachable store lets it expire."""
    with GrpcStore(NOBODY, retry_limit_s=0.0) as store:
        store.close_snapshot("11111111-2222-4333-8444-555555555555")
