"""How storage refuses, as typed errors.

    RpcFailure (services.runtime.status)
    └── StorageFailure
        ├── CommitConflict        ABORTED             nothing was written; rerun on a fresh snapshot
        ├── SnapshotExpired       NOT_FOUND           rerun on a fresh snapshot
        ├── ChangesForgotten      OUT_OF_RANGE        the change log does not reach back so far; read everything anew
        ├── TooManySnapshots      RESOURCE_EXHAUSTED  too many pinned snapshots are open
        ├── StorageUnavailable    UNAVAILABLE         not serving, or the outcome of a commit is unknown
        │   └── OutcomeUnknown                        the same, and not to be tried again at once
        └── TransactionContention UNAVAILABLE         a transaction conflicted more often than its bound allows

What callers of the suite hear as well comes from `services.domain.errors`: a stored value that contradicts its
checksum is StorageInconsistency, a refusal for want of room is StorageFull, a bad request is InvalidRequest.
"""

from __future__ import annotations

from typing import ClassVar

import grpc

from services.runtime.status import RpcFailure


class StorageFailure(RpcFailure):
    """A refusal or failure of storage that has a gRPC code but no documented reason.

    Args:
        message: One sentence without stored content.
    """

    status_code: ClassVar[grpc.StatusCode] = grpc.StatusCode.INTERNAL

    def __init__(self, message: str) -> None:
        super().__init__(self.status_code, message)


class CommitConflict(StorageFailure):
    """An expectation, the incarnation or the clock bound did not hold. Nothing was written."""

    status_code = grpc.StatusCode.ABORTED


class SnapshotExpired(StorageFailure):
    """The pinned snapshot is unknown, was let go, or belongs to an earlier opening of the store."""

    status_code = grpc.StatusCode.NOT_FOUND


class ChangesForgotten(StorageFailure):
    """Deletions since that sequence are no longer told. Read the partition from the beginning."""

    status_code = grpc.StatusCode.OUT_OF_RANGE


class TooManySnapshots(StorageFailure):
    """No further snapshot can be pinned at present."""

    status_code = grpc.StatusCode.RESOURCE_EXHAUSTED


class StorageUnavailable(StorageFailure):
    """Storage is not serving. A commit that ended so may or may not have happened: rerun the whole transaction."""

    status_code = grpc.StatusCode.UNAVAILABLE


class OutcomeUnknown(StorageUnavailable):
    """A commit may or may not have happened, and it is no use to run the transaction again at present."""


class TransactionContention(StorageFailure):
    """A transaction lost against others more often than its bound allows. Nothing was written by its last run."""

    status_code = grpc.StatusCode.UNAVAILABLE
