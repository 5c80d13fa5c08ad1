"""The documented error body, and which error a failed call becomes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import grpc
import orjson

from services.domain.errors import InternalError, InvalidRequest, RouteNotFound, WaggleError
from services.gateway.descriptors import Descriptors
from services.runtime.status import error_from_info, error_info_in

CONTRACT_VERSION = 1
INTERNAL_TEXT = "the request failed inside the service; nothing is known about its effect"

REASON_ENUM = "waggle.common.v1.ErrorReason"

Trailers = Iterable[tuple[str, str | bytes]]


class BodyTooLarge(InvalidRequest):
    """The request body is over the route's limit. HTTP 413 `invalid_request`."""


class ErrorEnvelope:
    """Turns errors into HTTP answers; statuses come from the descriptors of the documented codes."""

    def __init__(self, descriptors: Descriptors) -> None:
        self._status_by_reason = descriptors.http_statuses(descriptors.pool.FindEnumTypeByName(REASON_ENUM))

    @property
    def status_by_reason(self) -> Mapping[str, int]:
        """Documented code -> HTTP status."""
        return self._status_by_reason

    def status(self, error: WaggleError) -> int:
        """HTTP status that the error travels with."""
        if isinstance(error, BodyTooLarge):
            return 413
        return self._status_by_reason[error.reason]

    def body(self, error: WaggleError) -> bytes:
        """The envelope. The message of an internal error is always the same text."""
        message = INTERNAL_TEXT if error.reason == InternalError.reason else str(error)
        return envelope_bytes(error.reason, message)


def envelope_bytes(code: str, message: str) -> bytes:
    """`{"contract_version": 1, "error": {"code", "message"}}` as UTF-8 JSON."""
    return orjson.dumps({"contract_version": CONTRACT_VERSION, "error": {"code": code, "message": message}})


def error_from_status(code: grpc.StatusCode, trailers: Trailers) -> WaggleError:
    """Turn the status of a failed call into the error that the caller is told.

    Args:
        code: The call's status code.
        trailers: The call's trailing metadata.

    Returns:
        The documented error of the call's ErrorInfo; `not_found` for a method that the service does not have;
        `internal_error` for anything else, such as UNAVAILABLE or DEADLINE_EXCEEDED.
    """
    found = error_info_in(trailers)
    if found is not None:
        error = error_from_info(*found)
        if code is grpc.StatusCode.RESOURCE_EXHAUSTED and error.reason == InvalidRequest.reason:
            return BodyTooLarge(error.message, member=error.member)
        return error
    if code is grpc.StatusCode.UNIMPLEMENTED:
        return RouteNotFound("no such route")
    return InternalError(INTERNAL_TEXT)
