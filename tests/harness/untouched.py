"""A refused write leaves no trace: the same rows before and after."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from services.domain.scope import IDENTITY_PARTITION, partition_id, scope_from_json
from services.storage.client import GrpcStore
from tests.harness.known_memory import Json
from tests.harness.partition_audit import read_partition
from tests.harness.suite import COMPANY, Suite


def dump(suite: Suite, scope: Json | None) -> dict[bytes, bytes]:
    """Every row of a shared scope's partition of the first company, or of the identity partition with None."""
    partition = IDENTITY_PARTITION if scope is None else partition_id(COMPANY, scope_from_json(scope), None)
    with GrpcStore(suite.address("storage")) as store:
        return read_partition(store, partition).rows


@contextmanager
def untouched(suite: Suite, scope: Json | None) -> Iterator[None]:
    """What happens inside changes nothing in a partition; None means the identity partition."""
    before = dump(suite, scope)
    yield
    assert before == dump(suite, scope)
