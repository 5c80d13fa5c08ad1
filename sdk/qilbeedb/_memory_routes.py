"""What all parts of the memory client share: one operation, repeated where the contract makes that safe."""

from __future__ import annotations

import random
import time
from typing import Any, Callable, TypeVar

from qilbeedb._checks import NAME
from qilbeedb._errors import UNKNOWN, ConsumerAPIError, ConsumerError, ConsumerTransportError, refuse
from qilbeedb._session import REQUEST_BYTES_MAX, Session
from qilbeedb._strict_json import JsonObject
from qilbeedb._transport import ApiKey

T = TypeVar("T")

RETRIES_MAX = 10
_FIRST_DELAY_S = 0.05
_LONGEST_DELAY_S = 2.0


class MemoryRoutes:
    """A session that repeats an operation after a lost answer or when the server was busy.

    Reads change nothing, and every command carries its idempotency key, so repeating either unchanged is safe.
    """

    def __init__(
        self,
        base_url: str,
        api_key: ApiKey,
        *,
        tenant_id: str,
        subject_id: str,
        scope: Any,
        timeout: float = 10.0,
        retries: int = 2,
        response_bytes_max: int = 16 * 1024 * 1024,
    ) -> None:
        if isinstance(retries, bool) or not isinstance(retries, int) or not 0 <= retries <= RETRIES_MAX:
            raise ValueError("retries must be 0 to 10")
        self._session = Session(
            base_url,
            api_key,
            tenant_id=tenant_id,
            subject_id=subject_id,
            scope=scope,
            timeout_s=timeout,
            response_bytes_max=response_bytes_max,
        )
        self._retries = retries

    def _read(
        self,
        path: str,
        members: JsonObject,
        payload: str,
        *,
        echoes_scope: bool = True,
        bytes_max: int = REQUEST_BYTES_MAX,
    ) -> Any:
        def attempt() -> Any:
            return self._session.post(path, members, payload, echoes_scope=echoes_scope, bytes_max=bytes_max)

        with self._session.operation():
            return self._repeat(attempt)

    def _command(
        self, path: str, members: JsonObject, *, idempotency_key: str, bytes_max: int = REQUEST_BYTES_MAX
    ) -> Any:
        def attempt() -> Any:
            return self._session.post(
                path, members, "receipt", is_command=True, echoes_scope=False, bytes_max=bytes_max
            )

        with self._session.operation():
            NAME(idempotency_key)
            return self._repeat(attempt)

    def _repeat(self, attempt: Callable[[], T]) -> T:
        delay_s = _FIRST_DELAY_S
        may_have_happened = False
        for remaining in range(self._retries, -1, -1):
            try:
                return attempt()
            except (ConsumerTransportError, ConsumerAPIError) as error:
                if not remaining or not _is_passing(error):
                    # A refusal of a repetition does not say that the first, still on its way, will be refused too.
                    if may_have_happened:
                        error.checkpoint_outcome = UNKNOWN
                    raise
                may_have_happened = may_have_happened or _may_have_happened(error)
            time.sleep(delay_s * random.uniform(0.5, 1.0))  # noqa: S311 - spreads clients, guards nothing
            delay_s = min(_LONGEST_DELAY_S, 2 * delay_s)
        raise AssertionError("unreachable: the last attempt returns or raises")

    def _check_receipt(self, receipt: JsonObject, *, idempotency_key: str, author: JsonObject) -> None:
        if receipt["idempotency_key"] != idempotency_key or author["subject_id"] != self._session.subject_id:
            refuse()


def _is_passing(error: ConsumerError) -> bool:
    return isinstance(error, ConsumerTransportError) or error.code == "retrieval_busy"


def _may_have_happened(error: ConsumerError) -> bool:
    return error.checkpoint_outcome == UNKNOWN and isinstance(error, ConsumerTransportError)
