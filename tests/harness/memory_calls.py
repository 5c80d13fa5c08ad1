"""What tests of memory on a real socket call and look at."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import grpc
import pytest

from services.domain.errors import WaggleError
from services.domain.records import SourceRef
from services.domain.scope import IDENTITY_PARTITION
from services.runtime.status import error_from_rpc
from tests.harness.memory_messages import create
from tests.harness.memory_server import MemoryClient
from tests.harness.memory_world import MemoryWorld

Call = Callable[[], Any]


def refusal(call: Call) -> tuple[str, str | None]:
    """Reason and member of the documented error that a call ends with."""
    with pytest.raises(grpc.RpcError) as failed:
        call()
    error = error_from_rpc(failed.value)
    assert isinstance(error, WaggleError)
    return error.reason, error.member


def made_by(world: MemoryWorld, client: MemoryClient, key: str, **members: Any) -> SourceRef:
    """Create a record over the wire."""
    receipt = client.memory.ExecuteCommand(create(key, **members), metadata=world.authorization()).receipt
    return SourceRef(receipt.record_id, receipt.revision)


def whole_store(world: MemoryWorld) -> list[dict[bytes, bytes]]:
    """Every row that a command could have changed."""
    return [world.rows(), world.partition_rows(IDENTITY_PARTITION)]
