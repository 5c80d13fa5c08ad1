"""What a call carries beside its message: request id and deadline, from the caller through every hop.

The server wrapper binds them for the thread that serves the call; clients read them with `outgoing_metadata` and
`remaining_s`, so that one request has one id in every log and no hop outlives the caller's patience.
"""

from __future__ import annotations

import threading
import time

from services.runtime.identifiers import new_uuid

REQUEST_ID_KEY = "x-request-id"


class _CallState(threading.local):
    request_id: str = ""
    deadline_at_s: float | None = None


_state = _CallState()


def bind_call(request_id: str, timeout_s: float | None) -> None:
    """Attach a request id and the time that is left (seconds, None for no deadline) to the present thread."""
    _state.request_id = request_id
    _state.deadline_at_s = None if timeout_s is None else time.monotonic() + timeout_s


def release_call() -> None:
    """Detach whatever `bind_call` attached to the present thread."""
    _state.request_id = ""
    _state.deadline_at_s = None


def request_id() -> str:
    """Return the request id of the call that the present thread serves, or a new one outside of a call."""
    return _state.request_id or new_uuid()


def remaining_s(default_s: float) -> float:
    """Return the seconds left for the present call, at most `default_s` and never below zero."""
    if _state.deadline_at_s is None:
        return default_s
    return max(0.0, min(default_s, _state.deadline_at_s - time.monotonic()))


def outgoing_metadata() -> tuple[tuple[str, str], ...]:
    """Return the metadata to send with a call to another service."""
    return ((REQUEST_ID_KEY, _state.request_id),) if _state.request_id else ()
