"""Histories of credentials and login accounts: complete, in order, and leading to what is there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from services.audit.stored_values import require
from services.identity.credentials import CAPABILITIES, Credential, ScopeAuthority, ScopeAuthorityEvent
from services.identity.global_credentials import GLOBAL_CAPABILITIES, GlobalCredential
from services.identity.history import Event

# HMAC-SHA-256, see `identity.tokens`.
VERIFIER_BYTES: Final = 32
_FIRST_ACTIONS: Final = frozenset(
    {
        "bootstrapped",
        "issued",
        "tenant_registered_by_global_authority",
        "admin_issued_by_global_authority",
        "login_account_created",
    }
)
_LATER_ACTIONS: Final = frozenset(
    {
        "rotated",
        "revoked",
        "scope_authority_changed",
        "recovered_by_local_operator",
        "login_password_changed",
        "login_account_disabled",
    }
)
_ENDING_ACTIONS: Final = frozenset({"revoked", "login_account_disabled"})


def check_authority(credential: Credential | GlobalCredential) -> None:
    """Check what holds of any credential. Raises Unsound."""
    require(len(credential.verifier) == VERIFIER_BYTES, "has no usable verifier")
    known = GLOBAL_CAPABILITIES if isinstance(credential, GlobalCredential) else CAPABILITIES
    require(set(credential.spec.capabilities) <= set(known), "has a capability that there is not")
    check_history(credential.revision, credential.history, credential.revoked_at_millis)


def check_authority_changes(credential: Credential) -> None:
    """Check that each change of scope authority begins where the one before ended. Raises Unsound."""
    present: ScopeAuthority | None = None
    for event in credential.history:
        names_change = event.action == "scope_authority_changed"
        require(names_change == isinstance(event, ScopeAuthorityEvent), "has a broken history")
        if isinstance(event, ScopeAuthorityEvent):
            require(present in (None, event.previous), "has a broken history")
            present = event.current
    require(present in (None, credential.spec.authority), "has another scope authority than its history says")


def check_history(revision: int, history: Sequence[Event], ended_at_millis: int | None) -> None:
    """Check what holds of any history. Raises Unsound."""
    revisions = [event.revision for event in history]
    require(len(history) == revision and revisions == list(range(1, len(history) + 1)), "has a broken history")
    times = [event.at_millis for event in history]
    require(bool(times) and times == sorted(times), "has a history that goes back in time")
    actions = [event.action for event in history]
    require(actions[0] in _FIRST_ACTIONS and set(actions[1:]) <= _LATER_ACTIONS, "has a broken history")
    ended = history[-1].at_millis if actions[-1] in _ENDING_ACTIONS else None
    require(ended_at_millis == ended, "ended at another time than its history says")
