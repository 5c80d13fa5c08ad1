"""A small store with every kind of object in every state, as the services' own operations leave them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from services.consolidation.access import JobAccess
from services.consolidation.commands import CancelJob, ReconcileUsage, RecoverExpired
from services.consolidation.execute_command import execute_command as execute_job_command
from services.consolidation.execute_command import keyed_command as keyed_job_command
from services.consolidation.job_partition import JobPartition
from services.domain import keys
from services.domain.embeddings import Space
from services.domain.records import SourceRef
from services.domain.scope import IDENTITY_PARTITION, workspace_for
from services.identity import login_accounts, sessions
from services.identity.authority import Authority
from services.identity.bootstrap import bootstrap_master, bootstrap_tenant
from services.identity.credential_commands import (
    IssueCredential,
    ReplaceScopeAuthority,
    RevokeCredential,
    RotateCredential,
    apply_command,
    make_key,
)
from services.identity.credentials import CredentialSpec, ScopeAuthority
from services.identity.global_commands import IssueGlobal, apply_global_command, make_global_key
from services.identity.global_credentials import GlobalSpec
from services.identity.history import Change
from services.identity.scope_policy import ScopePolicy, Selector
from services.identity.tokens import Token, parse_authorization, token_from_random, verifier_of
from services.identity.verifier_key import encode_verifier_key
from services.memory.access import PartitionAccess
from services.memory.commands import (
    AssertRelation,
    CreateRecord,
    DeleteRecord,
    DeriveRecord,
    RestoreRelation,
    RetireRelation,
    ReviewRecord,
    ReviewRelation,
    UpdateRecord,
    attach_embedding_command,
)
from services.runtime.admission import AdmissionPool, release_slot
from services.runtime.identifiers import new_uuid
from services.storage.contract import Store
from services.storage.directory import create_store, open_store
from services.storage.exporting import LocalExporter
from services.storage.layout import DATA_OFFSET, data_key, unpack_value
from services.storage.store_rows import partition_of
from services.storage.transaction import Transaction, run_transaction
from services.workspace.company_access import CompanyAccess
from tests.harness.job_world import USAGE, JobWorld, assertion
from tests.harness.memory_world import (
    ALL_MEMORY,
    SCOPE,
    VERIFIER_KEY,
    derivation,
    embedding,
    record_input,
    relation_input,
    scope_of,
)

MISSION = scope_of(mission_id="m1")
PRIVATE = scope_of(visibility="private")
OTHER_SPACE = Space("local", "other", "2", 3)
EVERYTHING = ScopePolicy(Selector(None), Selector(None), Selector(None), True, ("private", "shared"))


class FullWorld(JobWorld):
    """A `JobWorld` on a directory, with companies and credentials as their own operations make them.

    Args:
        directory: Where the store is laid.

    Attributes:
        directory: The data directory.
        admin: Administrator of the company "acme".
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        create_store(directory)
        super().__init__()

    def open_store(self) -> Store:
        """The store on the directory, with two companies."""
        self.local = open_store(self.directory, clock=self.clock)
        answers = [
            bootstrap_tenant(self.local, VERIFIER_KEY, tenant_id=company, subject_id="administrator")
            for company in ("acme", "globex")
        ]
        self.admins = {answer["credential"]["tenant_id"]: _token(answer["secret"]) for answer in answers}
        return self.local

    def issue(
        self,
        *,
        company: str = "acme",
        subject: str = "svc",
        capabilities: tuple[str, ...] = ALL_MEMORY,
        grants: tuple[object, ...] | None = None,
    ) -> Token:
        """Let the company's administrator issue a credential that reaches every scope."""
        key = make_key(VERIFIER_KEY, new_uuid())
        authority = ScopeAuthority((), EVERYTHING)
        spec = CredentialSpec(subject, capabilities, authority, None)
        self.administer(company, IssueCredential(key=key, spec=spec))
        return key.token

    def administer(self, company: str, command: Any) -> None:
        """Carry out a command on credentials as the company's administrator."""
        authority, admin = Authority(VERIFIER_KEY), self.admins[company]

        def run(transaction: Transaction) -> None:
            principal = authority.authorize(transaction, admin, capabilities=("credential_admin",))
            apply_command(transaction, principal, command)

        run_transaction(self.local, run, pin=True)

    def reopen(self) -> None:
        """Close the store and open it again: a new incarnation, and other files."""
        self.local.close()
        self.local = self.store = open_store(self.directory, clock=self.clock)
        self.access = PartitionAccess(self.store, self.authority, self.slots)
        self.jobs = JobAccess(self.store, self.authority, self.slots)


def build_full_store(directory: Path) -> None:
    """Lay a store with every kind of object in every state into a directory, its verifier key beside it, and close it.

    The key of the verifiers is `memory_world.VERIFIER_KEY`.
    """
    world = FullWorld(directory)
    _fill_memory(world)
    _fill_jobs(world)
    world.reopen()
    _fill_recovered(world)
    _fill_identity(world)
    _fill_elsewhere(world)
    world.reopen()
    # What the last opening writes lies in the write-ahead log, everything else in tables.
    world.create("the newest")
    world.close()
    (directory / "verifier.key").write_bytes(encode_verifier_key(VERIFIER_KEY))


def _fill_memory(world: FullWorld) -> None:
    """Records, embeddings, decisions and relations in every state."""
    plain, changed, approved, rejected, gone = (
        world.create(f"record {name}", tags=("red",)) for name in ("plain", "changed", "approved", "rejected", "gone")
    )
    world.execute(embedding(changed))
    changed = _stepped(world, UpdateRecord(changed.record_id, 1, record_input("changed content", secondary="more")))
    world.execute(ReviewRecord(approved.record_id, 1, "unreviewed", "ref:first"))
    world.execute(ReviewRecord(approved.record_id, 2, "approved", "ref:second"))
    approved = SourceRef(approved.record_id, 3)
    world.execute(ReviewRecord(rejected.record_id, 1, "rejected", "ref:no"))
    world.execute(DeleteRecord(gone.record_id, 1))
    world.create("expired", valid_until_millis=world.clock.ms - 1)
    derived = _stepped(world, DeriveRecord(record_input("derived"), derivation(plain, approved)))
    twice = _stepped(world, DeriveRecord(record_input("derived twice"), derivation(derived)))
    stale = _stepped(world, DeriveRecord(record_input("derived from what moves on"), derivation(changed)))
    world.execute(embedding(stale))
    world.execute(UpdateRecord(changed.record_id, changed.revision, record_input("changed again")))
    # One binding at the record's revision, one that was left behind, one in another space, one vector twice.
    world.execute(embedding(plain))
    world.execute(embedding(plain))
    world.execute(embedding(approved, (0.0, 3e38, -1e-30, 1.0)))
    vector = np.asarray((0.5, 0.25, -1.0), dtype=np.float32)
    world.execute(
        attach_embedding_command(record_id=plain.record_id, record_revision=1, space=OTHER_SPACE, vector=vector)
    )
    world.execute(AssertRelation(relation_input(plain, approved)))
    bounds = {"valid_from_millis": world.clock.ms - 5, "valid_until_millis": world.clock.ms + 5}
    world.execute(AssertRelation(relation_input(approved, derived, "contradicts", evidence_sources=(plain,), **bounds)))
    for number, steps in enumerate(RELATION_STEPS):
        made = world.execute(AssertRelation(relation_input(plain, (approved, derived, twice)[number % 3])))
        for revision, step in enumerate(steps, start=1):
            world.execute(step(made["relation_id"], revision, f"ref:{revision}"))


RELATION_STEPS: tuple[tuple[Callable[[str, int, str], Any], ...], ...] = (
    (RetireRelation,),
    (RetireRelation, RestoreRelation),
    (lambda *members: ReviewRelation(*members, "rejected"),),
    (lambda *members: ReviewRelation(*members, "rejected"), lambda *members: ReviewRelation(*members, "approved")),
    (lambda *members: ReviewRelation(*members, "rejected"), RetireRelation, RestoreRelation),
)


def _fill_jobs(world: FullWorld) -> None:
    """Jobs in every status, by every action."""
    first, second = world.sources
    world.new_job()
    world.running_job()
    job_id, fence = world.running_job()
    world.clock.ms += 1_000
    world.renew(job_id, fence)
    job_id, fence = world.running_job()
    world.publish(job_id, fence, assertion(first, second), assertion(first, second, "temporal_before"))
    world.run(ReconcileUsage(job_id, 3, 1, USAGE, "ref:later"))
    job_id, fence = world.running_job()
    world.publish(job_id, fence, assertion(first, second), key="k" * 256)
    job_id, fence = world.running_job()
    world.publish(job_id, fence)
    job_id, fence = world.running_job()
    world.fail(job_id, fence)
    job_id, fence = world.running_job(max_attempts=1)
    world.fail(job_id, fence)
    world.run(CancelJob(world.new_job(), 1, "ref:off"))
    job_id, _ = world.running_job()
    world.run(CancelJob(job_id, 2, "ref:off"))
    _cancel_as_administrator(world, world.new_job())
    world.running_job(objective="to be recovered", max_attempts=3)


def _fill_recovered(world: FullWorld) -> None:
    """Recover one of the jobs that an opening left running."""
    found = [item.job_id for item in world.query().jobs if item.status == "running"]
    job_id = next(job_id for job_id in found if world.job(job_id).spec.max_attempts == 3)
    world.run(RecoverExpired(job_id, world.job(job_id).revision, "ref:restart"))
    world.claim(job_id)


def _cancel_as_administrator(world: FullWorld, job_id: str) -> None:
    keyed = keyed_job_command("admin-cancel", CancelJob(job_id, 1, "ref:admin"), new_ids=(), member="")
    partition = workspace_for("acme", SCOPE, "svc").partition
    CompanyAccess(world.store, world.authority, AdmissionPool(2)).visit(
        world.admins["acme"],
        partition.hex(),
        lambda visit: execute_job_command(JobPartition(visit.partition, "svc"), visit.principal.author, keyed),
    )
    release_slot()


def _fill_identity(world: FullWorld) -> None:
    """Credentials in every state, the master and a global credential, login accounts and sessions."""
    tokens = [world.issue(subject=f"subject {number}") for number in range(3)]
    rotated = make_key(VERIFIER_KEY, tokens[0].credential_id)
    world.administer("acme", RotateCredential(credential_id=tokens[0].credential_id, expected_revision=1, key=rotated))
    world.administer("acme", RevokeCredential(credential_id=tokens[1].credential_id, expected_revision=1))
    narrowed = ScopeAuthority((SCOPE, MISSION), None)
    world.administer(
        "acme",
        ReplaceScopeAuthority(credential_id=tokens[2].credential_id, expected_revision=1, authority=narrowed),
    )
    answer = bootstrap_master(world.local, VERIFIER_KEY, subject_id="operator")
    master = _token(answer["secret"])
    key = make_global_key(VERIFIER_KEY, new_uuid())
    spec = GlobalSpec("inspector", ("tenant_inspect",), None)

    def issue(transaction: Transaction) -> None:
        principal = Authority(VERIFIER_KEY).authorize_global(transaction, master)
        apply_global_command(transaction, principal, IssueGlobal(spec=spec, key=key))

    run_transaction(world.local, issue, pin=True)
    _put_account(world, "acme", "alice", tokens[2].credential_id)
    _put_account(world, None, "root", master.credential_id)


def _put_account(world: FullWorld, company: str | None, username: str, credential_id: str) -> None:
    change = Change(change_id=new_uuid(), actor_id=credential_id, at_millis=world.clock.ms)
    account = login_accounts.create_account(
        new_uuid(), username, company_id=company, credential_id=credential_id, password_hash="$hash", change=change
    )
    account = login_accounts.change_password(account, 1, "$other", change)
    key = keys.login_account_key(company, username)
    world.put(IDENTITY_PARTITION, key, login_accounts.encode_account(account))
    place = keys.login_account_id_key(account.account_id)
    world.put(IDENTITY_PARTITION, place, key.removeprefix(keys.LOGIN_ACCOUNT))
    session_id = new_uuid()
    token = token_from_random(credential_id, b"s" * 32, is_global=company is None, session_id=session_id)
    session = sessions.Session(
        session_id, account.account_id, credential_id, 1, world.clock.ms + 1_000, verifier_of(VERIFIER_KEY, token)
    )
    world.put(IDENTITY_PARTITION, keys.session_key(credential_id, session_id), sessions.encode_session(session))


def _fill_elsewhere(world: FullWorld) -> None:
    """Other workspaces: with a mission, private, of another company, and an agent that has only asked."""
    for scope in (MISSION, PRIVATE):
        made = world.execute(CreateRecord(record_input("elsewhere")), scope=scope)
        world.execute(embedding(SourceRef(made["record_id"], 1)), scope=scope)
    token = world.issue(company="globex", subject="other")
    world.execute(CreateRecord(record_input("of another company")), token=token)
    world.read(lambda _partition: None, scope=scope_of(agent_id="a2"))


def _stepped(world: FullWorld, command: Any) -> SourceRef:
    receipt = world.execute(command)
    return SourceRef(receipt["record_id"], receipt["revision"])


def _token(secret: str) -> Token:
    return parse_authorization(f"Bearer {secret}")


def read_living(directory: Path) -> dict[bytes, dict[bytes, bytes]]:
    """Every living key with its value, by partition, of a store that nobody has open."""
    living: dict[bytes, dict[bytes, bytes]] = {}
    with open_store(directory) as store:
        for page in LocalExporter(store).export().pages:
            for physical_key, stored in page.rows:
                partition = partition_of(physical_key)
                if partition is not None and physical_key[:1] == data_key(b"", b""):
                    key = physical_key[DATA_OFFSET:]
                    living.setdefault(partition, {})[key] = unpack_value(physical_key, stored)[1]
    return living
