"""Typed errors as gRPC statuses, and back."""

from __future__ import annotations

import grpc
import pytest
from google.rpc import error_details_pb2, status_pb2

from services.domain import errors
from services.runtime.status import CODE_BY_REASON, ERROR_BY_REASON, RpcFailure, error_from_rpc, status_from_error
from waggle.common.v1 import errors_pb2
from waggle.json.v1 import options_pb2

DOCUMENTED = {
    value.GetOptions().Extensions[options_pb2.word]
    for value in errors_pb2.DESCRIPTOR.enum_types_by_name["ErrorReason"].values
    if value.number
}


class FailedCall(grpc.RpcError):
    """What a client sees of a failed call."""

    def __init__(self, code: grpc.StatusCode, text: str, details: bytes | None) -> None:
        self._code, self._text, self._details = code, text, details

    def code(self) -> grpc.StatusCode:
        return self._code

    def details(self) -> str:
        return self._text

    def trailing_metadata(self) -> tuple[tuple[str, bytes], ...]:
        return () if self._details is None else (("grpc-status-details-bin", self._details),)


def test_the_tables_know_exactly_the_documented_reasons() -> None:
    """Neither table misses a word of the proto enum, nor holds another."""
    assert (DOCUMENTED, DOCUMENTED) == (set(CODE_BY_REASON), set(ERROR_BY_REASON))


@pytest.mark.parametrize(
    ("reason", "code"),
    [
        ("unauthorized", "UNAUTHENTICATED"),
        ("forbidden", "PERMISSION_DENIED"),
        ("not_found", "UNIMPLEMENTED"),
        ("method_not_allowed", "UNIMPLEMENTED"),
        ("invalid_request", "INVALID_ARGUMENT"),
        ("unsupported_contract_version", "INVALID_ARGUMENT"),
        ("revision_conflict", "FAILED_PRECONDITION"),
        ("record_not_found", "NOT_FOUND"),
        ("idempotency_conflict", "ALREADY_EXISTS"),
        ("storage_inconsistency", "DATA_LOSS"),
        ("internal_error", "INTERNAL"),
        ("embedding_dimension_limit", "INVALID_ARGUMENT"),
        ("retrieval_scan_limit", "INVALID_ARGUMENT"),
        ("retrieval_busy", "RESOURCE_EXHAUSTED"),
        ("review_not_found", "NOT_FOUND"),
        ("tenant_not_found", "NOT_FOUND"),
        ("invalid_login", "UNAUTHENTICATED"),
        ("login_rate_limited", "RESOURCE_EXHAUSTED"),
        ("login_busy", "RESOURCE_EXHAUSTED"),
        ("storage_full", "RESOURCE_EXHAUSTED"),
    ],
)
def test_each_reason_travels_with_its_code_and_comes_back_typed(reason: str, code: str) -> None:
    """An error sent and received again has the same class, message and member; the code is the documented one."""
    sent = ERROR_BY_REASON[reason]("said why", member="query.limit")
    grpc_code, message, details = status_from_error(sent)
    received = error_from_rpc(FailedCall(grpc_code, message, details))
    assert isinstance(received, errors.WaggleError)
    assert (code, type(sent), "said why", "query.limit") == (
        grpc_code.name,
        type(received),
        received.message,
        received.member,
    )


def test_a_status_carries_an_error_info_of_the_domain_waggle() -> None:
    """Callers in any language find the reason and the member in the ErrorInfo."""
    _, _, details = status_from_error(errors.InvalidRequest("too large", member="limit"))
    info = error_details_pb2.ErrorInfo()
    assert status_pb2.Status.FromString(details).details[0].Unpack(info)
    assert (info.domain, info.reason, dict(info.metadata)) == ("waggle", "invalid_request", {"member": "limit"})


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (errors.InvalidRequest("too large", member="query.limit"), "query.limit: too large"),
        (errors.RecordNotFound("no such record", member="record_id"), "record_id: no such record"),
        (errors.Forbidden("the credential lacks the capability memory_read"), None),
    ],
)
def test_grpc_callers_read_the_sentence_that_http_callers_read(error: errors.WaggleError, text: str | None) -> None:
    """`details()` names the member at fault; the message inside of the details is the same, as clients demand."""
    _, message, details = status_from_error(error)
    assert (text or error.message) == message == str(error) == status_pb2.Status.FromString(details).message


@pytest.mark.parametrize("code", [grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.ABORTED])
def test_a_call_that_failed_without_a_reason_keeps_its_code(code: grpc.StatusCode) -> None:
    """A service that cannot be reached, and storage's conflict, are not documented errors."""
    failure = error_from_rpc(FailedCall(code, "no connection", None))
    assert isinstance(failure, RpcFailure)
    assert code is failure.code


def test_a_request_stream_that_ended_with_its_call_was_cancelled() -> None:
    """GRPC raises an error without a status from the stream of a call that is over."""
    failure = error_from_rpc(grpc.RpcError())
    assert isinstance(failure, RpcFailure)
    assert grpc.StatusCode.CANCELLED is failure.code


def test_a_path_that_grows_is_told_once() -> None:
    """Whoever knows where the value stood puts the rest of the path before it; the sentence follows."""
    error = errors.RevisionConflict("another revision", member="expected_revision")
    error.member = f"operation.{error.member}"
    _, message, details = status_from_error(error)
    assert "operation.expected_revision: another revision" == message == str(error)
    received = error_from_rpc(FailedCall(grpc.StatusCode.ABORTED, message, details))
    assert ("another revision", "operation.expected_revision") == (received.message, received.member)  # type: ignore[union-attr]
    error.member = None
    assert "another revision" == str(error)


def test_a_leaf_wins_over_the_base_that_shares_its_reason() -> None:
    """The class of revision_conflict is the one that services raise."""
    assert [errors.RevisionConflict, errors.RouteNotFound, errors.InternalError] == [
        ERROR_BY_REASON[reason] for reason in ("revision_conflict", "not_found", "internal_error")
    ]
