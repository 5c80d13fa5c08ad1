"""Every documented bound of a single member stands in its rules."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict

from tests.unit.protos.declared import declared, field, request_messages

UUID = {"uuid": True}
REVISION = {"min_int": 1}
CONTRACT = {"const_int": 1}
NAME = {"min_bytes": 1, "max_bytes": 256, "not_blank": True, "no_control": True}
PASSWORD = {"min_bytes": 8, "max_bytes": 1024}
TEXT = {"min_bytes": 1, "max_bytes": 256, "no_control": True}
REFERENCE = {"min_bytes": 1, "max_bytes": 2048, "not_blank": True, "no_control": True}
FLOAT32 = {"min_number": -3.4028234663852886e38, "max_number": 3.4028234663852886e38}
VECTOR = {**FLOAT32, "min_items": 1, "max_items": 32768}
COSINE = {"min_number": -1.0, "max_number": 1.0}
WORDS = {"min_bytes": 1, "max_bytes": 4096}
HUNDRED = {"min_int": 1, "max_int": 100}
SCAN = {"min_int": 1, "max_int": 10000}
SCAN_BYTES = {"min_int": 1, "max_int": 268435456, "reason": "retrieval_scan_limit"}
ROOTS = {"uuid": True, "min_items": 1, "max_items": 16, "unique": True}
JOB = {"job_id": UUID, "expected_revision": REVISION}
IN_WORKSPACE = {"contract_version": CONTRACT, "workspace_id": {"hex_digits": 64}}
OF_OWNER = {"owner_id": {"min_bytes": 1, "max_bytes": 256}, "job_id": UUID}
DIRECTORY = {"contract_version": CONTRACT, "limit": HUNDRED, "cursor": {"max_bytes": 8192}}
SOURCES = {"max_items": 16, "unique": True, "unique_by": "record_id"}

# By message; fields that are not named have no rule.
DOCUMENTED: dict[str, dict[str, dict[str, Any]]] = {
    "common.v1.AnonymousVector": {"values": FLOAT32},
    "common.v1.EmbeddingSpace": {
        "provider": TEXT,
        "model": TEXT,
        "revision": TEXT,
        "dimensions": {"min_int": 1, "max_int": 32768, "reason": "embedding_dimension_limit"},
    },
    "common.v1.EpisodeContent": {},
    "common.v1.EpisodeType": {},
    "common.v1.MemoryDerivation": {
        "sources": {**SOURCES, "min_items": 1},
        "method": NAME,
        "method_revision": NAME,
        "evidence_ref": REFERENCE,
    },
    "common.v1.ProvenanceModel": {"provider": NAME, "model": NAME, "revision": NAME},
    "common.v1.RecordInput": {},
    "common.v1.RelationInput": {"evidence_sources": SOURCES},
    "common.v1.RelationProvenance": {"method": NAME, "method_revision": NAME, "evidence_ref": REFERENCE},
    "common.v1.Scope": {"project_id": NAME, "mission_id": NAME, "agent_id": NAME},
    "common.v1.SourceRef": {"record_id": UUID, "revision": REVISION},
    "consolidation.v1.CancelJob": {**JOB, "evidence_ref": REFERENCE},
    "consolidation.v1.CancelCompanyJobRequest": {
        **IN_WORKSPACE,
        **OF_OWNER,
        "expected_revision": REVISION,
        "idempotency_key": NAME,
        "evidence_ref": REFERENCE,
    },
    "consolidation.v1.ClaimJob": {**JOB, "worker_id": NAME},
    "consolidation.v1.CompanyJobQuery": {"limit": HUNDRED, "scan_limit": {"min_int": 1, "max_int": 1000}},
    "consolidation.v1.ConsolidationAssertion": {"evidence_ref": REFERENCE},
    "consolidation.v1.ConsolidationOperation": {},
    "consolidation.v1.ConsolidationSpec": {
        "sources": {"min_items": 2, "max_items": 16, "unique": True, "unique_by": "record_id"},
        "objective": {**NAME, "max_bytes": 4096},
        "policy_ref": REFERENCE,
        "max_relations": {"min_int": 1, "max_int": 16},
        "max_attempts": {"min_int": 1, "max_int": 32},
        "lease_millis": {"min_int": 1000, "max_int": 900000},
        "max_attempt_millis": {"min_int": 1000, "max_int": 86400000},
    },
    "consolidation.v1.ConsolidationUsage": {},
    "consolidation.v1.CreateJob": {},
    "consolidation.v1.ExecuteConsolidationCommandRequest": {"contract_version": CONTRACT, "idempotency_key": NAME},
    "consolidation.v1.FailAttempt": {**JOB, "fence": UUID, "evidence_ref": REFERENCE},
    "consolidation.v1.InspectCompanyJobRequest": {**IN_WORKSPACE, **OF_OWNER},
    "consolidation.v1.InspectJobRequest": {"contract_version": CONTRACT, "job_id": UUID},
    "consolidation.v1.JobCursor": OF_OWNER,
    "consolidation.v1.JobQuery": {"limit": HUNDRED, "scan_limit": {"min_int": 1, "max_int": 1000}, "after": UUID},
    "consolidation.v1.PublishJob": {
        **JOB,
        "fence": UUID,
        "assertions": {"max_items": 16},
        "evidence_ref": REFERENCE,
    },
    "consolidation.v1.QueryCompanyJobsRequest": IN_WORKSPACE,
    "consolidation.v1.QueryJobsRequest": {"contract_version": CONTRACT},
    "consolidation.v1.ReadCompanyJobRevisionRequest": {**IN_WORKSPACE, **OF_OWNER, "revision": REVISION},
    "consolidation.v1.ReadJobContextRequest": {"contract_version": CONTRACT, **JOB, "fence": UUID},
    "consolidation.v1.ReadJobRevisionRequest": {"contract_version": CONTRACT, "job_id": UUID, "revision": REVISION},
    "consolidation.v1.ReconcileUsage": {
        **JOB,
        "attempt_number": {"min_int": 1, "max_int": 32},
        "evidence_ref": REFERENCE,
    },
    "consolidation.v1.RecoverExpired": {**JOB, "evidence_ref": REFERENCE},
    "consolidation.v1.RenewLease": {**JOB, "fence": UUID},
    "consolidation.v1.ReportedUsage": {},
    "consolidation.v1.UnknownUsage": {},
    "identity.v1.ChangeLoginPasswordRequest": {
        "account_id": UUID,
        "contract_version": CONTRACT,
        "expected_revision": REVISION,
        "password": PASSWORD,
    },
    "identity.v1.CreateLoginAccountRequest": {
        "contract_version": CONTRACT,
        "username": NAME,
        "password": PASSWORD,
        "credential_id": UUID,
    },
    "identity.v1.DisableLoginAccountRequest": {
        "account_id": UUID,
        "contract_version": CONTRACT,
        "expected_revision": REVISION,
    },
    "identity.v1.GetLoginAccountRequest": {"account_id": UUID},
    "identity.v1.ListLoginAccountsRequest": DIRECTORY,
    "identity.v1.ChangeGlobalLoginPasswordRequest": {
        "account_id": UUID,
        "contract_version": CONTRACT,
        "expected_revision": REVISION,
        "password": PASSWORD,
    },
    "identity.v1.CreateGlobalLoginAccountRequest": {
        "contract_version": CONTRACT,
        "username": NAME,
        "password": PASSWORD,
        "credential_id": UUID,
    },
    "identity.v1.DisableGlobalLoginAccountRequest": {
        "account_id": UUID,
        "contract_version": CONTRACT,
        "expected_revision": REVISION,
    },
    "identity.v1.GetGlobalLoginAccountRequest": {"account_id": UUID},
    "identity.v1.ListGlobalLoginAccountsRequest": DIRECTORY,
    "identity.v1.GlobalLoginRequest": {"contract_version": CONTRACT, "username": NAME, "password": PASSWORD},
    "identity.v1.LoginRequest": {
        "contract_version": CONTRACT,
        "tenant_id": NAME,
        "username": NAME,
        "password": PASSWORD,
    },
    "identity.v1.LogoutRequest": {"contract_version": CONTRACT},
    "identity.v1.CompanyScopePolicy": {"visibilities": {"min_items": 1, "max_items": 2, "unique": True}},
    "identity.v1.CredentialSpec": {"subject_id": NAME, "capabilities": {"min_items": 1}},
    "identity.v1.GetCredentialRequest": {"credential_id": UUID},
    "identity.v1.GetHealthRequest": {},
    "identity.v1.GetIdentityRequest": {},
    "identity.v1.IssueCredentialRequest": {"contract_version": CONTRACT},
    "identity.v1.CreateTenantRequest": {
        "contract_version": CONTRACT,
        "tenant_id": NAME,
        "subject_id": NAME,
        "display_name": TEXT,
    },
    "identity.v1.GetGlobalCredentialRequest": {"credential_id": UUID},
    "identity.v1.GetGlobalIdentityRequest": {},
    "identity.v1.GetTenantRequest": {"tenant_id": NAME},
    "identity.v1.GlobalCredentialSpec": {"subject_id": NAME, "capabilities": {"min_items": 1}},
    "identity.v1.IssueGlobalCredentialRequest": {"contract_version": CONTRACT},
    "identity.v1.IssueTenantAdminRequest": {"tenant_id": NAME, "contract_version": CONTRACT, "subject_id": NAME},
    "identity.v1.ListAgentsRequest": {"contract_version": CONTRACT, "limit": HUNDRED, "after_agent_id": NAME},
    "identity.v1.ListCredentialsRequest": DIRECTORY,
    "identity.v1.ListGlobalCredentialsRequest": DIRECTORY,
    "identity.v1.ListTenantsRequest": DIRECTORY,
    "identity.v1.RevokeGlobalCredentialRequest": {
        "credential_id": UUID,
        "contract_version": CONTRACT,
        "expected_revision": REVISION,
    },
    "identity.v1.RotateGlobalCredentialRequest": {
        "credential_id": UUID,
        "contract_version": CONTRACT,
        "expected_revision": REVISION,
    },
    "identity.v1.ReplaceScopeAuthorityRequest": {
        "credential_id": UUID,
        "contract_version": CONTRACT,
        "expected_revision": REVISION,
    },
    "identity.v1.RevokeCredentialRequest": {
        "credential_id": UUID,
        "contract_version": CONTRACT,
        "expected_revision": REVISION,
    },
    "identity.v1.RotateCredentialRequest": {
        "credential_id": UUID,
        "contract_version": CONTRACT,
        "expected_revision": REVISION,
    },
    "identity.v1.ScopeAuthority": {},
    "identity.v1.ScopeSelector": {},
    "identity.v1.SelectAll": {},
    "identity.v1.SelectOnly": {"ids": {**NAME, "max_items": 256, "unique": True}},
    "memory.v1.AssertRelation": {},
    "memory.v1.AttachEmbeddingRequest": {
        "contract_version": CONTRACT,
        "idempotency_key": TEXT,
        "record_id": UUID,
        "record_revision": REVISION,
        "vector": VECTOR,
    },
    "memory.v1.BatchReadRecordsRequest": {
        "contract_version": CONTRACT,
        "record_ids": {"uuid": True, "min_items": 1, "max_items": 100, "unique": True},
    },
    "memory.v1.CompanyRecordFilter": {
        "limit": HUNDRED,
        "scan_limit": SCAN,
        "after": UUID,
        "text_contains": {"max_bytes": 4096},
        "tag": {"max_bytes": 256},
    },
    "memory.v1.CompanySelection": {
        "project_id": NAME,
        "agent_id": NAME,
        "private_subject_id": NAME,
        "workspace_id": {"hex_digits": 64},
    },
    "memory.v1.CreateRecord": {},
    "memory.v1.DeleteRecord": {"record_id": UUID, "expected_revision": REVISION},
    "memory.v1.DeriveRecord": {},
    "memory.v1.DiagnoseEligibilityRequest": {"contract_version": CONTRACT, "record_id": UUID},
    "memory.v1.ExecuteCommandRequest": {"contract_version": CONTRACT, "idempotency_key": NAME},
    "memory.v1.ExecuteRelationCommandRequest": {"contract_version": CONTRACT, "idempotency_key": NAME},
    "memory.v1.GetRecordRequest": {
        "record_id": UUID,
        "contract_version": CONTRACT,
        "project_id": NAME,
        "agent_id": NAME,
        "mission_id": NAME,
    },
    "memory.v1.GetReviewStateRequest": {"contract_version": CONTRACT, "record_id": UUID},
    "memory.v1.InspectCompanyRelationRequest": {**IN_WORKSPACE, "relation_id": UUID},
    "memory.v1.InspectRelationRequest": {"contract_version": CONTRACT, "relation_id": UUID},
    "memory.v1.ListWorkspacesRequest": {
        "contract_version": CONTRACT,
        "limit": HUNDRED,
        "after_workspace_id": {"hex_digits": 64},
    },
    "memory.v1.MemoryOperation": {},
    "memory.v1.OrderedQuery": {"limit": HUNDRED, "scan_limit": SCAN, "cursor": {"max_bytes": 1024}},
    "memory.v1.QueryCompanyRecordsOrderedRequest": {"contract_version": CONTRACT},
    "memory.v1.QueryCompanyRecordsRequest": IN_WORKSPACE,
    "memory.v1.QueryRecordsOrderedRequest": {"contract_version": CONTRACT},
    "memory.v1.QueryRecordsRequest": {"contract_version": CONTRACT},
    "memory.v1.ReadCompanyRecordRequest": {**IN_WORKSPACE, "record_id": UUID},
    "memory.v1.ReadCompanyRelationRevisionRequest": {**IN_WORKSPACE, "relation_id": UUID, "revision": REVISION},
    "memory.v1.ReadRelationRequest": {"contract_version": CONTRACT, "relation_id": UUID},
    "memory.v1.ReadRelationRevisionRequest": {
        "contract_version": CONTRACT,
        "relation_id": UUID,
        "revision": REVISION,
    },
    "memory.v1.ReadReviewRequest": {"contract_version": CONTRACT, "record_id": UUID, "revision": REVISION},
    "memory.v1.RecordFilter": {"limit": {"min_int": 1, "max_int": 1000}, "after": UUID, "scan_limit": SCAN},
    "memory.v1.RelationOperation": {},
    "memory.v1.RestoreRelation": {"relation_id": UUID, "expected_revision": REVISION, "evidence_ref": REFERENCE},
    "memory.v1.RetireRelation": {"relation_id": UUID, "expected_revision": REVISION, "evidence_ref": REFERENCE},
    "memory.v1.ReviewCommand": {
        "contract_version": CONTRACT,
        "idempotency_key": NAME,
        "record_id": UUID,
        "expected_revision": REVISION,
        "evidence_ref": REFERENCE,
    },
    "memory.v1.ReviewRecordRequest": {},
    "memory.v1.ReviewRelation": {"relation_id": UUID, "expected_revision": REVISION, "evidence_ref": REFERENCE},
    "memory.v1.UpdateRecord": {"record_id": UUID, "expected_revision": REVISION},
    "retrieval.v1.AncestryQuery": {
        "root_record_ids": ROOTS,
        "max_depth": {"min_int": 0, "max_int": 8},
        "node_limit": {"min_int": 1, "max_int": 256},
    },
    "retrieval.v1.GraphExpansion": {
        "max_depth": {"min_int": 0, "max_int": 8},
        "node_limit": {"min_int": 1, "max_int": 256},
        "edge_limit": {"min_int": 1, "max_int": 1024},
        "scan_limit": {"min_int": 1, "max_int": 4096},
        "embedding_bytes_limit": {"min_int": 1, "max_int": 8388608},
    },
    "retrieval.v1.GraphQuery": {"limit": HUNDRED, "scan_limit": SCAN, "scan_bytes_limit": SCAN_BYTES},
    "retrieval.v1.GraphSeed": {},
    "retrieval.v1.HybridQuery": {
        "text": WORDS,
        "vector": VECTOR,
        "limit": HUNDRED,
        "scan_limit": SCAN,
        "scan_bytes_limit": SCAN_BYTES,
        "after": UUID,
        "min_score": COSINE,
    },
    "retrieval.v1.HybridSeed": {"text": WORDS, "vector": VECTOR, "min_score": COSINE},
    "retrieval.v1.LexicalQuery": {
        "text": WORDS,
        "limit": HUNDRED,
        "scan_limit": SCAN,
        "scan_bytes_limit": SCAN_BYTES,
        "after": UUID,
    },
    "retrieval.v1.LexicalSeed": {"text": WORDS},
    "retrieval.v1.ListGraphRankingProfilesRequest": {},
    "retrieval.v1.ListRankingProfilesRequest": {},
    "retrieval.v1.RelationKindSelection": {"kinds": {"min_items": 1, "max_items": 6, "unique": True}},
    "retrieval.v1.SearchGraphRequest": {"contract_version": CONTRACT},
    "retrieval.v1.SearchHybridRequest": {"contract_version": CONTRACT, "mode": {"const_int": 3}},
    "retrieval.v1.SearchLexicalRequest": {"contract_version": CONTRACT, "mode": {"const_int": 1}},
    "retrieval.v1.SearchSemanticRequest": {"contract_version": CONTRACT},
    "retrieval.v1.SemanticQuery": {
        "vector": VECTOR,
        "limit": HUNDRED,
        "min_score": COSINE,
        "after": UUID,
        "scan_limit": SCAN,
    },
    "retrieval.v1.SemanticSeed": {"vector": VECTOR, "min_score": COSINE},
    "retrieval.v1.TraceAncestryRequest": {"contract_version": CONTRACT},
    "retrieval.v1.TraceCompanyAncestryRequest": IN_WORKSPACE,
    "retrieval.v1.TraverseCompanyTypedGraphRequest": IN_WORKSPACE,
    "retrieval.v1.TraverseTypedGraphRequest": {"contract_version": CONTRACT},
    "retrieval.v1.TypedGraphQuery": {
        "root_record_ids": ROOTS,
        "max_depth": {"min_int": 0, "max_int": 8},
        "node_limit": {"min_int": 1, "max_int": 256},
        "edge_limit": {"min_int": 1, "max_int": 1024},
        "scan_limit": {"min_int": 1, "max_int": 4096},
    },
}


def _rules(full_name: str) -> dict[str, Any]:
    rules = MessageToDict(declared().field_rules(field(full_name)), preserving_proto_field_name=True)
    return {name: int(value) if name.endswith("_int") else value for name, value in rules.items()}


def test_every_request_message_is_looked_at() -> None:
    """The table below names every message type of a request, so that a new one cannot come without its bounds."""
    assert {name.removeprefix("waggle.") for name in request_messages()} == set(DOCUMENTED)


@pytest.mark.parametrize("name", DOCUMENTED)
def test_rules_are_the_documented_bounds(name: str) -> None:
    """Each member has exactly its documented bounds."""
    message = request_messages()[f"waggle.{name}"]
    found = {field.name: rules for field in message.fields if (rules := _rules(f"{name}.{field.name}"))}
    assert found == DOCUMENTED[name]
