"""The streaming import on a real socket: batches, references, refusals, resumption."""

from __future__ import annotations

import queue
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import pytest

from services.domain import keys
from services.domain.errors import RecordNotFound, RetrievalBusy, WaggleError
from services.memory.commands import CreateRecord, DeleteRecord, UpdateRecord
from services.memory.get_record import get_record
from services.memory.import_admission import COMPANY_IMPORTS_MAX
from services.runtime.server import THREAD_COUNT
from services.runtime.status import error_from_rpc
from tests.harness.memory_messages import (
    SCOPE,
    by,
    import_assert,
    import_attach,
    import_create,
    import_derive,
    import_requests,
    provenance,
    record,
    ref,
)
from tests.harness.memory_server import MemoryClient, running_memory
from tests.harness.memory_world import MemoryWorld, record_input
from tests.harness.silent_streams import silent_streams
from tests.harness.suite import wait_until
from waggle.common.v1 import errors_pb2, records_pb2, relations_pb2
from waggle.memory.v1 import commands_pb2, memory_service_pb2, reads_pb2, relation_service_pb2
from waggle.memory.v1 import import_service_pb2 as pb

MIXED = [
    import_create("r1", "one"),
    import_create("r2", "two", event_time_millis=1_700_000_000_001),
    import_attach("r1", by("r1")),
    import_derive("d", by("r1"), by("r2")),
    import_assert("x1", by("r1"), by("r2"), kind=relations_pb2.RELATION_KIND_TEMPORAL_BEFORE),
    import_assert("x2", by("d"), by("r2"), evidence_sources=[by("r1")]),
]


def at_absent() -> pb.ImportRef:
    """A record that is not there."""
    return pb.ImportRef(record=records_pb2.SourceRef(record_id="00000000-0000-4000-8000-00000000dead", revision=1))


@pytest.fixture
def world() -> Iterator[MemoryWorld]:
    made = MemoryWorld()
    yield made
    made.close()


@pytest.fixture
def client(world: MemoryWorld, tmp_path: Path) -> Iterator[MemoryClient]:
    with running_memory(world, tmp_path, dimensions_max=8) as connected:
        yield connected


def run(
    world: MemoryWorld, client: MemoryClient, requests: Iterable[pb.ImportCommandsRequest], **members: Any
) -> list[pb.ImportCommandsResponse]:
    metadata = world.authorization(members.get("token"))
    return list(client.imports.ImportCommands(iter(requests), metadata=metadata))


def refused(
    world: MemoryWorld, client: MemoryClient, *commands: pb.ImportCommand, **members: Any
) -> tuple[int, str, str]:
    """Position, reason and member of the refusal that ends an import."""
    batch_commands = members.pop("batch_commands", None)
    last = run(world, client, import_requests(commands, batch_commands=batch_commands), **members)[-1].refusal
    return last.index, errors_pb2.ErrorReason.Name(last.reason), last.member


def counts(world: MemoryWorld) -> dict[bytes, int]:
    found: dict[bytes, int] = {}
    for key in world.rows():
        found[key[:1]] = found.get(key[:1], 0) + 1
    return found


def test_an_import_leaves_what_single_commands_leave(world: MemoryWorld, client: MemoryClient) -> None:
    """Records, time index, bindings, relations, adjacency and receipts of every family are there."""
    (batch, end) = run(world, client, import_requests(MIXED))
    assert (batch.progress.committed, batch.progress.replayed, batch.progress.complete) == (6, 0, False)
    assert (end.progress.committed, end.progress.complete, len(end.progress.outcomes)) == (6, True, 0)
    assert batch.progress.sequence == world.store.status().sequence
    assert [outcome.revision for outcome in batch.progress.outcomes] == [1] * 6
    assert counts(world) == {
        keys.RECORD: 3,
        keys.RECORD_BY_TIME: 3,
        keys.BINDING: 1,
        keys.RELATION: 2,
        keys.RELATION_HISTORY: 2,
        keys.OUTGOING: 2,
        keys.INCOMING: 2,
        keys.OUTGOING_COUNT: 2,
        keys.INCOMING_COUNT: 1,
        keys.RECEIPT: 6,
        keys.WORKSPACE: 1,
    }


@pytest.mark.parametrize("batch_commands", [1, 2, 4, None])
def test_running_it_again_changes_nothing(world: MemoryWorld, client: MemoryClient, batch_commands: int | None) -> None:
    """A second run answers replayed counts and the same ids, whatever its batches are."""
    first = run(world, client, import_requests(MIXED))
    before = world.rows()
    again = run(world, client, import_requests(MIXED[:3], MIXED[3:], batch_commands=batch_commands))
    assert world.rows() == before
    last = again[-1].progress
    assert (last.committed, last.replayed, last.sequence, last.complete) == (0, 6, 0, True)

    def ids(responses: list[pb.ImportCommandsResponse]) -> list[str]:
        return [outcome.id for response in responses for outcome in response.progress.outcomes]

    assert ids(again) == ids(first)
    assert all(outcome.replayed for response in again for outcome in response.progress.outcomes)


def test_an_import_is_one_with_single_commands(world: MemoryWorld, client: MemoryClient) -> None:
    """A command sent alone is a replay inside an import, and its record can be named by its key there."""
    alone = world.execute(CreateRecord(record_input("one")), "r1")
    commands = [import_create("r1", "one"), import_create("r2", "two"), import_assert("x", by("r1"), by("r2"))]
    (batch, _) = run(world, client, import_requests(commands))
    outcomes = batch.progress.outcomes
    assert (outcomes[0].id, outcomes[0].replayed) == (alone["record_id"], True)
    assert (batch.progress.committed, batch.progress.replayed) == (2, 1)


def test_references_reach_over_batches(world: MemoryWorld, client: MemoryClient) -> None:
    """A relation may name records of any earlier batch, by key or by id and revision."""
    known = world.create("known")
    commands = [
        import_create("r1"),
        import_attach("e1", by("r1")),
        import_create("r2"),
        import_assert("x", by("r1"), by("r2"), evidence_sources=[pb.ImportRef(record=ref(known))]),
    ]
    last = run(world, client, import_requests(commands, batch_commands=1))[-1]
    assert (last.progress.committed, last.progress.complete) == (4, True)


def test_every_kind_of_command_is_carried_out(world: MemoryWorld, client: MemoryClient) -> None:
    """Update, delete, retire, restore and review follow the rules of the single routes."""
    run(world, client, import_requests([import_create("a"), import_create("b"), import_assert("x", by("a"), by("b"))]))
    rows = world.rows()
    (relation_id,) = (keys.id_text(key[1:17]) for key in rows if key[:1] == keys.RELATION)
    ids = [keys.id_text(key[1:17]) for key in rows if key[:1] == keys.RECORD]
    step = {"relation_id": relation_id, "evidence_ref": "ref"}
    commands = [
        pb.ImportCommand(
            idempotency_key="1", retire_relation=relation_service_pb2.RetireRelation(expected_revision=1, **step)
        ),
        pb.ImportCommand(
            idempotency_key="2", restore_relation=relation_service_pb2.RestoreRelation(expected_revision=2, **step)
        ),
        pb.ImportCommand(
            idempotency_key="3",
            review_relation=relation_service_pb2.ReviewRelation(
                expected_revision=3, disposition=records_pb2.DISPOSITION_REJECTED, **step
            ),
        ),
        pb.ImportCommand(
            idempotency_key="4",
            update_record=commands_pb2.UpdateRecord(record_id=ids[0], expected_revision=1, record=record("new")),
        ),
        pb.ImportCommand(
            idempotency_key="5", delete_record=commands_pb2.DeleteRecord(record_id=ids[0], expected_revision=2)
        ),
    ]
    (batch, _) = run(world, client, import_requests(commands))
    assert [outcome.revision for outcome in batch.progress.outcomes] == [2, 3, 4, 2, 3]
    with pytest.raises(RecordNotFound):
        world.read(lambda partition: get_record(partition, ids[0]))
    assert not any(key[:1] in (keys.OUTGOING, keys.INCOMING) for key in world.rows())


def test_the_first_refusal_keeps_earlier_batches_and_drops_its_own(world: MemoryWorld, client: MemoryClient) -> None:
    """Counts and position are exact; after a correction the rest goes in."""
    good = [import_create(f"r{number}") for number in range(5)]
    bad = import_assert("x", by("r0"), by("r0"))
    responses = run(world, client, import_requests([*good, bad, import_create("late")], batch_commands=2))
    refusal = responses[-1].refusal
    assert [response.progress.committed for response in responses[:-1]] == [2, 4]
    assert (refusal.index, refusal.committed, refusal.replayed) == (5, 4, 0)
    assert errors_pb2.ErrorReason.Name(refusal.reason) == "ERROR_REASON_INVALID_REQUEST"
    assert counts(world)[keys.RECORD] == 4
    mended = import_assert("x", by("r0"), by("r1"))
    last = run(world, client, import_requests([*good, mended]))[-1].progress
    assert (last.committed, last.replayed, last.complete) == (2, 4, True)


def test_a_malformed_command_does_not_hide_an_earlier_refusal(world: MemoryWorld, client: MemoryClient) -> None:
    """Within a batch the first refused command is told, though a later one is bad in shape."""
    stale = pb.ImportCommand(
        idempotency_key="s",
        delete_record=commands_pb2.DeleteRecord(record_id="00000000-0000-4000-8000-00000000dead", expected_revision=1),
    )
    found = refused(world, client, import_create("a"), stale, import_create("", "bad key"))
    assert found == (1, "ERROR_REASON_RECORD_NOT_FOUND", "")
    assert world.rows() == {}


@pytest.mark.parametrize(
    ("command", "reason", "member"),
    [
        (import_create(""), "INVALID_REQUEST", "idempotency_key"),
        (pb.ImportCommand(idempotency_key="k"), "INVALID_REQUEST", "operation"),
        (import_create("k", metadata="[]"), "INVALID_REQUEST", "create_record.record.metadata"),
        (import_create("k", metadata='{"a":1,"a":2}'), "INVALID_REQUEST", "create_record.record.metadata.a"),
        (import_create("k", event_time_millis=2**60), "INVALID_REQUEST", "create_record.record.event_time_millis"),
        (import_attach("k", by("r"), (0, 0, 0, 0)), "INVALID_REQUEST", "attach_embedding.vector"),
        (import_attach("k", by("r"), (1, 0)), "INVALID_REQUEST", "attach_embedding.vector"),
        (import_attach("k", by("r"), (1, float("nan"), 0, 0)), "INVALID_REQUEST", "attach_embedding.vector"),
        (import_attach("k", by("nobody")), "INVALID_REQUEST", "attach_embedding.record.created_by"),
        (import_attach("k", at_absent()), "RECORD_NOT_FOUND", "attach_embedding.record.record.record_id"),
        (import_attach("k", by("gone")), "RECORD_NOT_FOUND", "attach_embedding.record.created_by"),
        (import_attach("k", by("changed")), "REVISION_CONFLICT", "attach_embedding.record.created_by"),
        (import_derive("k", by("r"), by("nobody")), "INVALID_REQUEST", "derive_record.sources[1].created_by"),
        (import_derive("k", by("r"), at_absent()), "RECORD_NOT_FOUND", "derive_record.sources[1].record.record_id"),
        (import_derive("k", by("r"), by("gone")), "REVISION_CONFLICT", "derive_record.sources"),
        (import_assert("k", by("r"), by("r")), "INVALID_REQUEST", "assert_relation.target.created_by"),
        (import_assert("k", at_absent(), at_absent()), "INVALID_REQUEST", "assert_relation.target.record.record_id"),
        (
            import_assert("k", by("r"), by("q"), evidence_sources=[at_absent(), by("q")]),
            "INVALID_REQUEST",
            "assert_relation.evidence_sources[1].created_by",
        ),
        (
            import_assert("k", by("r"), by("q"), evidence_sources=[at_absent(), at_absent()]),
            "INVALID_REQUEST",
            "assert_relation.evidence_sources[1].record.record_id",
        ),
        (
            import_assert("k", by("r"), by("q"), evidence_sources=[at_absent()]),
            "REVISION_CONFLICT",
            "assert_relation.evidence_sources",
        ),
        (import_assert("k", by("r"), at_absent()), "REVISION_CONFLICT", "assert_relation.target"),
        (
            import_assert("k", by("r"), by("q"), kind=relations_pb2.RELATION_KIND_TEMPORAL_BEFORE),
            "INVALID_REQUEST",
            "assert_relation.kind",
        ),
        (import_attach("k", pb.ImportRef()), "INVALID_REQUEST", "attach_embedding.record"),
        (import_derive("k", by("r"), by("r")), "INVALID_REQUEST", "derive_record.sources"),
        (import_derive("k"), "INVALID_REQUEST", "derive_record.sources"),
        (
            import_assert(
                "k",
                by("r"),
                by("q"),
                provenance=provenance(origin=relations_pb2.RELATION_ORIGIN_MODEL_INFERENCE),
            ),
            "INVALID_REQUEST",
            "assert_relation.provenance.model",
        ),
        (import_create("r", "other"), "IDEMPOTENCY_CONFLICT", "idempotency_key"),
    ],
)
def test_refusals_name_the_member(
    world: MemoryWorld, client: MemoryClient, command: pb.ImportCommand, reason: str, member: str
) -> None:
    """Each bad command is refused as if sent alone, with its member, and nothing of its batch is kept.

    A reference is named as the import spells it: by the key that stands there, or by the member of the record.
    """
    gone = world.execute(CreateRecord(record_input()), "gone")["record_id"]
    world.execute(DeleteRecord(gone, 1))
    changed = world.execute(CreateRecord(record_input()), "changed")["record_id"]
    world.execute(UpdateRecord(changed, 1, record_input("other")))
    before = world.rows()
    good = [import_create(key) for key in ("r", "q", "gone", "changed")]
    found = refused(world, client, *good, command)
    assert found == (4, f"ERROR_REASON_{reason}", member)
    assert world.rows() == before


def test_the_dimension_ceiling_holds(world: MemoryWorld, client: MemoryClient) -> None:
    """A space above the operator's ceiling: embedding_dimension_limit."""
    command = import_attach("k", by("r"), [1.0] * 9)
    command.attach_embedding.space.dimensions = 9
    found = refused(world, client, import_create("r"), command)
    assert found == (1, "ERROR_REASON_EMBEDDING_DIMENSION_LIMIT", "attach_embedding.space.dimensions")


def test_capabilities_are_those_of_the_commands_that_occur(world: MemoryWorld, client: MemoryClient) -> None:
    """Writing alone suffices for records and vectors; an assertion needs reading too."""
    writer = world.issue(capabilities=("memory_write",))
    commands = [import_create("a"), import_create("b"), import_attach("e", by("a"))]
    assert run(world, client, import_requests(commands), token=writer)[-1].progress.complete
    found = refused(world, client, *commands, import_assert("x", by("a"), by("b")), token=writer)
    assert found == (3, "ERROR_REASON_FORBIDDEN", "")


def test_faults_of_the_stream_are_its_status(world: MemoryWorld, client: MemoryClient) -> None:
    """No key, no scope, no opening, two openings, an unsupported version: the call itself fails."""
    opening, group = import_requests([import_create("a")])
    wrong_version = pb.ImportCommandsRequest(opening=pb.ImportOpening(contract_version=2, scope=SCOPE))
    outsider = world.authorization(world.issue(grants=()))
    cases: list[tuple[list[pb.ImportCommandsRequest], Any, str, str | None]] = [
        ([opening, group], (), "unauthorized", None),
        ([opening, group], outsider, "forbidden", None),
        ([group], world.authorization(), "invalid_request", "opening"),
        ([], world.authorization(), "invalid_request", "opening"),
        ([opening, opening], world.authorization(), "invalid_request", "opening"),
        ([wrong_version], world.authorization(), "unsupported_contract_version", "opening.contract_version"),
    ]
    for requests, metadata, reason, member in cases:
        with pytest.raises(grpc.RpcError) as failed:
            list(client.imports.ImportCommands(iter(requests), metadata=metadata))
        error = error_from_rpc(failed.value)
        assert isinstance(error, WaggleError)
        assert (error.reason, error.member) == (reason, member)
    assert world.rows() == {}


def test_who_has_no_key_is_refused_before_it_says_anything(world: MemoryWorld, client: MemoryClient) -> None:
    """It could hold a thread for as long as it likes."""
    with silent_streams(client.imports.ImportCommands, 1) as (call,), pytest.raises(grpc.RpcError) as failed:
        next(call)
    assert grpc.StatusCode.UNAUTHENTICATED == failed.value.code()


def test_who_may_not_write_is_refused_before_it_says_anything(world: MemoryWorld, client: MemoryClient) -> None:
    """A key that only reads opens no import."""
    metadata = world.authorization(world.issue(capabilities=("memory_read",)))
    begin = partial(client.imports.ImportCommands, metadata=metadata)
    with silent_streams(begin, 1) as (call,), pytest.raises(grpc.RpcError) as failed:
        next(call)
    assert grpc.StatusCode.PERMISSION_DENIED == failed.value.code()


def test_one_company_does_not_take_the_threads_of_all(world: MemoryWorld, client: MemoryClient) -> None:
    """With as many imports as it may have, it is told that they are too many."""
    metadata = world.authorization()
    begin = partial(client.imports.ImportCommands, metadata=metadata)
    with silent_streams(begin, COMPANY_IMPORTS_MAX + 1) as calls:
        wait_until(lambda: any(call.done() for call in calls), "one is refused")
        (refused_call,) = [call for call in calls if call.done()]
        error = error_from_rpc(refused_call)
        assert isinstance(error, RetrievalBusy)
    wait_until(lambda: is_imported(world, client), "another import is admitted once they are over")


def is_imported(world: MemoryWorld, client: MemoryClient) -> bool:
    try:
        return run(world, client, import_requests([import_create("after")]))[-1].progress.complete
    except grpc.RpcError:
        return False


def test_silent_imports_hold_up_no_command(world: MemoryWorld, client: MemoryClient) -> None:
    """More of them than there are threads, with a key that is good."""
    metadata = world.authorization()
    begin = partial(client.imports.ImportCommands, metadata=metadata)
    query = reads_pb2.RecordFilter(limit=1)
    request = memory_service_pb2.QueryRecordsRequest(contract_version=1, scope=SCOPE, filter=query)
    with silent_streams(begin, 2 * THREAD_COUNT):
        assert 0 == client.memory.QueryRecords(request, metadata=metadata, timeout=20).page.scanned_records


def test_a_full_batch_is_reported_before_more_is_sent(world: MemoryWorld, client: MemoryClient) -> None:
    """A caller may wait for each report before it sends the next commands."""
    waiting: queue.Queue[pb.ImportCommandsRequest | None] = queue.Queue()
    for request in import_requests([import_create("a"), import_create("b")], batch_commands=2):
        waiting.put(request)
    responses = client.imports.ImportCommands(iter(waiting.get, None), metadata=world.authorization())
    assert next(responses).progress.committed == 2
    waiting.put(pb.ImportCommandsRequest(commands=[import_assert("x", by("a"), by("b"))]))
    waiting.put(None)
    assert [response.progress.committed for response in responses] == [3, 3]


def test_an_empty_import_is_complete(world: MemoryWorld, client: MemoryClient) -> None:
    """No commands: one report, complete, and no workspace."""
    (only,) = run(world, client, import_requests())
    assert (only.progress.complete, only.progress.committed) == (True, 0)
    assert world.rows() == {}


def test_records_too_large_to_be_read_at_once(world: MemoryWorld, client: MemoryClient) -> None:
    """A batch whose endpoints together pass what storage answers at once is carried out all the same."""
    large = [world.create("x" * 1_000_000) for _ in range(52)]
    pairs = zip(large[::2], large[1::2], strict=True)
    commands = [
        import_assert(f"x{number}", pb.ImportRef(record=ref(source)), pb.ImportRef(record=ref(target)))
        for number, (source, target) in enumerate(pairs)
    ]
    assert run(world, client, import_requests(commands))[-1].progress.committed == 26


def test_revocation_between_batches_ends_the_import(world: MemoryWorld, client: MemoryClient) -> None:
    """Each batch is authorized anew; what was committed before stays."""
    token = world.issue()
    waiting: queue.Queue[pb.ImportCommandsRequest | None] = queue.Queue()
    for request in import_requests([import_create("a")], batch_commands=1):
        waiting.put(request)
    responses = client.imports.ImportCommands(iter(waiting.get, None), metadata=world.authorization(token))
    assert next(responses).progress.committed == 1
    world.revoke(token)
    waiting.put(pb.ImportCommandsRequest(commands=[import_create("b")]))
    waiting.put(None)
    with pytest.raises(grpc.RpcError) as failed:
        list(responses)
    assert failed.value.code() is grpc.StatusCode.UNAUTHENTICATED  # type: ignore[attr-defined]
    assert counts(world)[keys.RECORD] == 1
