"""Typed errors as gRPC statuses, and back.

Every refusal travels as a `google.rpc.Status` with an `ErrorInfo` of the domain "waggle": its reason is the documented
code, its metadata names the member at fault. Anything that is not a typed error becomes INTERNAL with a fixed text and
the request id; what really happened is in the log only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, cast

import grpc
from google.protobuf import any_pb2
from google.rpc import error_details_pb2, status_pb2

from services.domain.errors import InternalError, WaggleError

ERROR_DOMAIN: Final = "waggle"
STATUS_DETAILS_KEY: Final = "grpc-status-details-bin"

CODE_BY_REASON: Final[dict[str, grpc.StatusCode]] = {
    "unauthorized": grpc.StatusCode.UNAUTHENTICATED,
    "forbidden": grpc.StatusCode.PERMISSION_DENIED,
    "not_found": grpc.StatusCode.UNIMPLEMENTED,
    "method_not_allowed": grpc.StatusCode.UNIMPLEMENTED,
    "invalid_request": grpc.StatusCode.INVALID_ARGUMENT,
    "unsupported_contract_version": grpc.StatusCode.INVALID_ARGUMENT,
    "revision_conflict": grpc.StatusCode.FAILED_PRECONDITION,
    "record_not_found": grpc.StatusCode.NOT_FOUND,
    "idempotency_conflict": grpc.StatusCode.ALREADY_EXISTS,
    "storage_inconsistency": grpc.StatusCode.DATA_LOSS,
    "internal_error": grpc.StatusCode.INTERNAL,
    "embedding_dimension_limit": grpc.StatusCode.INVALID_ARGUMENT,
    "retrieval_scan_limit": grpc.StatusCode.INVALID_ARGUMENT,
    "retrieval_busy": grpc.StatusCode.RESOURCE_EXHAUSTED,
    "review_not_found": grpc.StatusCode.NOT_FOUND,
    "tenant_not_found": grpc.StatusCode.NOT_FOUND,
    "invalid_login": grpc.StatusCode.UNAUTHENTICATED,
    "login_rate_limited": grpc.StatusCode.RESOURCE_EXHAUSTED,
    "login_busy": grpc.StatusCode.RESOURCE_EXHAUSTED,
    "storage_full": grpc.StatusCode.RESOURCE_EXHAUSTED,
}
"""One row for each documented code."""

UNAVAILABLE_TEXT: Final = "a service that this request needs cannot be reached"
DEADLINE_TEXT: Final = "the request took longer than its deadline allows"


class RpcFailure(Exception):
    """A failure that has a gRPC code but no documented reason of its own, such as storage's ABORTED.

    Attributes:
        code: The status code that travels.
        message: One sentence, no request content.
    """

    def __init__(self, code: grpc.StatusCode, message: str) -> None:
        super().__init__(f"{code.name}: {message}")
        self.code = code
        self.message = message


def _subclasses(root: type[WaggleError]) -> Iterator[type[WaggleError]]:
    yield root
    for child in root.__subclasses__():
        yield from _subclasses(child)


def _class_by_reason() -> dict[str, type[WaggleError]]:
    # Bases come before what they hold: a reason that a base shares with its leaf belongs to the leaf.
    return {cls.reason: cls for cls in _subclasses(WaggleError)}


ERROR_BY_REASON: Final[dict[str, type[WaggleError]]] = _class_by_reason()
"""The class of each documented code."""


def status_from_error(error: WaggleError) -> tuple[grpc.StatusCode, str, bytes]:
    """Turn a typed error into what a gRPC server sends.

    Returns:
        Code, message, and the serialized `google.rpc.Status` for the trailing metadata `grpc-status-details-bin`. The
        message begins with the member at fault, as over HTTP, since many callers look at nothing else.
    """
    code, message = CODE_BY_REASON[error.reason], str(error)
    metadata = {} if error.member is None else {"member": error.member}
    return code, message, _status_bytes(code, message, error.reason, metadata)


def status_from_failure(code: grpc.StatusCode, message: str) -> tuple[grpc.StatusCode, str, bytes]:
    """The same for a failure without a documented reason of its own: its reason is `internal_error`."""
    return code, message, _status_bytes(code, message, InternalError.reason, {})


def _status_bytes(code: grpc.StatusCode, message: str, reason: str, metadata: dict[str, str]) -> bytes:
    info = error_details_pb2.ErrorInfo(reason=reason, domain=ERROR_DOMAIN, metadata=metadata)
    detail = any_pb2.Any()
    detail.Pack(info)
    number: int = code.value[0]
    serialized: bytes = status_pb2.Status(code=number, message=message, details=[detail]).SerializeToString()
    return serialized


def _call_of(error: grpc.RpcError) -> grpc.Call:
    # What gRPC raises from a call is the finished call itself; the types do not say so.
    return cast(grpc.Call, error)


def error_info(error: grpc.RpcError) -> tuple[error_details_pb2.ErrorInfo, str] | None:
    """Return the `ErrorInfo` of the domain "waggle" and the message that a failed call carries, or None."""
    return error_info_in(_call_of(error).trailing_metadata() or ())


def error_info_in(trailers: Iterable[tuple[str, str | bytes]]) -> tuple[error_details_pb2.ErrorInfo, str] | None:
    """Return the same from the trailing metadata of a failed call."""
    for key, value in trailers:
        if key == STATUS_DETAILS_KEY and isinstance(value, bytes):
            status = status_pb2.Status.FromString(value)
            for detail in status.details:
                info = error_details_pb2.ErrorInfo()
                if detail.Unpack(info) and info.domain == ERROR_DOMAIN:
                    return info, status.message
    return None


def error_from_info(info: error_details_pb2.ErrorInfo, message: str) -> WaggleError:
    """The error that `status_from_error` turned into this ErrorInfo and message."""
    member = info.metadata.get("member")
    text = message if member is None else message.removeprefix(f"{member}: ")
    return ERROR_BY_REASON.get(info.reason, InternalError)(text, member=member)


def error_from_rpc(error: grpc.RpcError) -> WaggleError | RpcFailure:
    """Turn a failed call back into the typed error that the service raised.

    Returns:
        The documented error, or RpcFailure when the call failed without one: not reached, deadline, cancelled,
        ABORTED. Raise it `from` the RpcError.
    """
    if not hasattr(error, "code"):
        # What a request stream raises in the server once its call is over has no status.
        return RpcFailure(grpc.StatusCode.CANCELLED, grpc.StatusCode.CANCELLED.name)
    call = _call_of(error)
    code = call.code()
    found = error_info(error)
    if found is None or (found[0].reason == InternalError.reason and code is not grpc.StatusCode.INTERNAL):
        return RpcFailure(code, call.details() or code.name)
    return error_from_info(*found)
