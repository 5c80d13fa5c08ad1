"""Which members of documented JSON can be null, must be there, or are left out."""

from __future__ import annotations

import pytest
from google.api import field_behavior_pb2
from google.protobuf.descriptor import FieldDescriptor

from tests.unit.protos.declared import (
    declared,
    request_messages,
    response_messages,
)

NULLABLE_IN_REQUESTS = {
    "waggle.common.v1.EpisodeContent.context",
    "waggle.common.v1.EpisodeContent.data",
    "waggle.common.v1.EpisodeContent.embedding",
    "waggle.common.v1.EpisodeContent.secondary",
    "waggle.common.v1.RecordInput.valid_until_millis",
    "waggle.common.v1.RelationInput.valid_from_millis",
    "waggle.common.v1.RelationInput.valid_until_millis",
    "waggle.common.v1.RelationProvenance.model",
    "waggle.common.v1.Scope.mission_id",
    "waggle.consolidation.v1.ConsolidationAssertion.valid_from_millis",
    "waggle.consolidation.v1.ConsolidationAssertion.valid_until_millis",
    "waggle.consolidation.v1.CompanyJobQuery.after",
    "waggle.consolidation.v1.CompanyJobQuery.status",
    "waggle.consolidation.v1.JobQuery.after",
    "waggle.consolidation.v1.JobQuery.status",
    "waggle.consolidation.v1.ReportedUsage.cost_microusd",
    "waggle.identity.v1.CreateTenantRequest.display_name",
    "waggle.identity.v1.CredentialSpec.expires_at_millis",
    "waggle.identity.v1.CredentialSpec.scope_policy",
    "waggle.identity.v1.GlobalCredentialSpec.expires_at_millis",
    "waggle.identity.v1.ScopeAuthority.scope_policy",
    "waggle.memory.v1.CompanyRecordFilter.after",
    "waggle.memory.v1.CompanyRecordFilter.episode_type",
    "waggle.memory.v1.CompanyRecordFilter.tag",
    "waggle.memory.v1.CompanyRecordFilter.text_contains",
    "waggle.memory.v1.CompanySelection.agent_id",
    "waggle.memory.v1.CompanySelection.private_subject_id",
    "waggle.memory.v1.CompanySelection.project_id",
    "waggle.memory.v1.CompanySelection.visibility",
    "waggle.memory.v1.CompanySelection.workspace_id",
    "waggle.memory.v1.QueryCompanyRecordsOrderedRequest.selection",
    "waggle.memory.v1.OrderedQuery.cursor",
    "waggle.memory.v1.OrderedQuery.episode_type",
    "waggle.memory.v1.OrderedQuery.tag",
    "waggle.memory.v1.OrderedQuery.text_contains",
    "waggle.memory.v1.RecordFilter.after",
    "waggle.memory.v1.RecordFilter.episode_type",
    "waggle.memory.v1.RecordFilter.tag",
    "waggle.memory.v1.RecordFilter.text_contains",
    "waggle.retrieval.v1.GraphQuery.episode_type",
    "waggle.retrieval.v1.GraphQuery.tag",
    "waggle.retrieval.v1.HybridQuery.after",
    "waggle.retrieval.v1.HybridQuery.episode_type",
    "waggle.retrieval.v1.HybridQuery.tag",
    "waggle.retrieval.v1.LexicalQuery.after",
    "waggle.retrieval.v1.LexicalQuery.episode_type",
    "waggle.retrieval.v1.LexicalQuery.tag",
    "waggle.retrieval.v1.SemanticQuery.after",
    "waggle.retrieval.v1.SemanticQuery.episode_type",
    "waggle.retrieval.v1.SemanticQuery.tag",
}


def test_nullable_members_of_requests() -> None:
    """Null is accepted exactly where it is documented; every other optional member can only be left out."""
    nullable = {
        field.full_name
        for message in request_messages().values()
        for field in message.fields
        if declared().field_json(field).nullable
    }
    assert nullable == NULLABLE_IN_REQUESTS


NULLABLE_IN_ANSWERS = {
    "waggle.common.v1.EligibilityFailure.actual_revision",
    "waggle.common.v1.EligibilityFailure.expected_revision",
    "waggle.common.v1.MemoryRecord.derivation",
    "waggle.common.v1.MemoryRecord.payload",
    "waggle.common.v1.MemoryRecord.review",
    "waggle.common.v1.MemoryRelation.review",
    "waggle.common.v1.Workspace.private_subject_id",
    "waggle.consolidation.v1.CompanyJobPage.next_after",
    "waggle.consolidation.v1.ConsolidationAttempt.ended_at_millis",
    "waggle.consolidation.v1.ConsolidationAttempt.evidence_ref",
    "waggle.consolidation.v1.ConsolidationAttempt.usage_evidence_ref",
    "waggle.consolidation.v1.JobInspection.source_failure",
    "waggle.consolidation.v1.JobPage.next_after",
    "waggle.identity.v1.AgentPage.next_after_agent_id",
    "waggle.identity.v1.AgentRegistration.private_subject_id",
    "waggle.identity.v1.Credential.revoked_at_millis",
    "waggle.identity.v1.CredentialPage.next_cursor",
    "waggle.identity.v1.GetTenantResponse.registration",
    "waggle.identity.v1.GlobalCredential.revoked_at_millis",
    "waggle.identity.v1.GlobalCredentialPage.next_cursor",
    "waggle.identity.v1.LoginAccount.disabled_at_millis",
    "waggle.identity.v1.LoginAccountPage.next_cursor",
    "waggle.identity.v1.TenantEntry.registration",
    "waggle.identity.v1.TenantPage.next_cursor",
    "waggle.memory.v1.BatchEntry.record",
    "waggle.memory.v1.CompanyOrderedPage.next_cursor",
    "waggle.memory.v1.CompanyRecordPage.next_after",
    "waggle.memory.v1.OrderedPage.next_cursor",
    "waggle.memory.v1.RecordEligibility.first_failure",
    "waggle.memory.v1.RecordPage.next_after",
    "waggle.memory.v1.RelationEligibility.endpoint",
    "waggle.memory.v1.ReviewState.review",
    "waggle.memory.v1.WorkspacePage.next_after_workspace_id",
    "waggle.retrieval.v1.GraphHit.affinity",
    "waggle.retrieval.v1.GraphHit.base",
    "waggle.retrieval.v1.GraphHit.graph",
    "waggle.retrieval.v1.GraphSeedSummary.corpus_records",
    "waggle.retrieval.v1.GraphSeedSummary.embedding_coverage",
    "waggle.retrieval.v1.GraphSeedSummary.embedding_space",
    "waggle.retrieval.v1.GraphSeedSummary.hybrid_profile",
    "waggle.retrieval.v1.GraphSeedSummary.lexical_matches",
    "waggle.retrieval.v1.GraphSeedSummary.semantic_matches",
    "waggle.retrieval.v1.HybridHit.embedding",
    "waggle.retrieval.v1.HybridHit.lexical",
    "waggle.retrieval.v1.HybridHit.semantic",
    "waggle.retrieval.v1.HybridPage.next_after",
    "waggle.retrieval.v1.HybridRetrieval.embedding",
    "waggle.retrieval.v1.HybridRetrieval.lexical",
    "waggle.retrieval.v1.HybridRetrieval.semantic",
    "waggle.retrieval.v1.LexicalPage.next_after",
    "waggle.retrieval.v1.SemanticPage.next_after",
}


def test_nullable_members_of_answers() -> None:
    """Null can stand in an answer exactly where it is documented."""
    nullable = {
        field.full_name
        for name, message in response_messages().items()
        if name not in request_messages()
        for field in message.fields
        if declared().field_json(field).nullable
    }
    assert nullable == NULLABLE_IN_ANSWERS


def test_every_presence_of_an_answer_is_documented() -> None:
    """A scalar of an answer that can be unset is one that can be null, or is left out then."""
    undocumented = {
        field.full_name
        for name, message in response_messages().items()
        if name not in request_messages()
        for field in message.fields
        if field.has_presence and field.type != FieldDescriptor.TYPE_MESSAGE and field.containing_oneof is not None
        if not (declared().field_json(field).nullable or declared().field_json(field).omit_unset)
    }
    assert undocumented == set()


@pytest.mark.parametrize("name", sorted(set(request_messages()) - {"waggle.common.v1.AnonymousVector"}))
def test_members_of_requests_say_whether_they_are_required(name: str) -> None:
    """Every member of a request is marked for gRPC callers and for JSON alike, and both marks agree."""
    # The default pool knows the extension; it is the one whose classes the descriptors' options have.
    for field in request_messages()[name].fields:
        if field.containing_oneof is not None and declared().union_json(field.containing_oneof) is not None:
            continue
        marks = list(field.GetOptions().Extensions[field_behavior_pb2.field_behavior])
        required = declared().field_json(field).required
        assert marks == [field_behavior_pb2.REQUIRED if required else field_behavior_pb2.OPTIONAL], field.full_name


@pytest.mark.parametrize("name", sorted(request_messages()))
def test_optional_members_of_requests_have_presence(name: str) -> None:
    """A service can tell an optional member that was left out from one that was sent, whatever its value."""
    blind = [
        field.name
        for field in request_messages()[name].fields
        if not declared().field_json(field).required and not field.is_repeated and not field.has_presence
    ]
    assert blind == []
