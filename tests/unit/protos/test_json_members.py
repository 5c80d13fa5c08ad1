"""Every message that stands in documented JSON has the documented members, and no other."""

from __future__ import annotations

import pytest

from tests.unit.protos.declared import (
    members,
)

ADDRESSES = {"contract_version", "scope"}
WORKSPACE = {"contract_version", "company_id", "workspace"}
IN_WORKSPACE = {"contract_version", "workspace_id"}
SCAN = {"scanned_records", "scanned_bytes", "corpus_records", "next_after", "exhaustive", "hits", "dependency_work"}

MEMBERS = {
    "common.v1.Scope": {"project_id", "mission_id", "agent_id", "visibility"},
    "common.v1.RecordInput": {"episode_type", "content", "event_time_millis", "valid_until_millis", "tags", "metadata"},
    "common.v1.EpisodeContent": {"primary", "secondary", "context", "data", "embedding"},
    "common.v1.MemoryDerivation": {"sources", "method", "method_revision", "evidence_ref"},
    "common.v1.MemoryRecord": {
        "schema_version", "record_id", "revision", "created_at_millis", "modified_at_millis", "author", "payload",
        "review", "derivation",
    },
    "common.v1.MemoryReview": {"disposition", "evidence_ref", "author", "reviewed_at_millis"},
    "common.v1.Author": {"credential_id", "subject_id"},
    "common.v1.DependencyWork": {"records_examined", "bytes_examined"},
    "common.v1.EmbeddingSpace": {"provider", "model", "revision", "dimensions"},
    "common.v1.EmbeddingReceipt": {
        "contract_version", "idempotency_key", "record_id", "record_revision", "space", "vector_digest", "author",
        "committed_at_millis",
    },
    "common.v1.EligibilityFailure": {"record_id", "expected_revision", "actual_revision", "reason"},
    "common.v1.RelationInput": {
        "source", "target", "kind", "provenance", "valid_from_millis", "valid_until_millis", "evidence_sources",
    },
    "common.v1.RelationProvenance": {"origin", "method", "method_revision", "evidence_ref", "model"},
    "common.v1.MemoryRelation": {
        "schema_version", "relation_id", "revision", "input", "reported_by", "created_at_millis", "modified_at_millis",
        "state", "review",
    },
    "common.v1.Workspace": {"workspace_id", "company_id", "scope", "private_subject_id"},
    "consolidation.v1.QueryCompanyJobsRequest": {*IN_WORKSPACE, "query"},
    "consolidation.v1.QueryCompanyJobsResponse": {*WORKSPACE, "page"},
    "consolidation.v1.CompanyJobQuery": {"limit", "scan_limit", "status", "after"},
    "consolidation.v1.CompanyJobPage": {
        "jobs",
        "next_after",
        "records_examined",
        "record_bytes",
        "evaluated_at_millis",
    },
    "consolidation.v1.CompanyJobEntry": {"owner_id", "summary"},
    "consolidation.v1.JobCursor": {"owner_id", "job_id"},
    "consolidation.v1.InspectCompanyJobRequest": {*IN_WORKSPACE, "owner_id", "job_id"},
    "consolidation.v1.InspectCompanyJobResponse": {*WORKSPACE, "inspection"},
    "consolidation.v1.ReadCompanyJobRevisionRequest": {*IN_WORKSPACE, "owner_id", "job_id", "revision"},
    "consolidation.v1.ReadCompanyJobRevisionResponse": {*WORKSPACE, "history"},
    "consolidation.v1.CancelCompanyJobRequest": {
        *IN_WORKSPACE, "owner_id", "job_id", "expected_revision", "idempotency_key", "evidence_ref",
    },
    "consolidation.v1.CancelCompanyJobResponse": {*WORKSPACE, "receipt"},
    "memory.v1.ListWorkspacesRequest": {"contract_version", "limit", "after_workspace_id"},
    "memory.v1.ListWorkspacesResponse": {"contract_version", "company_id", "page"},
    "memory.v1.WorkspacePage": {"workspaces", "next_after_workspace_id"},
    "memory.v1.QueryCompanyRecordsRequest": {*IN_WORKSPACE, "filter"},
    "memory.v1.QueryCompanyRecordsResponse": {*WORKSPACE, "page"},
    "memory.v1.CompanyRecordFilter": {
        "limit", "scan_limit", "after", "view", "text_contains", "tag", "episode_type",
    },
    "memory.v1.CompanyRecordPage": {
        "entries", "next_after", "stop_reason", "evaluated_at_millis", "scanned_records", "record_bytes",
        "dependency_work",
    },
    "memory.v1.CompanyRecordEntry": {"record", "eligibility"},
    "memory.v1.ReadCompanyRecordRequest": {*IN_WORKSPACE, "record_id"},
    "memory.v1.ReadCompanyRecordResponse": {*WORKSPACE, "entry", "record_bytes"},
    "memory.v1.QueryCompanyRecordsOrderedRequest": {"contract_version", "query", "selection", "view"},
    "memory.v1.QueryCompanyRecordsOrderedResponse": {"contract_version", "page", "company_id"},
    "memory.v1.CompanySelection": {"project_id", "agent_id", "private_subject_id", "workspace_id", "visibility"},
    "memory.v1.CompanyOrderedPage": {
        "stop_reason", "evaluated_at_millis", "scanned_records", "record_bytes", "dependency_work", "next_cursor",
        "entries",
    },
    "memory.v1.PlacedRecordEntry": {"record", "eligibility", "workspace"},
    "memory.v1.InspectCompanyRelationRequest": {*IN_WORKSPACE, "relation_id"},
    "memory.v1.InspectCompanyRelationResponse": {*WORKSPACE, "inspection"},
    "memory.v1.ReadCompanyRelationRevisionRequest": {*IN_WORKSPACE, "relation_id", "revision"},
    "memory.v1.ReadCompanyRelationRevisionResponse": {*WORKSPACE, "history"},
    "retrieval.v1.TraceCompanyAncestryRequest": {*IN_WORKSPACE, "query"},
    "retrieval.v1.TraceCompanyAncestryResponse": {*WORKSPACE, "graph"},
    "retrieval.v1.TraverseCompanyTypedGraphRequest": {*IN_WORKSPACE, "query"},
    "retrieval.v1.TraverseCompanyTypedGraphResponse": {*WORKSPACE, "graph"},
    "consolidation.v1.ExecuteConsolidationCommandRequest": {*ADDRESSES, "idempotency_key", "operation"},
    "consolidation.v1.ExecuteConsolidationCommandResponse": {"contract_version", "receipt"},
    "consolidation.v1.InspectJobRequest": {*ADDRESSES, "job_id"},
    "consolidation.v1.InspectJobResponse": {*ADDRESSES, "inspection"},
    "consolidation.v1.ReadJobRevisionRequest": {*ADDRESSES, "job_id", "revision"},
    "consolidation.v1.ReadJobRevisionResponse": {*ADDRESSES, "history"},
    "consolidation.v1.QueryJobsRequest": {*ADDRESSES, "query"},
    "consolidation.v1.QueryJobsResponse": {*ADDRESSES, "page"},
    "consolidation.v1.ReadJobContextRequest": {*ADDRESSES, "job_id", "expected_revision", "fence"},
    "consolidation.v1.ReadJobContextResponse": {*ADDRESSES, "context"},
    "consolidation.v1.ConsolidationOperation": {"type"},
    "consolidation.v1.CreateJob": {"spec"},
    "consolidation.v1.ClaimJob": {"job_id", "expected_revision", "worker_id"},
    "consolidation.v1.RenewLease": {"job_id", "expected_revision", "fence"},
    "consolidation.v1.PublishJob": {"job_id", "expected_revision", "fence", "assertions", "usage", "evidence_ref"},
    "consolidation.v1.FailAttempt": {"job_id", "expected_revision", "fence", "usage", "evidence_ref"},
    "consolidation.v1.RecoverExpired": {"job_id", "expected_revision", "evidence_ref"},
    "consolidation.v1.CancelJob": {"job_id", "expected_revision", "evidence_ref"},
    "consolidation.v1.ReconcileUsage": {"job_id", "expected_revision", "attempt_number", "usage", "evidence_ref"},
    "consolidation.v1.ConsolidationSpec": {
        "sources", "objective", "policy_ref", "extractor", "max_relations", "max_attempts", "lease_millis",
        "max_attempt_millis",
    },
    "consolidation.v1.ConsolidationAssertion": {
        "source", "target", "kind", "valid_from_millis", "valid_until_millis", "evidence_ref",
    },
    "consolidation.v1.ConsolidationUsage": {"status"},
    "consolidation.v1.UnknownUsage": set(),
    "consolidation.v1.ReportedUsage": {"model_calls", "input_tokens", "output_tokens", "cost_microusd"},
    "consolidation.v1.ConsolidationReceipt": {
        "contract_version", "idempotency_key", "job_id", "revision", "action", "author", "committed_at_millis",
        "job_digest", "command_digest", "receipt_digest",
    },
    "consolidation.v1.ConsolidationJob": {
        "schema_version", "job_id", "revision", "created_by", "created_at_millis", "modified_at_millis", "spec",
        "status", "attempts", "output_receipts",
    },
    "consolidation.v1.ConsolidationAttempt": {
        "number", "worker_id", "credential_id", "fence", "storage_incarnation", "claimed_at_millis",
        "expires_at_millis", "ended_at_millis", "outcome", "usage", "evidence_ref", "usage_evidence_ref",
    },
    "consolidation.v1.ConsolidationJobSummary": {
        "job_id", "revision", "status", "created_at_millis", "modified_at_millis", "attempts", "lease_active",
        "recoverable",
    },
    "consolidation.v1.JobInspection": {
        "job", "evaluated_at_millis", "lease_active", "recoverable", "source_failure", "dependency_work",
    },
    "consolidation.v1.JobHistory": {"job", "receipt"},
    "consolidation.v1.JobQuery": {"limit", "scan_limit", "after", "status"},
    "consolidation.v1.JobPage": {"jobs", "next_after", "records_examined", "record_bytes", "evaluated_at_millis"},
    "consolidation.v1.JobContext": {
        "job_id", "job_revision", "fence", "records", "evaluated_at_millis", "record_bytes", "dependency_work",
    },
    "identity.v1.ListAgentsResponse": {"contract_version", "company_id", "page"},
    "identity.v1.AgentPage": {"agents", "next_after_agent_id"},
    "identity.v1.AgentRegistration": {
        "agent_id", "registered_at_millis", "registered_by", "first_scope", "private_subject_id", "trigger",
    },
    "identity.v1.AgentTrigger": {"kind"},
    "identity.v1.MemoryCommandTrigger": {"record_id", "revision", "action"},
    "identity.v1.GlobalCredentialSpec": {"subject_id", "capabilities", "expires_at_millis"},
    "identity.v1.GlobalCredential": {"id", "spec", "revision", "revoked_at_millis", "history", "is_master"},
    "identity.v1.GlobalCredentialEvent": {"revision", "action", "actor_id", "at_millis"},
    "identity.v1.LoginSession": {"token", "token_type", "expires_at_millis", "account"},
    "identity.v1.LoginAccount": {
        "id", "username", "authority", "credential_id", "revision", "disabled_at_millis", "history",
    },
    "identity.v1.LoginAuthority": {"kind"},
    "identity.v1.TenantLoginAuthority": {"tenant_id"},
    "identity.v1.LoginAccountEvent": {"revision", "action", "actor_id", "at_millis"},
    "identity.v1.LoginAccountPage": {"items", "next_cursor"},
    "identity.v1.LoginResponse": {"contract_version", "session"},
    "identity.v1.GlobalLoginResponse": {"contract_version", "session"},
    "identity.v1.LogoutResponse": {"contract_version", "logged_out"},
    "identity.v1.CreateTenantResponse": {"contract_version", "tenant", "credential", "secret"},
    "identity.v1.TenantRegistration": {
        "schema_version", "tenant_id", "display_name", "created_at_millis", "created_by", "initial_admin_id",
    },
    "identity.v1.TenantEntry": {"tenant_id", "registration"},
    "identity.v1.GetTenantResponse": {"contract_version", "tenant_id", "registration"},
    "identity.v1.CredentialSpec": {"subject_id", "capabilities", "grants", "expires_at_millis", "scope_policy"},
    "identity.v1.CompanyScopePolicy": {
        "version", "projects", "agents", "missions", "allow_unassigned_mission", "visibilities",
    },
    "identity.v1.Credential": {"id", "tenant_id", "spec", "revision", "revoked_at_millis", "history"},
    "identity.v1.CredentialEvent": {"revision", "action", "actor_id", "at_millis", "scope_authority_change"},
    "memory.v1.ExecuteCommandRequest": {*ADDRESSES, "idempotency_key", "operation"},
    "memory.v1.MemoryReceipt": {
        "contract_version", "idempotency_key", "record_id", "revision", "action", "committed_at_millis", "author",
    },
    "memory.v1.AttachEmbeddingRequest": {
        *ADDRESSES, "idempotency_key", "record_id", "record_revision", "space", "vector",
    },
    "memory.v1.RecordFilter": {"limit", "after", "text_contains", "episode_type", "tag", "scan_limit"},
    "memory.v1.OrderedQuery": {"order", "limit", "scan_limit", "cursor", "text_contains", "episode_type", "tag"},
    "memory.v1.RecordPage": {"records", "next_after", "scanned_records", "dependency_work"},
    "memory.v1.OrderedPage": {
        "stop_reason", "evaluated_at_millis", "scanned_records", "record_bytes", "dependency_work", "next_cursor",
        "records",
    },
    "memory.v1.RecordBatch": {"evaluated_at_millis", "entries", "record_bytes", "dependency_work"},
    "memory.v1.ReviewRecordRequest": {"scope", "command"},
    "memory.v1.ReviewCommand": {
        "contract_version", "idempotency_key", "record_id", "expected_revision", "disposition", "evidence_ref",
    },
    "memory.v1.ReviewReceipt": {
        "contract_version", "idempotency_key", "record_id", "revision", "review", "receipt_digest",
    },
    "memory.v1.ReviewState": {"record_id", "revision", "review", "deleted", "expired"},
    "memory.v1.RecordEligibility": {
        "record_id", "revision", "eligible", "evaluated_at_millis", "first_failure", "dependencies_checked",
        "max_depth_examined", "all_dependencies_checked", "dependency_work",
    },
    "memory.v1.RelationReceipt": {
        "contract_version", "idempotency_key", "relation_id", "revision", "action", "author", "committed_at_millis",
        "evidence_ref", "relation_digest", "command_digest", "receipt_digest",
    },
    "memory.v1.RelationEligibility": {
        "eligible", "reason", "evaluated_at_millis", "endpoint", "dependency_work", "evidence_failure",
    },
    "retrieval.v1.SemanticQuery": {
        "space", "vector", "limit", "min_score", "after", "scan_limit", "episode_type", "tag",
    },
    "retrieval.v1.SemanticPage": {
        "hits", "next_after", "scanned_embeddings", "matched_records", "exhaustive", "dependency_work",
    },
    "retrieval.v1.SearchSemanticResponse": {*ADDRESSES, "page"},
    "retrieval.v1.LexicalQuery": {"text", "limit", "scan_limit", "scan_bytes_limit", "after", "episode_type", "tag"},
    "retrieval.v1.SearchLexicalResponse": {*ADDRESSES, "mode", "ranking_version", "page", "timing"},
    "retrieval.v1.LexicalPage": {*SCAN, "matched_records"},
    "retrieval.v1.HybridQuery": {
        "text", "space", "vector", "limit", "ranking_version", "scan_limit", "scan_bytes_limit", "after", "min_score",
        "episode_type", "tag",
    },
    "retrieval.v1.SearchHybridResponse": {*ADDRESSES, "mode", "ranking_version", "page", "timing"},
    "retrieval.v1.HybridPage": {
        *SCAN, "embedded_records", "lexical_matches", "semantic_matches", "lexical_candidates", "semantic_candidates",
        "ranking", "embedding_coverage", "candidates_truncated", "rank_constant",
    },
    "retrieval.v1.HybridHit": {"record", "score", "lexical", "semantic", "embedding"},
    "retrieval.v1.ExecutionLimits": {
        "scope", "max_embedding_dimensions", "max_scan_bytes", "default_scan_bytes", "max_concurrent_retrievals",
        "vector_request_body_bytes",
    },
    "retrieval.v1.HybridRankingProfile": {
        "version", "method", "lexical_version", "semantic_version", "candidate_limit", "lexical_weight",
        "semantic_weight", "rank_constant", "experimental",
    },
    "retrieval.v1.GraphRankingProfile": {
        "version", "method", "experimental", "traversal_version", "base_candidate_limit", "anchor_limit",
        "rank_constant", "base_weight", "graph_weight", "hop_decay", "cosine_affinity_floor", "cosine_affinity_weight",
        "missing_embedding_affinity", "maximum_score", "relation_weights",
    },
    "retrieval.v1.GraphQuery": {
        "ranking_version", "seed", "limit", "scan_limit", "scan_bytes_limit", "expansion", "episode_type", "tag",
    },
    "retrieval.v1.GraphSeed": {"mode"},
    "retrieval.v1.GraphExpansion": {
        "direction", "max_depth", "node_limit", "edge_limit", "scan_limit", "embedding_bytes_limit",
    },
    "retrieval.v1.GraphSearchPage": {
        "ranking", "evaluated_at_millis", "seed", "expansion", "graph_roots", "graph_coverage", "affinity_work",
        "graph_candidates", "candidates_ranked", "coverage", "hits", "relations",
    },
    "retrieval.v1.GraphSeedSummary": {
        "mode", "ranking_version", "hybrid_profile", "embedding_space", "embedding_coverage", "selected_anchors",
        "candidate_selection_version", "scanned_records", "scanned_bytes", "candidate_index_bytes", "corpus_records",
        "lexical_matches", "semantic_matches", "base_candidates", "base_candidates_truncated",
        "channel_candidates_truncated", "scan_complete", "dependency_work",
    },
    "retrieval.v1.GraphHit": {"record", "score", "base", "graph", "affinity"},
    "retrieval.v1.GraphPathContribution": {
        "rank", "strength", "contribution", "anchor", "anchor_rank", "steps", "missing_affinity",
    },
    "retrieval.v1.GraphPathStep": {"relation_id", "relation_revision", "direction", "from", "to"},
    "retrieval.v1.GraphSearchCoverage": {
        "source_complete", "candidates_complete", "graph_complete", "embeddings_complete", "complete",
    },
    "retrieval.v1.TypedGraphCoverage": {
        "complete", "stop_reasons", "records_examined", "record_bytes", "adjacency_entries_examined",
        "relations_examined", "relation_bytes", "dependency_work",
    },
    "retrieval.v1.GraphAffinityWork": {
        "requested", "reused_scores", "lookups", "current_bindings", "missing_bindings", "stale_bindings", "bytes_read",
        "byte_limit",
    },
    "retrieval.v1.TypedGraphQuery": {
        "root_record_ids", "direction", "relation_kinds", "max_depth", "node_limit", "edge_limit", "scan_limit",
    },
    "retrieval.v1.TypedGraph": {
        "traversal_version", "evaluated_at_millis", "direction", "relation_kinds", "max_depth", "node_limit",
        "edge_limit", "scan_limit", "roots", "nodes", "edges", "coverage",
    },
    "retrieval.v1.AncestryGraph": {
        "traversal_version", "evaluated_at_millis", "max_depth", "node_limit", "roots", "nodes", "edges", "coverage",
    },
    "retrieval.v1.AncestryCoverage": {
        "complete", "stop_reasons", "records_examined", "record_bytes", "dependency_work",
    },
}  # fmt: skip


@pytest.mark.parametrize("name", MEMBERS)
def test_members_are_the_documented_ones(name: str) -> None:
    """An object has exactly the documented members: every published object is closed."""
    assert members(name) == sorted(MEMBERS[name])
