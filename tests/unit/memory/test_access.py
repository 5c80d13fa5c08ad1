"""Authorized access: the order of checks, admission, round trips, and what a first request registers."""

from __future__ import annotations

import threading

import pytest

from services.domain import keys
from services.domain.canonical_json import parse_canonical
from services.domain.errors import Forbidden, RecordNotFound, RetrievalBusy, Unauthorized
from services.domain.scope import IDENTITY_PARTITION, workspace_for
from services.identity.tokens import Token
from services.memory.access import PartitionAccess
from services.memory.commands import (
    AssertRelation,
    CreateRecord,
    DeleteRecord,
    DeriveRecord,
    ReviewRecord,
    ReviewRelation,
    UpdateRecord,
)
from services.memory.get_record import get_record
from services.runtime.admission import release_slot
from services.storage.contract import Commit, PartitionRead, ReadResult
from services.storage.errors import StorageUnavailable
from tests.harness.memory_world import (
    SCOPE,
    START_MS,
    MemoryWorld,
    derivation,
    embedding,
    record_input,
    relation_input,
    scope_of,
)

ABSENT = "00000000-0000-4000-8000-00000000dead"


class CountingStore:
    """Counts the round trips to the store behind it."""

    def __init__(self, world: MemoryWorld) -> None:
        self.inner = world.store
        self.calls: list[str] = []

    def read(self, partitions: list[PartitionRead], *, snapshot_id: str = "", pin: bool = False) -> ReadResult:
        self.calls.append("read")
        return self.inner.read(partitions, snapshot_id=snapshot_id, pin=pin)

    def commit(self, commit: Commit) -> int:
        self.calls.append("commit")
        return self.inner.commit(commit)

    def close_snapshot(self, snapshot_id: str) -> None:
        self.calls.append("close")
        self.inner.close_snapshot(snapshot_id)


class LossyStore(CountingStore):
    """Commits, and then says that nobody knows whether it did, once."""

    def commit(self, commit: Commit) -> int:
        sequence = super().commit(commit)
        if self.calls.count("commit") == 1:
            raise StorageUnavailable("the answer was lost")
        return sequence


def test_a_commit_whose_answer_was_lost_is_found_and_not_repeated(world: MemoryWorld) -> None:
    """The rerun finds the receipt: one record, one relation, and the first receipt."""
    source, target = world.create(), world.create()
    for command, kind in (
        (CreateRecord(record_input("lost")), keys.RECORD),
        (AssertRelation(relation_input(source, target)), keys.RELATION),
    ):
        before = len([key for key in world.rows() if key[:1] == kind])
        store = LossyStore(world)
        world.access = PartitionAccess(store, world.authority, world.slots)  # type: ignore[arg-type]
        receipt = world.execute(command, "k")
        assert store.calls.count("commit") == 1
        assert world.execute(command, "k") == receipt
        assert len([key for key in world.rows() if key[:1] == kind]) == before + 1


@pytest.fixture
def counting(world: MemoryWorld) -> CountingStore:
    store = CountingStore(world)
    world.access = PartitionAccess(store, world.authority, world.slots)  # type: ignore[arg-type]
    return store


def agent_of(world: MemoryWorld, agent_id: str = "a1") -> dict[str, object] | None:
    stored = world.partition_rows(IDENTITY_PARTITION).get(keys.agent_key("acme", agent_id))
    return None if stored is None else parse_canonical(stored)


def test_authentication_comes_before_capability_and_scope(world: MemoryWorld) -> None:
    """A wrong secret is 401 even where capability and scope are missing as well."""
    weak = world.issue(capabilities=("memory_checkpoint",), grants=())
    with pytest.raises(Unauthorized):
        world.execute(CreateRecord(record_input()), token=Token(weak.credential_id, "A" * 43))
    with pytest.raises(Forbidden):
        world.execute(CreateRecord(record_input()), token=weak)


def test_authorization_comes_before_any_state(world: MemoryWorld) -> None:
    """Without the scope, existing, absent and replayed commands are all 403."""
    record = world.create()
    world.execute(UpdateRecord(record.record_id, 1, record_input("two")), "k")
    outsider = world.issue(grants=(scope_of(agent_id="elsewhere"),))
    for command, key in (
        (UpdateRecord(record.record_id, 1, record_input("two")), "k"),
        (DeleteRecord(record.record_id, 2), None),
        (DeleteRecord(ABSENT, 1), None),
    ):
        with pytest.raises(Forbidden):
            world.execute(command, key, token=outsider)


def admit_elsewhere(world: MemoryWorld) -> None:
    """Take a slot in a thread that ends without giving it back."""
    holder = threading.Thread(target=world.slots.admit)
    holder.start()
    holder.join()


def test_admission_comes_after_authorization_and_before_state(world: MemoryWorld) -> None:
    """Without a free slot: 401 and 403 as ever, then 503, never 404; replays wait in the same line."""
    for _ in range(world.slots.slot_count):
        admit_elsewhere(world)
    command = ReviewRelation(ABSENT, 1, "ref", "approved")
    reader = world.issue(capabilities=("memory_read",))
    with pytest.raises(Forbidden):
        world.execute(command, token=reader, takes_slot=True)
    with pytest.raises(Unauthorized):
        world.execute(command, token=Token(reader.credential_id, "A" * 43), takes_slot=True)
    with pytest.raises(RetrievalBusy):
        world.execute(command, takes_slot=True)
    for _ in range(world.slots.slot_count):
        world.slots.give_back()
    with pytest.raises(RecordNotFound):
        world.execute(command, takes_slot=True)


def test_a_slot_is_free_again_after_each_call(world: MemoryWorld) -> None:
    """Success and refusal both give their slot back."""
    for _ in range(3 * world.slots.slot_count):
        with pytest.raises(RecordNotFound):
            world.execute(ReviewRelation(ABSENT, 1, "ref", "approved"), takes_slot=True)
    release_slot()


@pytest.mark.parametrize("missing", ["memory_read", "memory_write", "memory_review"])
def test_each_command_needs_its_own_capabilities(world: MemoryWorld, missing: str) -> None:
    """Capabilities are independent: exactly the documented ones are asked."""
    record, other = world.create(), world.create()
    relation_id = world.execute(AssertRelation(relation_input(record, other)))["relation_id"]
    held = tuple({"memory_read", "memory_write", "memory_review"} - {missing})
    token = world.issue(capabilities=held)
    needs = [
        (CreateRecord(record_input()), {"memory_write"}),
        (DeriveRecord(record_input(), derivation(record)), {"memory_read", "memory_write"}),
        (embedding(record), {"memory_write"}),
        (AssertRelation(relation_input(record, other)), {"memory_read", "memory_write"}),
        (ReviewRelation(relation_id, 1, "ref", "approved"), {"memory_read", "memory_review"}),
        (ReviewRecord(record.record_id, 1, "approved", "ref"), {"memory_review"}),
    ]
    for command, wanted in needs:
        if missing in wanted:
            with pytest.raises(Forbidden):
                world.execute(command, token=token)  # type: ignore[arg-type]
        else:
            world.execute(command, token=token)  # type: ignore[arg-type]


def test_replay_needs_present_authority(world: MemoryWorld) -> None:
    """The capability is asked on every retry."""
    command = CreateRecord(record_input())
    world.execute(command, "k")
    with pytest.raises(Forbidden):
        world.execute(command, "k", token=world.issue(capabilities=("memory_read",)))


def test_private_memory_belongs_to_its_subject(world: MemoryWorld) -> None:
    """Another subject with the same private grant finds nothing; another credential of the subject does."""
    private = scope_of(visibility="private")
    receipt = world.execute(CreateRecord(record_input()), scope=private)

    def read(token: Token) -> None:
        world.read(lambda partition: get_record(partition, receipt["record_id"]), scope=private, token=token)

    read(world.issue())
    with pytest.raises(RecordNotFound):
        read(world.issue(subject="other"))


def test_common_commands_are_one_read_and_one_commit(world: MemoryWorld, counting: CountingStore) -> None:
    """Once the credential was seen, each kind of command costs exactly two round trips."""
    record, other = world.create(), world.create()
    relation_id = world.execute(AssertRelation(relation_input(record, other)))["relation_id"]
    for command in (
        CreateRecord(record_input()),
        DeriveRecord(record_input(), derivation(record, other)),
        embedding(record),
        AssertRelation(relation_input(record, other)),
        ReviewRelation(relation_id, 1, "ref", "approved"),
        UpdateRecord(record.record_id, 1, record_input("two")),
        ReviewRecord(record.record_id, 2, "approved", "ref"),
        DeleteRecord(record.record_id, 3),
    ):
        counting.calls.clear()
        world.execute(command)
        assert counting.calls == ["read", "commit"]


def test_a_replay_and_a_read_are_one_read(world: MemoryWorld, counting: CountingStore) -> None:
    """Neither writes anything once the agent is known."""
    command = CreateRecord(record_input())
    record_id = world.execute(command, "k")["record_id"]
    counting.calls.clear()
    world.execute(command, "k")
    world.access.read(
        world.token,
        SCOPE,
        lambda partition: get_record(partition, record_id),
        capabilities=("memory_read",),
        partition_keys=[keys.record_key(record_id)],
    )
    assert counting.calls == ["read", "read"]


def test_the_first_command_registers_agent_and_workspace(world: MemoryWorld, counting: CountingStore) -> None:
    """Record, agent and workspace entries are one commit; the trigger names the command."""
    receipt = world.execute(CreateRecord(record_input()))
    workspace = workspace_for("acme", SCOPE, "svc")
    directory = world.partition_rows(IDENTITY_PARTITION)
    assert counting.calls.count("commit") == 1
    assert parse_canonical(directory[keys.company_workspace_key("acme", workspace.partition)]) == workspace.as_json()
    assert parse_canonical(world.rows()[keys.WORKSPACE]) == workspace.as_json()
    assert agent_of(world) == {
        "agent_id": "a1",
        "registered_at_millis": START_MS,
        "registered_by": receipt["author"],
        "first_scope": SCOPE.as_json(),
        "private_subject_id": None,
        "trigger": {
            "kind": "memory_command",
            "record_id": receipt["record_id"],
            "revision": 1,
            "action": "created",
        },
    }


def test_a_successful_read_registers_the_agent_and_a_refused_one_does_not(world: MemoryWorld) -> None:
    """Reads with empty results count; failures register nothing and make no workspace."""
    with pytest.raises(RecordNotFound):
        world.read(lambda partition: get_record(partition, ABSENT))
    assert agent_of(world) is None
    world.read(lambda partition: partition.record_state(ABSENT))
    registration = agent_of(world)
    assert registration is not None
    assert registration["trigger"] == {"kind": "successful_resource_request"}
    assert world.rows() == {}


def test_a_refused_command_registers_nothing(world: MemoryWorld) -> None:
    """A refused write leaves no trace anywhere."""
    before = world.partition_rows(IDENTITY_PARTITION)
    with pytest.raises(RecordNotFound):
        world.execute(DeleteRecord(ABSENT, 1))
    assert world.partition_rows(IDENTITY_PARTITION) == before


def test_registration_happens_once(world: MemoryWorld) -> None:
    """Later commands of the agent leave its entry as it is."""
    world.create()
    first = agent_of(world)
    world.clock.ms += 10
    world.create()
    assert agent_of(world) == first
