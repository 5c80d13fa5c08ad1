"""Leases: who may act on a running attempt, and until when.

One predicate decides for every verb. A lease can be used while claimed_at <= now < expires_at, under the storage
incarnation in which it was claimed, by the credential that claimed it, with the fence of that attempt. Renewal moves
the end, never past claimed_at + max_attempt_millis, and never brings a lease back.
"""

from __future__ import annotations

from dataclasses import dataclass

from services.domain.errors import RevisionConflict


@dataclass(frozen=True, slots=True)
class Lease:
    """The lease of an attempt; times in milliseconds since the Unix epoch.

    Attributes:
        credential_id: The credential that claimed.
        fence: Names exactly this attempt.
        incarnation: The opening of storage in which it was claimed.
        claimed_at_millis: First instant at which it can be used.
        expires_at_millis: First instant at which it no longer can.
    """

    credential_id: str
    fence: str
    incarnation: str
    claimed_at_millis: int
    expires_at_millis: int


@dataclass(frozen=True, slots=True)
class LeaseClaim:
    """What a caller presents to use a lease: its authenticated credential, and the fence that it was given."""

    credential_id: str
    fence: str


@dataclass(frozen=True, slots=True)
class Moment:
    """When and under which opening of storage something is judged."""

    now_ms: int
    incarnation: str


def is_lease_active(lease: Lease, moment: Moment) -> bool:
    """Whether the lease can be used at all, by whoever holds it."""
    in_time = lease.claimed_at_millis <= moment.now_ms < lease.expires_at_millis
    return in_time and lease.incarnation == moment.incarnation


def check_lease(lease: Lease, claim: LeaseClaim, moment: Moment) -> None:
    """Check that the caller may use the lease now.

    Raises:
        RevisionConflict: Another fence or credential, another incarnation, or the lease has ended. One refusal for all,
            so that it tells nothing about the attempt of somebody else.
    """
    is_holder = claim.fence == lease.fence and claim.credential_id == lease.credential_id
    if not is_holder or not is_lease_active(lease, moment):
        raise RevisionConflict("the lease is not, or no longer, the caller's to use", member="fence")


def first_expiry(claimed_at_millis: int, *, lease_millis: int) -> int:
    """When a lease ends that is never renewed."""
    return claimed_at_millis + lease_millis


def renewed_expiry(lease: Lease, now_ms: int, *, lease_millis: int, max_attempt_millis: int) -> int:
    """When the lease ends once it is renewed now: lease_millis from now, but never past the end of the attempt.

    Raises:
        RevisionConflict: It would not end later than it does.
    """
    hard_deadline = lease.claimed_at_millis + max_attempt_millis
    expiry = min(now_ms + lease_millis, hard_deadline)
    if expiry <= lease.expires_at_millis:
        raise RevisionConflict("the lease would not end later than it does", member="fence")
    return expiry
