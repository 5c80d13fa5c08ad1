"""Every documented error code of the routes that are declared can be said."""

from __future__ import annotations

from tests.unit.protos.declared import declared

DOCUMENTED = {
    "unauthorized": 401,
    "forbidden": 403,
    "not_found": 404,
    "method_not_allowed": 405,
    "invalid_request": 400,
    "unsupported_contract_version": 400,
    "revision_conflict": 409,
    "record_not_found": 404,
    "idempotency_conflict": 409,
    "storage_inconsistency": 500,
    "internal_error": 500,
    "embedding_dimension_limit": 400,
    "retrieval_scan_limit": 400,
    "retrieval_busy": 503,
    "review_not_found": 404,
    "tenant_not_found": 404,
    "invalid_login": 401,
    "login_rate_limited": 429,
    "login_busy": 503,
    "storage_full": 503,
}


def test_reasons_are_the_documented_codes_with_their_status() -> None:
    """The reasons are the documented codes, each with the HTTP status that it travels with."""
    enum = declared().pool.FindEnumTypeByName("waggle.common.v1.ErrorReason")
    assert declared().http_statuses(enum) == DOCUMENTED
