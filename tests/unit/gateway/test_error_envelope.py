"""Failed calls and refusals as the documented envelope."""

from __future__ import annotations

import json

import grpc
import pytest

from services.domain.errors import (
    IdempotencyConflict,
    InternalError,
    InvalidRequest,
    RetrievalBusy,
    RouteNotFound,
    StorageFull,
    StorageInconsistency,
    WaggleError,
)
from services.gateway.descriptors import Descriptors
from services.gateway.error_envelope import INTERNAL_TEXT, BodyTooLarge, ErrorEnvelope, error_from_status
from services.runtime.status import ERROR_BY_REASON, STATUS_DETAILS_KEY, status_from_error, status_from_failure

ENVELOPE = ErrorEnvelope(Descriptors.load())


def sent(error: WaggleError) -> WaggleError:
    """The error after a journey as a gRPC status."""
    code, _, details = status_from_error(error)
    return error_from_status(code, [("other", "x"), (STATUS_DETAILS_KEY, details)])


@pytest.mark.parametrize("reason", sorted(ERROR_BY_REASON))
def test_every_documented_code_has_a_status_and_survives_the_journey(reason: str) -> None:
    """Reason, message and member arrive as they were raised."""
    arrived = sent(ERROR_BY_REASON[reason]("why", member="query.limit"))
    assert (type(arrived), arrived.message, arrived.member) == (ERROR_BY_REASON[reason], "why", "query.limit")
    assert 400 <= ENVELOPE.status(arrived) <= 503


def test_the_envelope_is_closed_and_names_the_member() -> None:
    """Exactly the documented members at both levels."""
    body = json.loads(ENVELOPE.body(sent(InvalidRequest("must be at most 100", member="query.limit"))))
    assert body == {
        "contract_version": 1,
        "error": {"code": "invalid_request", "message": "query.limit: must be at most 100"},
    }


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (IdempotencyConflict("x"), 409),
        (RetrievalBusy("x"), 503),
        (StorageFull("x"), 503),
        (StorageInconsistency("x"), 500),
        (BodyTooLarge("x"), 413),
        (RouteNotFound("x"), 404),
    ],
)
def test_statuses_are_the_documented_ones(error: WaggleError, status: int) -> None:
    """They come from the options of the reasons; 413 is the body limit's own."""
    assert ENVELOPE.status(error) == status


@pytest.mark.parametrize(
    "code",
    [
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.UNKNOWN,
        grpc.StatusCode.INTERNAL,
        grpc.StatusCode.ABORTED,
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        grpc.StatusCode.CANCELLED,
    ],
)
def test_a_failure_without_a_documented_code_is_an_internal_error(code: grpc.StatusCode) -> None:
    """Nothing of what the transport says reaches the client."""
    error = error_from_status(code, [])
    assert type(error) is InternalError
    assert json.loads(ENVELOPE.body(error))["error"] == {"code": "internal_error", "message": INTERNAL_TEXT}


def test_the_text_of_an_internal_error_stays_inside() -> None:
    """Also when a service sent one with its code."""
    code, _, details = status_from_failure(grpc.StatusCode.INTERNAL, "/var/lib/secret path")
    error = error_from_status(code, [(STATUS_DETAILS_KEY, details)])
    assert b"secret" not in ENVELOPE.body(error)


def test_a_message_that_the_service_found_too_large_is_413() -> None:
    """The documented code with RESOURCE_EXHAUSTED is the size, never 429."""
    _, _, details = status_from_error(InvalidRequest("the message is over 67108864 bytes"))
    error = error_from_status(grpc.StatusCode.RESOURCE_EXHAUSTED, [(STATUS_DETAILS_KEY, details)])
    assert ENVELOPE.status(error) == 413


def test_a_method_that_the_service_lacks_is_no_route() -> None:
    """An older service behind a newer descriptor set."""
    assert type(error_from_status(grpc.StatusCode.UNIMPLEMENTED, [])) is RouteNotFound
