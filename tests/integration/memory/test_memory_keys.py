"""Commands of all families many times at once: one key is one command, one revision has one winner."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pytest

from services.domain import keys
from services.domain.errors import WaggleError
from services.domain.records import SourceRef
from services.runtime.status import error_from_rpc
from tests.harness.memory_calls import made_by, refusal, whole_store
from tests.harness.memory_messages import (
    assertion,
    attach,
    command,
    create,
    provenance,
    record,
    relation_command,
    review,
)
from tests.harness.memory_server import MemoryClient
from tests.harness.memory_world import MemoryWorld
from waggle.common.v1 import records_pb2
from waggle.memory.v1 import (
    commands_pb2,
    relation_service_pb2,
)

CALLERS = 50


def at_once(count: int, call: Callable[[int], Any]) -> list[Any]:
    """Results or documented reasons of calls that are released together."""
    gate = threading.Barrier(count)

    def run(number: int) -> Any:
        gate.wait()
        try:
            return call(number)
        except grpc.RpcError as error:
            found = error_from_rpc(error)
            return found.reason if isinstance(found, WaggleError) else found

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(run, range(count)))


def family_calls(world: MemoryWorld, client: MemoryClient, key: str) -> dict[str, Callable[[str], Any]]:
    """One command of each family under one key; the argument changes its content."""
    metadata = world.authorization()
    one, two = made_by(world, client, "base-1"), made_by(world, client, "base-2")
    vectors = {"": (1.0, 0.0, 0.0, 0.0), "other": (0.0, 1.0, 0.0, 0.0)}
    dispositions = {"": records_pb2.DISPOSITION_APPROVED, "other": records_pb2.DISPOSITION_UNREVIEWED}
    reviewed = made_by(world, client, "base-3")

    def relate(text: str) -> Any:
        request = assertion(key, one, two, provenance=provenance(evidence_ref=f"ref{text}"))
        return client.relations.ExecuteRelationCommand(request, metadata=metadata).receipt

    return {
        "memory": lambda text: client.memory.ExecuteCommand(create(key, f"text{text}"), metadata=metadata).receipt,
        "embedding": lambda text: (
            client.memory.AttachEmbedding(attach(key, one, vectors[text]), metadata=metadata).receipt
        ),
        "review": lambda text: (
            client.memory.ReviewRecord(review(key, reviewed, dispositions[text]), metadata=metadata).receipt
        ),
        "relation": relate,
    }


FAMILIES = ["memory", "embedding", "review", "relation"]


@pytest.mark.parametrize("family", FAMILIES)
def test_the_same_write_many_times_at_once(world: MemoryWorld, client: MemoryClient, family: str) -> None:
    """One effect, equal receipts for everybody; conflicts inside are retried, not shown."""
    call = family_calls(world, client, "k")[family]
    before = set(world.rows())
    receipts = at_once(CALLERS, lambda _number: call(""))
    assert [receipt == receipts[0] for receipt in receipts] == [True] * CALLERS
    added = [key for key in set(world.rows()) - before if key[:1] == keys.RECEIPT]
    assert len(added) == 1


@pytest.mark.parametrize("family", FAMILIES)
def test_one_key_with_changed_content_conflicts(world: MemoryWorld, client: MemoryClient, family: str) -> None:
    """409 idempotency_conflict, nothing written, and the first receipt is still there for the first command."""
    call = family_calls(world, client, "k")[family]
    receipt = call("")
    before = whole_store(world)
    assert refusal(lambda: call("other"))[0] == "idempotency_conflict"
    assert whole_store(world) == before
    assert call("") == receipt


def test_one_key_with_many_commands_at_once(world: MemoryWorld, client: MemoryClient) -> None:
    """One wins, all others get idempotency_conflict."""
    metadata = world.authorization()
    results = at_once(
        CALLERS,
        lambda number: client.memory.ExecuteCommand(create("k", f"text {number}"), metadata=metadata).receipt.record_id,
    )
    assert results.count("idempotency_conflict") == CALLERS - 1
    assert len([key for key in world.rows() if key[:1] == keys.RECORD]) == 1


def test_many_keys_with_one_text_at_once(world: MemoryWorld, client: MemoryClient) -> None:
    """Nothing is deduplicated by content."""
    metadata = world.authorization()
    results = at_once(
        CALLERS,
        lambda number: client.memory.ExecuteCommand(create(f"k{number}"), metadata=metadata).receipt.record_id,
    )
    assert len(set(results)) == CALLERS
    assert len([key for key in world.rows() if key[:1] == keys.RECORD]) == CALLERS


def test_one_revision_has_one_winner(world: MemoryWorld, client: MemoryClient) -> None:
    """Concurrent updates at one expected revision: one succeeds, the rest are revision_conflict."""
    at, metadata = made_by(world, client, "k"), world.authorization()

    def update(number: int) -> int:
        request = command(
            f"u{number}",
            update=commands_pb2.UpdateRecord(
                record_id=at.record_id, expected_revision=1, record=record(f"text {number}")
            ),
        )
        revision: int = client.memory.ExecuteCommand(request, metadata=metadata).receipt.revision
        return revision

    results = at_once(8, update)
    assert sorted(map(str, results)) == ["2", *["revision_conflict"] * 7]


def test_relation_commands_at_one_revision_have_one_winner(world: MemoryWorld, client: MemoryClient) -> None:
    """Retire and review race for revision 1; adjacency and its counts stay consistent."""
    metadata = world.authorization()
    source, target = made_by(world, client, "a"), made_by(world, client, "b")
    relation_id = client.relations.ExecuteRelationCommand(
        assertion("x", source, target), metadata=metadata
    ).receipt.relation_id

    def step(number: int) -> int:
        members = {"relation_id": relation_id, "expected_revision": 1, "evidence_ref": "ref"}
        operation: dict[str, Any] = (
            {"retire": relation_service_pb2.RetireRelation(**members)}
            if number % 2
            else {
                "review": relation_service_pb2.ReviewRelation(**members, disposition=records_pb2.DISPOSITION_REJECTED)
            }
        )
        request = relation_command(f"s{number}", **operation)
        revision: int = client.relations.ExecuteRelationCommand(request, metadata=metadata).receipt.revision
        return revision

    results = at_once(8, step)
    assert sorted(map(str, results)) == ["2", *["revision_conflict"] * 7]
    rows = world.rows()
    assert not any(key[:1] in (keys.OUTGOING, keys.INCOMING) for key in rows)
    counts = [value for key, value in rows.items() if key[:1] in (keys.OUTGOING_COUNT, keys.INCOMING_COUNT)]
    assert set(counts) == {bytes(8)}


def test_equivalent_spellings_are_one_command(world: MemoryWorld, client: MemoryClient) -> None:
    """Null against default, order of members, blanks and capitals in UUIDs do not make another command."""
    metadata = world.authorization()
    source, target = made_by(world, client, "a"), made_by(world, client, "b")
    first = client.relations.ExecuteRelationCommand(assertion("x", source, target), metadata=metadata).receipt
    shouted = assertion(
        "x", SourceRef(source.record_id.upper(), 1), SourceRef(target.record_id.upper(), 1), evidence_sources=[]
    )
    assert client.relations.ExecuteRelationCommand(shouted, metadata=metadata).receipt == first
    plain = client.memory.ExecuteCommand(create("k", metadata='{"a":1,"b":2}'), metadata=metadata).receipt
    same = create("k", metadata=' { "b" : 2, "a" : 1 } ', tags=[])
    assert client.memory.ExecuteCommand(same, metadata=metadata).receipt == plain
    bare = client.memory.ExecuteCommand(create("n"), metadata=metadata).receipt
    assert client.memory.ExecuteCommand(create("n", metadata="{}"), metadata=metadata).receipt == bare


@pytest.mark.parametrize(
    ("key", "accepted"),
    [("k", True), ("k" * 256, True), ("é" * 128, True), ("k" * 257, False), ("a\tb", False), (" ", False)],
)
def test_bounds_of_keys(world: MemoryWorld, client: MemoryClient, key: str, accepted: bool) -> None:
    """1 to 256 bytes without control characters, not blank."""
    call = lambda: client.memory.ExecuteCommand(create(key), metadata=world.authorization())  # noqa: E731
    if accepted:
        assert call().receipt.idempotency_key == key
    else:
        assert refusal(call) == ("invalid_request", "idempotency_key")


def test_families_keep_their_keys_apart(world: MemoryWorld, client: MemoryClient) -> None:
    """The same key serves all four families."""
    calls = family_calls(world, client, "k")
    receipts = {family: calls[family]("") for family in FAMILIES}
    assert {family: receipt.idempotency_key for family, receipt in receipts.items()} == dict.fromkeys(FAMILIES, "k")
