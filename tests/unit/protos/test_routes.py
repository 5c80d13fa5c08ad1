"""The protos declare exactly the documented routes, with their limits, statuses and headers."""

from __future__ import annotations

import pytest

from tests.unit.protos.declared import declared, routes

VECTOR_BODY = 2_097_152
LOGIN_BODY = 8_192
WORK_HEADERS = [
    "X-Qilbee-Candidate-Selection-Version",
    "X-Qilbee-Scanned-Records",
    "X-Qilbee-Candidate-Index-Bytes",
    "X-Qilbee-Scanned-Bytes",
]

DOCUMENTED = {
    "IdentityService.GetHealth": ("GET", "/health"),
    "IdentityService.GetIdentity": ("GET", "/api/v1/identity"),
    "IdentityService.IssueCredential": ("POST", "/api/v1/credentials"),
    "IdentityService.ListCredentials": ("GET", "/api/v1/credentials"),
    "IdentityService.GetCredential": ("GET", "/api/v1/credentials/{credential_id}"),
    "IdentityService.RotateCredential": ("POST", "/api/v1/credentials/{credential_id}/rotate"),
    "IdentityService.RevokeCredential": ("POST", "/api/v1/credentials/{credential_id}/revoke"),
    "IdentityService.ReplaceScopeAuthority": ("POST", "/api/v1/credentials/{credential_id}/scope-authority"),
    "AgentService.ListAgents": ("GET", "/api/v1/agents"),
    "AdministrationService.GetGlobalIdentity": ("GET", "/api/v1/admin/identity"),
    "AdministrationService.IssueGlobalCredential": ("POST", "/api/v1/admin/credentials"),
    "AdministrationService.ListGlobalCredentials": ("GET", "/api/v1/admin/credentials"),
    "AdministrationService.GetGlobalCredential": ("GET", "/api/v1/admin/credentials/{credential_id}"),
    "AdministrationService.RotateGlobalCredential": ("POST", "/api/v1/admin/credentials/{credential_id}/rotate"),
    "AdministrationService.RevokeGlobalCredential": ("POST", "/api/v1/admin/credentials/{credential_id}/revoke"),
    "AdministrationService.CreateTenant": ("POST", "/api/v1/admin/tenants"),
    "AdministrationService.ListTenants": ("GET", "/api/v1/admin/tenants"),
    "AdministrationService.GetTenant": ("GET", "/api/v1/admin/tenants/{tenant_id}"),
    "AdministrationService.IssueTenantAdmin": ("POST", "/api/v1/admin/tenants/{tenant_id}/admin-credentials"),
    "LoginService.Login": ("POST", "/api/v1/login"),
    "LoginService.GlobalLogin": ("POST", "/api/v1/admin/login"),
    "LoginService.Logout": ("POST", "/api/v1/logout"),
    "LoginAccountService.CreateLoginAccount": ("POST", "/api/v1/login-accounts"),
    "LoginAccountService.ListLoginAccounts": ("GET", "/api/v1/login-accounts"),
    "LoginAccountService.GetLoginAccount": ("GET", "/api/v1/login-accounts/{account_id}"),
    "LoginAccountService.ChangeLoginPassword": ("POST", "/api/v1/login-accounts/{account_id}/password"),
    "LoginAccountService.DisableLoginAccount": ("POST", "/api/v1/login-accounts/{account_id}/disable"),
    "LoginAccountService.CreateGlobalLoginAccount": ("POST", "/api/v1/admin/login-accounts"),
    "LoginAccountService.ListGlobalLoginAccounts": ("GET", "/api/v1/admin/login-accounts"),
    "LoginAccountService.GetGlobalLoginAccount": ("GET", "/api/v1/admin/login-accounts/{account_id}"),
    "LoginAccountService.ChangeGlobalLoginPassword": ("POST", "/api/v1/admin/login-accounts/{account_id}/password"),
    "LoginAccountService.DisableGlobalLoginAccount": ("POST", "/api/v1/admin/login-accounts/{account_id}/disable"),
    "MemoryService.ExecuteCommand": ("POST", "/api/v1/memory/commands"),
    "MemoryService.GetRecord": ("GET", "/api/v1/memory/records/{record_id}"),
    "MemoryService.QueryRecords": ("POST", "/api/v1/memory/query"),
    "MemoryService.QueryRecordsOrdered": ("POST", "/api/v1/memory/query/ordered"),
    "MemoryService.BatchReadRecords": ("POST", "/api/v1/memory/records/batch"),
    "MemoryService.AttachEmbedding": ("POST", "/api/v1/memory/embeddings"),
    "MemoryService.ReviewRecord": ("POST", "/api/v1/memory/reviews"),
    "MemoryService.GetReviewState": ("POST", "/api/v1/memory/reviews/state"),
    "MemoryService.ReadReview": ("POST", "/api/v1/memory/reviews/read"),
    "MemoryService.DiagnoseEligibility": ("POST", "/api/v1/memory/eligibility"),
    "RelationService.ExecuteRelationCommand": ("POST", "/api/v1/memory/relations/commands"),
    "RelationService.ReadRelation": ("POST", "/api/v1/memory/relations/read"),
    "RelationService.InspectRelation": ("POST", "/api/v1/memory/relations/inspect"),
    "RelationService.ReadRelationRevision": ("POST", "/api/v1/memory/relations/revision"),
    "RetrievalService.SearchSemantic": ("POST", "/api/v1/memory/search"),
    "RetrievalService.SearchLexical": ("POST", "/api/v1/memory/search/lexical"),
    "RetrievalService.SearchHybrid": ("POST", "/api/v1/memory/search/hybrid"),
    "RetrievalService.ListRankingProfiles": ("GET", "/api/v1/memory/ranking-profiles"),
    "RetrievalService.SearchGraph": ("POST", "/api/v1/memory/search/graph"),
    "RetrievalService.ListGraphRankingProfiles": ("GET", "/api/v1/memory/graph-ranking-profiles"),
    "RetrievalService.TraverseTypedGraph": ("POST", "/api/v1/memory/graph/typed"),
    "RetrievalService.TraceAncestry": ("POST", "/api/v1/memory/graph"),
    "ConsolidationService.ExecuteConsolidationCommand": ("POST", "/api/v1/memory/consolidation/commands"),
    "ConsolidationService.InspectJob": ("POST", "/api/v1/memory/consolidation/inspect"),
    "ConsolidationService.ReadJobRevision": ("POST", "/api/v1/memory/consolidation/revision"),
    "ConsolidationService.QueryJobs": ("POST", "/api/v1/memory/consolidation/query"),
    "ConsolidationService.ReadJobContext": ("POST", "/api/v1/memory/consolidation/context"),
    "CompanyMemoryService.ListWorkspaces": ("GET", "/api/v1/company/memory/workspaces"),
    "CompanyMemoryService.QueryCompanyRecords": ("POST", "/api/v1/company/memory/query"),
    "CompanyMemoryService.ReadCompanyRecord": ("POST", "/api/v1/company/memory/read"),
    "CompanyMemoryService.QueryCompanyRecordsOrdered": ("POST", "/api/v1/company/memory/query/ordered"),
    "CompanyMemoryService.InspectCompanyRelation": ("POST", "/api/v1/company/memory/relations/inspect"),
    "CompanyMemoryService.ReadCompanyRelationRevision": ("POST", "/api/v1/company/memory/relations/revision"),
    "CompanyRetrievalService.TraceCompanyAncestry": ("POST", "/api/v1/company/memory/graph"),
    "CompanyRetrievalService.TraverseCompanyTypedGraph": ("POST", "/api/v1/company/memory/graph/typed"),
    "SupervisionService.QueryCompanyJobs": ("POST", "/api/v1/company/memory/consolidation/query"),
    "SupervisionService.InspectCompanyJob": ("POST", "/api/v1/company/memory/consolidation/inspect"),
    "SupervisionService.ReadCompanyJobRevision": ("POST", "/api/v1/company/memory/consolidation/revision"),
    "SupervisionService.CancelCompanyJob": ("POST", "/api/v1/company/memory/consolidation/cancel"),
}

VECTOR_ROUTES = {
    "MemoryService.AttachEmbedding",
    "RetrievalService.SearchSemantic",
    "RetrievalService.SearchHybrid",
    "RetrievalService.SearchGraph",
}

HEADERS = {
    "RetrievalService.SearchSemantic": ["X-Qilbee-Ranking-Version", "X-Qilbee-Retrieval-Micros", *WORK_HEADERS],
    "RetrievalService.SearchLexical": WORK_HEADERS,
    "RetrievalService.SearchHybrid": WORK_HEADERS,
    "RetrievalService.SearchGraph": ["X-Qilbee-Retrieval-Micros"],
}

STATUSES = {
    "IdentityService.GetHealth": [400, 500],  # nothing is published; these are what it can answer
    "IdentityService.GetIdentity": [401, 500],
    "IdentityService.IssueCredential": [400, 401, 403, 409, 413, 500],
    "IdentityService.ListCredentials": [400, 401, 403, 409, 413, 500],
    "IdentityService.GetCredential": [400, 401, 403, 500],
    "IdentityService.RotateCredential": [400, 401, 403, 409, 413, 500],
    "IdentityService.RevokeCredential": [400, 401, 403, 409, 413, 500],
    "IdentityService.ReplaceScopeAuthority": [400, 401, 403, 409, 413, 500],
    "MemoryService.AttachEmbedding": [400, 401, 403, 404, 409, 413, 500],
    "RetrievalService.SearchSemantic": [400, 401, 403, 404, 409, 413, 500, 503],
    "RetrievalService.SearchLexical": [400, 401, 403, 404, 409, 413, 500, 503],
    "RetrievalService.SearchHybrid": [400, 401, 403, 404, 409, 413, 500, 503],
    "RetrievalService.ListRankingProfiles": [401, 403, 500],
    "RetrievalService.SearchGraph": [400, 401, 403, 413, 500, 503],
    "RetrievalService.ListGraphRankingProfiles": [401, 403, 500],
    "RetrievalService.TraverseTypedGraph": [400, 401, 403, 413, 500, 503],
    "ConsolidationService.ExecuteConsolidationCommand": [400, 401, 403, 404, 409, 413, 500, 503],
    "ConsolidationService.InspectJob": [400, 401, 403, 404, 409, 413, 500, 503],
    "ConsolidationService.ReadJobRevision": [400, 401, 403, 404, 409, 413, 500, 503],
    "ConsolidationService.QueryJobs": [400, 401, 403, 404, 409, 413, 500, 503],
    "ConsolidationService.ReadJobContext": [400, 401, 403, 404, 409, 413, 500, 503],
    "CompanyMemoryService.ListWorkspaces": [400, 401, 403, 413, 500, 503],
    "CompanyMemoryService.QueryCompanyRecords": [400, 401, 403, 404, 413, 500, 503],
    "CompanyMemoryService.ReadCompanyRecord": [400, 401, 403, 404, 413, 500, 503],
    "CompanyMemoryService.QueryCompanyRecordsOrdered": [400, 401, 403, 404, 413, 500, 503],
    "CompanyMemoryService.InspectCompanyRelation": [400, 401, 403, 404, 413, 500, 503],
    "CompanyMemoryService.ReadCompanyRelationRevision": [400, 401, 403, 404, 413, 500, 503],
    "CompanyRetrievalService.TraceCompanyAncestry": [400, 401, 403, 404, 413, 500, 503],
    "CompanyRetrievalService.TraverseCompanyTypedGraph": [400, 401, 403, 404, 413, 500, 503],
    "SupervisionService.QueryCompanyJobs": [400, 401, 403, 404, 409, 413, 500, 503],
    "SupervisionService.InspectCompanyJob": [400, 401, 403, 404, 409, 413, 500, 503],
    "SupervisionService.ReadCompanyJobRevision": [400, 401, 403, 404, 409, 413, 500, 503],
    "SupervisionService.CancelCompanyJob": [400, 401, 403, 404, 409, 413, 500, 503],
}

CREATED = {
    "IdentityService.IssueCredential",
    "AdministrationService.IssueGlobalCredential",
    "AdministrationService.CreateTenant",
    "AdministrationService.IssueTenantAdmin",
    "LoginAccountService.CreateLoginAccount",
    "LoginAccountService.CreateGlobalLoginAccount",
}

# Routes that need a password worker, and therefore may answer 503.
WITH_WORKER = {
    "LoginService.Login",
    "LoginService.GlobalLogin",
    "LoginAccountService.CreateLoginAccount",
    "LoginAccountService.ChangeLoginPassword",
    "LoginAccountService.CreateGlobalLoginAccount",
    "LoginAccountService.ChangeGlobalLoginPassword",
}

# Routes that take a retrieval slot, and therefore may answer 503.
WITH_SLOT = {
    "MemoryService.QueryRecordsOrdered",
    "MemoryService.BatchReadRecords",
    "RelationService.ExecuteRelationCommand",
    "RelationService.ReadRelation",
    "RelationService.InspectRelation",
    "RelationService.ReadRelationRevision",
    "RetrievalService.SearchSemantic",
    "RetrievalService.SearchLexical",
    "RetrievalService.SearchHybrid",
    "RetrievalService.SearchGraph",
    "RetrievalService.TraverseTypedGraph",
    "RetrievalService.TraceAncestry",
    "ConsolidationService.ExecuteConsolidationCommand",
    "ConsolidationService.InspectJob",
    "ConsolidationService.ReadJobRevision",
    "ConsolidationService.QueryJobs",
    "ConsolidationService.ReadJobContext",
    "CompanyMemoryService.ListWorkspaces",
    "CompanyMemoryService.QueryCompanyRecords",
    "CompanyMemoryService.ReadCompanyRecord",
    "CompanyMemoryService.QueryCompanyRecordsOrdered",
    "CompanyMemoryService.InspectCompanyRelation",
    "CompanyMemoryService.ReadCompanyRelationRevision",
    "CompanyRetrievalService.TraceCompanyAncestry",
    "CompanyRetrievalService.TraverseCompanyTypedGraph",
    "SupervisionService.QueryCompanyJobs",
    "SupervisionService.InspectCompanyJob",
    "SupervisionService.ReadCompanyJobRevision",
    "SupervisionService.CancelCompanyJob",
}


def test_routes_are_the_documented_ones() -> None:
    """Method and path of every route are as documented, and there is no other."""
    assert {name: (route.verb, route.path) for name, route in routes().items()} == DOCUMENTED


@pytest.mark.parametrize("name", DOCUMENTED)
def test_body_is_the_whole_request_of_a_post(name: str) -> None:
    """A POST takes its members from the body, a GET from path and query."""
    assert routes()[name].whole_body == (routes()[name].verb == "POST")


@pytest.mark.parametrize("name", DOCUMENTED)
def test_body_limit(name: str) -> None:
    """Only the routes that take a vector accept more than the ordinary body; those of login take less."""
    expected = VECTOR_BODY if name in VECTOR_ROUTES else 0
    if name.startswith("Login") and routes()[name].whole_body:
        expected = LOGIN_BODY
    assert routes()[name].facts.body_bytes_max == expected


def test_only_logout_needs_no_body() -> None:
    """Every other POST has one."""
    assert [name for name, route in routes().items() if route.facts.body_optional] == ["LoginService.Logout"]


@pytest.mark.parametrize("name", DOCUMENTED)
def test_success_status(name: str) -> None:
    """Only what makes a credential or an account answers 201."""
    assert routes()[name].facts.success_status == (201 if name in CREATED else 0)


def test_only_health_and_login_are_public() -> None:
    """Every other route needs an Authorization header."""
    public = {name for name, route in routes().items() if route.facts.public}
    assert public == {"IdentityService.GetHealth", "LoginService.Login", "LoginService.GlobalLogin"}


def test_health_is_answered_within_two_seconds() -> None:
    """A probe learns soon that a service is away; every other route has the time of the gateway."""
    bounded = {name: route.facts.deadline_ms for name, route in routes().items() if route.facts.deadline_ms}
    assert {"IdentityService.GetHealth": 2_000} == bounded


@pytest.mark.parametrize("name", DOCUMENTED)
def test_response_headers(name: str) -> None:
    """Searches carry the documented headers, other routes none."""
    assert list(routes()[name].facts.response_headers) == HEADERS.get(name, [])


@pytest.mark.parametrize("name", STATUSES)
def test_error_statuses(name: str) -> None:
    """Routes whose error statuses are published declare exactly those."""
    assert list(routes()[name].facts.error_statuses) == STATUSES[name]


@pytest.mark.parametrize("name", DOCUMENTED)
def test_statuses_agree_with_the_route(name: str) -> None:
    """Statuses ascend; 503 stands where a slot or a worker is taken; every route with a body may refuse its size."""
    route = routes()[name]
    statuses = list(route.facts.error_statuses)
    assert statuses == sorted(set(statuses))
    assert (503 in statuses) == (name in WITH_SLOT | WITH_WORKER)
    assert (429 in statuses) == (name in {"LoginService.Login", "LoginService.GlobalLogin"})
    if route.whole_body:
        assert 413 in statuses
    if not route.facts.public:
        assert {401, 500} <= set(statuses)


def test_methods_without_a_route() -> None:
    """For gRPC callers only: storage and its export, the streaming import, and what one process tells of itself."""
    without = {
        f"{service.name}.{method.name}"
        for service in declared().services()
        for method in service.methods
        if declared().http_rule(method) is None
    }
    public = {"ImportService.ImportCommands", "ReplicaService.DigestReplica"}
    assert {name for name in without if not name.startswith(("StorageService.", "ExportService."))} == public
