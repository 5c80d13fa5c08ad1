"""The identity service over real sockets: storage on LevelDB in one server, identity in another."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import pytest

from services.domain.errors import (
    Forbidden,
    InvalidRequest,
    RevisionConflict,
    Unauthorized,
    UnsupportedContractVersion,
)
from services.identity.bootstrap import bootstrap_tenant
from services.identity.servicer import IdentityServicer
from services.runtime.channel import open_channel
from services.runtime.server import Registry, RunningServer
from services.runtime.status import error_from_rpc
from services.storage.client import GrpcStore
from services.storage.directory import create_store, open_store
from services.storage.servicer import StorageServicer
from tests.harness.memory_world import ManualClock
from waggle.common.v1 import scope_pb2
from waggle.identity.v1 import credentials_pb2, identity_service_pb2_grpc
from waggle.identity.v1 import identity_service_pb2 as pb
from waggle.storage.v1 import storage_service_pb2_grpc

KEY = bytes(range(32))
SHARED = scope_pb2.Scope(project_id="p1", agent_id="a1", visibility=scope_pb2.VISIBILITY_SHARED)
READER = credentials_pb2.CredentialSpec(
    subject_id="svc", capabilities=[credentials_pb2.CAPABILITY_MEMORY_READ], grants=[SHARED]
)
ABSENT_ID = "7d1f7b2e-9c1a-4d55-8d0e-0f3f5a3c9b11"


@dataclass
class Suite:
    """Storage and identity, each behind its own socket; both can be started again."""

    directory: Path
    clock: ManualClock = field(default_factory=ManualClock)

    def start(self) -> None:
        """Open the store and serve it."""
        self.store = open_store(self.directory / "data", clock=self.clock)
        storage = Registry()
        storage.on_close(self.store.close)
        storage.add(storage_service_pb2_grpc.add_StorageServiceServicer_to_server, StorageServicer(self.store))
        self.storage = RunningServer(storage, f"unix:{self.directory}/s.sock")
        identity = Registry()
        client = GrpcStore(f"unix:{self.directory}/s.sock")
        identity.on_close(client.close)
        servicer = IdentityServicer(client, KEY, version="9.8.7")
        identity.add(identity_service_pb2_grpc.add_IdentityServiceServicer_to_server, servicer)
        self.identity = RunningServer(identity, f"unix:{self.directory}/i.sock")
        self.channel = open_channel(f"unix:{self.directory}/i.sock")
        self.stub = identity_service_pb2_grpc.IdentityServiceStub(self.channel)

    def stop(self) -> None:
        """End both processes' servers and let the store go."""
        self.channel.close()
        self.identity.drain(0)
        self.storage.drain(0)

    def call(self, method: str, secret: str | None, **members: Any) -> Any:
        """Call a method with a key; raises the typed error of a refusal."""
        request = getattr(pb, f"{method}Request")(**members)
        metadata = () if secret is None else (("authorization", f"Bearer {secret}"),)
        return self.send(method, request, metadata)

    def send(self, method: str, request: Any, metadata: Any) -> Any:
        """Call a method with any metadata; raises the typed error of a refusal."""
        try:
            return getattr(self.stub, method)(request, metadata=metadata, timeout=10)
        except grpc.RpcError as error:
            raise error_from_rpc(error) from error

    def bootstrap(self, tenant_id: str) -> str:
        """The key of a new company's first administrator."""
        secret: str = bootstrap_tenant(self.store, KEY, tenant_id=tenant_id, subject_id="root")["secret"]
        return secret

    def issue(self, secret: str, spec: credentials_pb2.CredentialSpec = READER) -> Any:
        """Issue a credential."""
        return self.call("IssueCredential", secret, contract_version=1, spec=spec)


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Suite]:
    directory = tmp_path_factory.mktemp("identity")
    create_store(directory / "data")
    running = Suite(directory)
    running.start()
    yield running
    running.stop()


@pytest.fixture
def admin(suite: Suite, request: pytest.FixtureRequest) -> str:
    """The administrator of a company of the test's own."""
    return suite.bootstrap(request.node.name)


def test_health_needs_no_credential(suite: Suite) -> None:
    """Status and version as documented."""
    expected = pb.GetHealthResponse(contract_version=1, status=pb.HEALTH_STATUS_HEALTHY, version="9.8.7")
    assert suite.call("GetHealth", None) == expected


def test_identity_tells_the_caller_who_it_is(suite: Suite, admin: str) -> None:
    """Any active key may ask, whatever it may do."""
    issued = suite.issue(admin)
    assert suite.call("GetIdentity", issued.secret).credential == issued.credential
    assert suite.call("GetIdentity", admin).credential.spec.subject_id == "root"


def test_every_method_needs_exactly_one_valid_key(suite: Suite, admin: str) -> None:
    """None, two, a foreign scheme and an unknown key are unauthorized, before anything else but the shape."""
    requests = {
        "GetIdentity": pb.GetIdentityRequest(),
        "IssueCredential": pb.IssueCredentialRequest(contract_version=1, spec=READER),
        "ListCredentials": pb.ListCredentialsRequest(contract_version=1),
        "GetCredential": pb.GetCredentialRequest(credential_id=ABSENT_ID),
        "RotateCredential": pb.RotateCredentialRequest(
            credential_id=ABSENT_ID, contract_version=1, expected_revision=1
        ),
        "RevokeCredential": pb.RevokeCredentialRequest(
            credential_id=ABSENT_ID, contract_version=1, expected_revision=1
        ),
        "ReplaceScopeAuthority": pb.ReplaceScopeAuthorityRequest(
            credential_id=ABSENT_ID,
            contract_version=1,
            expected_revision=1,
            authority=credentials_pb2.ScopeAuthority(),
        ),
    }
    entry = ("authorization", f"Bearer {admin}")
    unknown = ("authorization", f"Bearer qdb1_{'0' * 32}_{'A' * 43}")
    for method, request in requests.items():
        for metadata in ((), (entry, entry), (("authorization", f"Basic {admin}"),), (unknown,)):
            with pytest.raises(Unauthorized):
                suite.send(method, request, metadata)


def test_a_credential_lives_through_its_documented_life(suite: Suite, admin: str) -> None:
    """Issue, replace scope authority, rotate, revoke: each revision, action and secret as documented."""
    issued = suite.issue(admin)
    credential_id = issued.credential.id
    policy = credentials_pb2.CompanyScopePolicy(
        version=credentials_pb2.SCOPE_POLICY_VERSION_COMPANY_SCOPES_V1,
        projects=credentials_pb2.ScopeSelector(only=credentials_pb2.SelectOnly(ids=["p1", "p2"])),
        agents=credentials_pb2.ScopeSelector(all=credentials_pb2.SelectAll()),
        missions=credentials_pb2.ScopeSelector(only=credentials_pb2.SelectOnly()),
        allow_unassigned_mission=True,
        visibilities=[scope_pb2.VISIBILITY_PRIVATE],
    )
    wanted = credentials_pb2.ScopeAuthority(scope_policy=policy)
    target = {"credential_id": credential_id, "contract_version": 1}
    replaced = suite.call("ReplaceScopeAuthority", admin, **target, expected_revision=1, authority=wanted).credential
    assert replaced.spec.scope_policy == policy
    assert replaced.history[1].scope_authority_change == credentials_pb2.ScopeAuthorityChange(
        previous=credentials_pb2.ScopeAuthority(grants=[SHARED]), current=wanted
    )
    assert suite.call("GetIdentity", issued.secret).credential == replaced
    rotated = suite.call("RotateCredential", admin, **target, expected_revision=2)
    assert rotated.secret != issued.secret
    with pytest.raises(Unauthorized):
        suite.call("GetIdentity", issued.secret)
    assert suite.call("GetIdentity", rotated.secret).credential == rotated.credential
    revoked = suite.call("RevokeCredential", admin, **target, expected_revision=3).credential
    assert (revoked.revision, revoked.revoked_at_millis) == (4, suite.clock.ms)
    with pytest.raises(Unauthorized):
        suite.call("GetIdentity", rotated.secret)
    assert suite.call("GetCredential", admin, credential_id=credential_id).credential == revoked
    actions = [credentials_pb2.CredentialAction.Name(event.action) for event in revoked.history]
    assert actions == [
        f"CREDENTIAL_ACTION_{word}" for word in ("ISSUED", "SCOPE_AUTHORITY_CHANGED", "ROTATED", "REVOKED")
    ]


def test_uuids_are_accepted_in_any_case(suite: Suite, admin: str) -> None:
    """Two spellings of an id are the same id."""
    issued = suite.issue(admin)
    found = suite.call("GetCredential", admin, credential_id=issued.credential.id.upper())
    assert found.credential == issued.credential


@pytest.mark.parametrize(
    ("changes", "member"),
    [
        ({"subject_id": " "}, "spec.subject_id"),
        ({"subject_id": "é" * 129}, "spec.subject_id"),
        ({"capabilities": []}, "spec.capabilities"),
        ({"capabilities": [99]}, "spec.capabilities[0]"),
        ({"grants": [scope_pb2.Scope(project_id="p", agent_id="a")]}, "spec.grants[0].visibility"),
        ({"expires_at_millis": 1}, "spec.expires_at_millis"),
        ({"scope_policy": credentials_pb2.CompanyScopePolicy()}, "spec.scope_policy.version"),
    ],
)
def test_a_bad_spec_names_the_member_at_fault(
    suite: Suite, changes: dict[str, Any], member: str, request: pytest.FixtureRequest
) -> None:
    """And issues nothing."""
    secret = suite.bootstrap(request.node.name)
    members = {"subject_id": "svc", "capabilities": [1], "grants": [SHARED]} | changes
    with pytest.raises(InvalidRequest) as caught:
        suite.issue(secret, credentials_pb2.CredentialSpec(**members))
    assert caught.value.member == member
    assert len(suite.call("ListCredentials", secret, contract_version=1).page.items) == 1


def test_another_contract_version_is_unsupported(suite: Suite, admin: str) -> None:
    """Each request that has one says so by its own code."""
    with pytest.raises(UnsupportedContractVersion):
        suite.call("ListCredentials", admin, contract_version=2)
    with pytest.raises(UnsupportedContractVersion):
        suite.call("RevokeCredential", admin, credential_id=ABSENT_ID, contract_version=2, expected_revision=1)


def test_an_expired_credential_is_unauthorized_and_keeps_its_authority(suite: Suite, admin: str) -> None:
    """From the very millisecond of its expiry, although identity has seen it before."""
    spec = credentials_pb2.CredentialSpec()
    spec.CopyFrom(READER)
    spec.expires_at_millis = suite.clock.ms + 1000
    issued = suite.issue(admin, spec)
    suite.clock.ms += 999
    assert suite.call("GetIdentity", issued.secret).credential == issued.credential
    suite.clock.ms += 1
    with pytest.raises(Unauthorized):
        suite.call("GetIdentity", issued.secret)
    with pytest.raises(InvalidRequest):
        suite.call(
            "ReplaceScopeAuthority",
            admin,
            credential_id=issued.credential.id,
            contract_version=1,
            expected_revision=1,
            authority=credentials_pb2.ScopeAuthority(),
        )


def test_companies_are_invisible_to_each_other(suite: Suite, admin: str) -> None:
    """A foreign credential is refused as one that never existed; a foreign cursor is no cursor."""
    stranger = suite.bootstrap("a stranger")
    foreign = suite.issue(stranger).credential.id
    refusals = set()
    for credential_id in (foreign, ABSENT_ID):
        with pytest.raises(Forbidden) as caught:
            suite.call("GetCredential", admin, credential_id=credential_id)
        refusals.add((caught.value.message, caught.value.member))
    assert len(refusals) == 1
    cursor = suite.call("ListCredentials", stranger, contract_version=1, limit=1).page.next_cursor
    assert cursor
    with pytest.raises(InvalidRequest) as refused:
        suite.call("ListCredentials", admin, contract_version=1, cursor=cursor)
    assert refused.value.member == "cursor"


def test_a_stale_revision_conflicts_and_changes_nothing(suite: Suite, admin: str) -> None:
    """Whatever the number."""
    issued = suite.issue(admin)
    for expected_revision in (2, 2**63 + 1, 2**64 - 1):
        with pytest.raises(RevisionConflict):
            suite.call(
                "RotateCredential",
                admin,
                credential_id=issued.credential.id,
                contract_version=1,
                expected_revision=expected_revision,
            )
    assert suite.call("GetIdentity", issued.secret).credential == issued.credential


def test_only_credential_admin_administers(suite: Suite, admin: str) -> None:
    """memory_read is no authority over credentials, one's own included."""
    issued = suite.issue(admin)
    calls: list[tuple[str, dict[str, Any]]] = [
        ("IssueCredential", {"contract_version": 1, "spec": READER}),
        ("ListCredentials", {"contract_version": 1}),
        ("GetCredential", {"credential_id": issued.credential.id}),
        (
            "RevokeCredential",
            {"credential_id": issued.credential.id, "contract_version": 1, "expected_revision": 1},
        ),
    ]
    for method, members in calls:
        with pytest.raises(Forbidden):
            suite.call(method, issued.secret, **members)
    assert suite.call("GetIdentity", issued.secret).credential.revision == 1


def test_cursors_and_credentials_outlive_a_restart(suite: Suite, admin: str) -> None:
    """Every page before and after shows each credential once, and keys still work."""
    expected = {suite.issue(admin).credential.id for _ in range(5)}
    secret = suite.issue(admin).secret
    first = suite.call("ListCredentials", admin, contract_version=1, limit=3).page
    suite.stop()
    suite.start()
    rest = suite.call("ListCredentials", admin, contract_version=1, limit=100, cursor=first.next_cursor).page
    ids = [item.id for item in (*first.items, *rest.items)]
    assert ids == sorted(set(ids))
    assert not rest.HasField("next_cursor")
    assert (len(ids), expected <= set(ids)) == (7, True)
    assert suite.call("GetIdentity", secret).credential.tenant_id == "test_cursors_and_credentials_outlive_a_restart"


@pytest.mark.parametrize("limit", [0, 101])
def test_limits_out_of_bounds_are_invalid(suite: Suite, limit: int, request: pytest.FixtureRequest) -> None:
    """1 to 100."""
    with pytest.raises(InvalidRequest) as caught:
        suite.call("ListCredentials", suite.bootstrap(request.node.name), contract_version=1, limit=limit)
    assert caught.value.member == "limit"


def test_no_answer_holds_a_secret_but_the_one_that_made_it(suite: Suite, admin: str) -> None:
    """Neither secret nor verifier shows in any later view."""
    issued = suite.issue(admin)
    tail = issued.secret.split("_", 2)[2]
    views = [
        suite.call("GetIdentity", issued.secret),
        suite.call("GetCredential", admin, credential_id=issued.credential.id),
        suite.call("ListCredentials", admin, contract_version=1),
    ]
    assert [tail.encode() in view.SerializeToString() for view in views] == [False] * 3


def test_concurrent_issues_of_one_company_all_finish(suite: Suite, admin: str) -> None:
    """Issuing reads nothing that another issue writes."""
    futures = [
        suite.stub.IssueCredential.future(
            pb.IssueCredentialRequest(contract_version=1, spec=READER),
            metadata=(("authorization", f"Bearer {admin}"),),
            timeout=10,
        )
        for _ in range(16)
    ]
    issued = {future.result().credential.id for future in futures}
    listed = {item.id for item in suite.call("ListCredentials", admin, contract_version=1, limit=100).page.items}
    assert issued < listed
