"""A whole store: its rows, then what they mean, then how its partitions fit together."""

from __future__ import annotations

from typing import NamedTuple

from services.audit.findings import Finding, words_of_key
from services.audit.identity_audit import IdentityAudit, IdentityFacts
from services.audit.workspace_audit import WorkspaceAudit, WorkspaceFact
from services.domain.scope import IDENTITY_PARTITION
from services.storage.store_rows import RowPage
from services.storage.verification import Problem, StoreCheck


class AuditResult(NamedTuple):
    """What an audit of a store found."""

    findings: list[Finding]
    partition_count: int
    value_count: int
    workspaces: dict[bytes, str]
    """Company of each workspace that is entered, by partition."""


class StoreAudit:
    """Takes the physical rows of a store, those of one partition together, and judges all of them.

    Memory: that of the largest partition's audit, and 8 bytes for each record of the store.

    Args:
        sequence: Sequence of the newest commit.
    """

    def __init__(self, sequence: int) -> None:
        self._check = StoreCheck(sequence, on_value=self._take_value, on_partition=self._end_partition)
        self._workspace: WorkspaceAudit | None = None
        self._identity = IdentityAudit()
        self._findings: list[Finding] = []
        self._facts: dict[bytes, WorkspaceFact] = {}

    @property
    def value_count(self) -> int:
        """Living keys taken so far."""
        return self._check.value_count

    def take_page(self, page: RowPage) -> None:
        """Take some rows."""
        for part in page.unreadable:
            self._check.miss(part)
        for key, value in page.rows:
            self._check.take(key, value)

    def finish(self) -> AuditResult:
        """Judge the whole."""
        problems = self._check.finish()
        found, identity = self._identity.finish()
        self._findings += found
        self._judge_directory(identity)
        self._judge_agents(identity)
        entered = {partition: fact.workspace for partition, fact in self._facts.items()}
        companies = {
            partition: workspace.company_id for partition, workspace in entered.items() if workspace is not None
        }
        findings = [*map(finding_of, problems), *self._findings]
        return AuditResult(findings, self._check.partition_count, self._check.value_count, companies)

    def _take_value(self, partition: bytes, key: bytes, value: bytes) -> None:
        if partition == IDENTITY_PARTITION:
            self._identity.take(key, value)
            return
        if self._workspace is None:
            self._workspace = WorkspaceAudit(partition)
        self._workspace.take(key, value)

    def _end_partition(self, partition: bytes) -> None:
        workspace, self._workspace = self._workspace, None
        if workspace is not None:
            found, self._facts[partition] = workspace.finish()
            self._findings += found

    def _judge_directory(self, identity: IdentityFacts) -> None:
        """Workspaces say themselves that they are entered, and the directory of their company says so too."""
        listed = identity.workspaces
        entered = {partition: fact.workspace for partition, fact in self._facts.items() if fact.workspace is not None}
        for partition in sorted(listed.keys() | entered.keys()):
            if listed.get(partition) != entered.get(partition):
                problem = (
                    "is not as its company's directory says" if partition in entered else "is listed, but not there"
                )
                self._findings.append(Finding("workspace", "", problem, partition.hex()))

    def _judge_agents(self, identity: IdentityFacts) -> None:
        """Who has left a record was registered in the same commit, and the command that registered left its record."""
        for partition, fact in sorted(self._facts.items()):
            workspace = fact.workspace
            for author in sorted(fact.authors, key=lambda author: author.credential_id):
                actor = identity.credentials.get(author.credential_id)
                is_own = workspace is None or (actor is not None and actor.company_id == workspace.company_id)
                if actor is None or actor.subject_id != author.subject_id or not is_own:
                    problem = f"credential {author.credential_id}, which has written to it, is not there"
                    self._findings.append(Finding("workspace", "", problem, partition.hex()))
            if workspace is not None and (workspace.company_id, workspace.scope.agent_id) not in identity.agents:
                problem = f"its agent {workspace.scope.agent_id} is not registered"
                self._findings.append(Finding("workspace", "", problem, partition.hex()))
        for (company_id, agent_id), agent in sorted(identity.agents.items()):
            if agent.record_id is None:
                continue
            found = self._facts.get(agent.workspace.partition)
            if found is None or not found.may_have(agent.record_id):
                problem = f"was registered by a command on record {agent.record_id}, which is not there"
                self._findings.append(Finding("agent", f"{company_id}/{agent_id}", problem))


def finding_of(problem: Problem) -> Finding:
    """A problem of the physical rows as a finding."""
    if problem.partition is None:
        return Finding("store", "", problem.text)
    workspace_id = None if problem.partition == IDENTITY_PARTITION else problem.partition.hex()
    if problem.key is None:
        kind = "identity partition" if workspace_id is None else "partition"
        return Finding(kind, "", problem.text, workspace_id)
    return Finding(*words_of_key(problem.partition, problem.key), problem.text, workspace_id)
