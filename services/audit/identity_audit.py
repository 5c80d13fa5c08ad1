"""The identity partition: credentials, companies, accounts, sessions, and the directories that lead to them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from services.audit.findings import Finding, Findings, words_of_key
from services.audit.histories import VERIFIER_BYTES, check_authority, check_authority_changes, check_history
from services.audit.stored_values import Unsound, read_json, read_value, require
from services.domain import keys
from services.domain.records import Author, author_from_json
from services.domain.scope import IDENTITY_PARTITION, Scope, Workspace, scope_from_json, workspace_from_json
from services.identity.credentials import (
    decode_credential,
    encode_credential,
)
from services.identity.global_credentials import (
    GlobalCredential,
    decode_global_credential,
    encode_global_credential,
)
from services.identity.history import Event
from services.identity.login_accounts import LoginAccount, decode_account, encode_account
from services.identity.sessions import Session, decode_session, encode_session

_COMPANY_MEMBERS = {"company_id", "created_at_millis", "initial_admin_id", "registration"}
_AGENT_MEMBERS = {
    "agent_id", "registered_at_millis", "registered_by", "first_scope", "private_subject_id", "trigger"
}  # fmt: skip


_COMMAND_TRIGGER: Final[dict[str, tuple[str, ...]]] = {
    "kind": ("memory_command",),
    "record_id": (),
    "revision": (),
    "action": ("created", "updated", "deleted", "derived"),
}


class CredentialFact(NamedTuple):
    """What of a credential is compared with other values."""

    company_id: str
    subject_id: str
    created_at_millis: int


class AgentFact(NamedTuple):
    """Which memory command, if one, has registered an agent."""

    company_id: str
    agent_id: str
    registered_by: Author
    workspace: Workspace
    record_id: str | None


class IdentityFacts(NamedTuple):
    """What the rest of a store is compared with.

    Attributes:
        credentials: Company credentials by id.
        agents: Every registration.
        workspaces: Entries of the directories, by partition.
    """

    credentials: dict[str, CredentialFact]
    agents: dict[tuple[str, str], AgentFact]
    workspaces: dict[bytes, Workspace]


class IdentityAudit:
    """Takes all living keys of the identity partition and judges them together."""

    def __init__(self) -> None:
        self._findings = Findings(IDENTITY_PARTITION)
        self._credentials: dict[str, CredentialFact] = {}
        self._globals: dict[str, GlobalCredential] = {}
        self._directory: set[bytes] = set()
        self._companies: dict[str, tuple[str, int]] = {}
        self._agents: dict[bytes, dict[str, Any]] = {}
        self._workspaces: dict[bytes, Workspace] = {}
        self._master: str | None = None
        self._sessions: list[Session] = []
        self._actors: list[tuple[str, str, str]] = []
        self._accounts: dict[bytes, LoginAccount] = {}
        self._account_places: dict[bytes, bytes] = {}
        self._takers: dict[bytes, Callable[[bytes, bytes], None]] = {
            keys.CREDENTIAL: self._take_credential,
            keys.COMPANY_CREDENTIAL: self._take_directory_entry,
            keys.COMPANY: self._take_company,
            keys.AGENT: self._take_agent,
            keys.COMPANY_WORKSPACE: self._take_workspace,
            keys.GLOBAL_CREDENTIAL: self._take_global,
            keys.MASTER: self._take_master,
            keys.SESSION: self._take_session,
            keys.LOGIN_ACCOUNT: self._take_account,
            keys.LOGIN_ACCOUNT_ID: self._take_account_place,
        }

    def take(self, key: bytes, value: bytes) -> None:
        """Take one living key."""
        taker = self._takers.get(key[:1])
        try:
            if taker is None:
                raise Unsound("is of a kind that this version does not write")
            taker(key, value)
        except Unsound as error:
            self._findings.add(*words_of_key(IDENTITY_PARTITION, key), str(error))

    def finish(self) -> tuple[list[Finding], IdentityFacts]:
        """Judge what was taken."""
        self._judge_actors()
        self._judge_directory()
        self._judge_companies()
        self._judge_master()
        self._judge_accounts()
        agents = self._judge_agents()
        facts = IdentityFacts(self._credentials, agents, self._workspaces)
        return self._findings.items, facts

    def _take_credential(self, key: bytes, value: bytes) -> None:
        credential = read_value(lambda: decode_credential(value))
        fact = CredentialFact(
            credential.tenant_id,
            credential.spec.subject_id,
            credential.history[0].at_millis if credential.history else 0,
        )
        self._credentials[credential.credential_id] = fact
        require(read_value(lambda: encode_credential(credential)) == value, "is not in its canonical form")
        require(key == keys.credential_key(credential.credential_id), "lies under the key of another")
        self._note_actors("credential", credential.credential_id, credential.history)
        check_authority(credential)
        check_authority_changes(credential)

    def _take_global(self, key: bytes, value: bytes) -> None:
        credential = read_value(lambda: decode_global_credential(value))
        self._globals[credential.credential_id] = credential
        require(read_value(lambda: encode_global_credential(credential)) == value, "is not in its canonical form")
        require(key == keys.global_credential_key(credential.credential_id), "lies under the key of another")
        self._note_actors("global credential", credential.credential_id, credential.history)
        check_authority(credential)

    def _take_directory_entry(self, key: bytes, value: bytes) -> None:
        self._directory.add(key)
        require(not value, "holds something")

    def _take_company(self, key: bytes, value: bytes) -> None:
        marker = read_json(value)
        require(isinstance(marker, dict) and marker.keys() == _COMPANY_MEMBERS, "is not the documented object")
        company_id = read_value(lambda: str(marker["company_id"]))
        self._companies[company_id] = (marker["initial_admin_id"], marker["created_at_millis"])
        require(key == keys.company_key(company_id), "lies under the key of another")

    def _take_agent(self, key: bytes, value: bytes) -> None:
        registration = read_json(value)
        require(
            isinstance(registration, dict) and registration.keys() == _AGENT_MEMBERS, "is not the documented object"
        )
        self._agents[key] = registration

    def _take_workspace(self, key: bytes, value: bytes) -> None:
        stored = read_json(value)
        workspace = read_value(lambda: workspace_from_json(stored))
        self._workspaces[read_value(lambda: workspace.partition)] = workspace
        require(workspace.as_json() == stored, "is not the documented object")
        own = keys.company_workspace_key(workspace.company_id, workspace.partition)
        require(key == own, "lies under the key of another")

    def _take_master(self, key: bytes, value: bytes) -> None:
        entry = read_json(value)
        require(key == keys.MASTER and isinstance(entry, dict) and list(entry) == ["credential_id"], "cannot be read")
        self._master = entry["credential_id"]

    def _take_session(self, key: bytes, value: bytes) -> None:
        session = read_value(lambda: decode_session(value))
        self._sessions.append(session)
        require(read_value(lambda: encode_session(session)) == value, "is not in its canonical form")
        own = read_value(lambda: keys.session_key(session.credential_id, session.session_id))
        require(key == own, "lies under the key of another")
        require(len(session.verifier) == VERIFIER_BYTES, "has no usable verifier")

    def _take_account(self, key: bytes, value: bytes) -> None:
        account = read_value(lambda: decode_account(value))
        self._accounts[key] = account
        require(read_value(lambda: encode_account(account)) == value, "is not in its canonical form")
        require(key == keys.login_account_key(account.company_id, account.username), "lies under the key of another")
        self._note_actors("login account", account.account_id, account.history)
        check_history(account.revision, account.history, account.disabled_at_millis)

    def _take_account_place(self, key: bytes, value: bytes) -> None:
        self._account_places[key] = value

    def _note_actors(self, kind: str, name: str, history: Sequence[Event]) -> None:
        self._actors += [(kind, name, event.actor_id) for event in history]

    def _judge_actors(self) -> None:
        for kind, name, actor_id in self._actors:
            if actor_id not in self._credentials and actor_id not in self._globals:
                self._findings.add(kind, name, f"was changed by credential {actor_id}, which is not there")

    def _judge_directory(self) -> None:
        wanted = {
            keys.company_credential_key(fact.company_id, credential_id): credential_id
            for credential_id, fact in self._credentials.items()
        }
        for key in sorted(wanted.keys() ^ self._directory):
            problem = "is not in its company's directory" if key in wanted else "is in a directory, but not there"
            self._findings.add("credential", keys.id_text(key[-16:]), problem)
        for credential_id, fact in sorted(self._credentials.items()):
            if fact.company_id not in self._companies:
                self._findings.add("credential", credential_id, "is of a company that is not there")

    def _judge_companies(self) -> None:
        for company_id, (admin_id, created_at_millis) in sorted(self._companies.items()):
            admin = self._credentials.get(admin_id)
            if admin is None or (admin.company_id, admin.created_at_millis) != (company_id, created_at_millis):
                self._findings.add("company", company_id, "does not fit the credential of its first administrator")
        for partition, workspace in sorted(self._workspaces.items()):
            if workspace.company_id not in self._companies:
                self._findings.add("workspace directory", partition.hex(), "is of a company that is not there")

    def _judge_master(self) -> None:
        masters = sorted(credential_id for credential_id, item in self._globals.items() if item.is_master)
        if masters != ([] if self._master is None else [self._master]):
            self._findings.add("master", "", "does not name the one global credential that is the master")

    def _judge_accounts(self) -> None:
        wanted = {
            keys.login_account_id_key(account.account_id): key.removeprefix(keys.LOGIN_ACCOUNT)
            for key, account in self._accounts.items()
        }
        for key in sorted(wanted.keys() | self._account_places.keys()):
            if wanted.get(key) != self._account_places.get(key):
                self._findings.add("login account", keys.id_text(key[-16:]), "is not where its directory says")
        for account in self._accounts.values():
            if not self._is_bound(account.company_id, account.credential_id):
                self._findings.add("login account", account.account_id, "acts with a credential that is not there")
        account_ids = {account.account_id for account in self._accounts.values()}
        for session in self._sessions:
            has_credential = session.credential_id in self._credentials or session.credential_id in self._globals
            if session.account_id not in account_ids or not has_credential:
                self._findings.add("session", session.session_id, "is of an account or credential that is not there")

    def _is_bound(self, company_id: str | None, credential_id: str) -> bool:
        if company_id is None:
            return credential_id in self._globals
        fact = self._credentials.get(credential_id)
        return fact is not None and fact.company_id == company_id

    def _judge_agents(self) -> dict[tuple[str, str], AgentFact]:
        company_by_tag = {keys.company_tag(company_id): company_id for company_id in self._companies}
        agents: dict[tuple[str, str], AgentFact] = {}
        for key, registration in sorted(self._agents.items()):
            name = key[33:].decode("utf-8", "replace")
            company_id = company_by_tag.get(key[1:33])
            if company_id is None:
                self._findings.add("agent", name, "is of a company that is not there")
                continue
            try:
                fact = read_value(lambda: _agent_fact(company_id, registration))  # noqa: B023 - called at once
                require(key == keys.agent_key(company_id, fact.agent_id), "lies under the key of another")
            except Unsound as error:
                self._findings.add("agent", name, str(error))
                continue
            agents[company_id, fact.agent_id] = fact
            actor = self._credentials.get(fact.registered_by.credential_id)
            if actor is None or (actor.company_id, actor.subject_id) != (company_id, fact.registered_by.subject_id):
                self._findings.add("agent", name, "was registered by a credential that is not there")
        return agents


def _agent_fact(company_id: str, registration: dict[str, Any]) -> AgentFact:
    trigger = registration["trigger"]
    scope: Scope = scope_from_json(registration["first_scope"])
    workspace = Workspace(company_id, scope, registration["private_subject_id"])
    is_own = scope.agent_id == registration["agent_id"] and scope.as_json() == registration["first_scope"]
    require(is_own and len(workspace.partition) > 0, "names another agent in its scope")
    require((scope.visibility == "private") == (workspace.private_subject_id is not None), "has no documented scope")
    is_command = trigger["kind"] == "memory_command"
    legal = _COMMAND_TRIGGER if is_command else {"kind": ("successful_resource_request",)}
    if trigger.keys() != legal.keys() or any(
        allowed and trigger[name] not in allowed for name, allowed in legal.items()
    ):
        raise Unsound("has no documented trigger")
    return AgentFact(
        company_id,
        registration["agent_id"],
        author_from_json(registration["registered_by"]),
        workspace,
        trigger["record_id"] if is_command else None,
    )
