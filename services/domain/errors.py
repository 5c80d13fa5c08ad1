"""The documented refusals, as a tree of typed errors.

    WaggleError
    ├── InvalidRequest              400 invalid_request
    │   ├── UnsupportedContractVersion  400 unsupported_contract_version
    │   ├── EmbeddingDimensionLimit     400 embedding_dimension_limit
    │   └── RetrievalScanLimit          400 retrieval_scan_limit
    ├── Unauthorized                401 unauthorized
    ├── InvalidLogin                401 invalid_login
    ├── Forbidden                   403 forbidden
    ├── Absent
    │   ├── RouteNotFound           404 not_found
    │   ├── RecordNotFound          404 record_not_found
    │   ├── ReviewNotFound          404 review_not_found
    │   └── TenantNotFound          404 tenant_not_found
    ├── MethodNotAllowed            405 method_not_allowed
    ├── Conflict
    │   ├── RevisionConflict        409 revision_conflict
    │   └── IdempotencyConflict     409 idempotency_conflict
    ├── LoginRateLimited            429 login_rate_limited
    ├── RetrievalBusy               503 retrieval_busy
    ├── LoginBusy                   503 login_busy
    ├── StorageFull                 503 storage_full
    └── InternalError               500 internal_error
        └── StorageInconsistency    500 storage_inconsistency

`reason` is the documented code. Messages are for people; callers branch on `reason`.
"""

from __future__ import annotations

from typing import ClassVar


class WaggleError(Exception):
    """A refusal with a documented code.

    Attributes:
        reason: The documented error code, one of the words of `waggle.common.v1.ErrorReason`.
        message: One sentence for people; holds no secret and no memory content.
        member: Path of the request member at fault, for example "query.limit"; None when no member is.
    """

    reason: ClassVar[str] = "internal_error"

    def __init__(self, message: str, *, member: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.member = member

    def __str__(self) -> str:
        # Not fixed at the start: whoever knows where the faulty value stood puts the rest of the path before it.
        return self.message if self.member is None else f"{self.member}: {self.message}"


class InvalidRequest(WaggleError):
    """The request is malformed or out of bounds."""

    reason = "invalid_request"


class UnsupportedContractVersion(InvalidRequest):
    """contract_version is not the one that the route speaks."""

    reason = "unsupported_contract_version"


class EmbeddingDimensionLimit(InvalidRequest):
    """The dimensions of a space are zero or above the operator's ceiling."""

    reason = "embedding_dimension_limit"


class RetrievalScanLimit(InvalidRequest):
    """scan_bytes_limit is zero or above the operator's ceiling."""

    reason = "retrieval_scan_limit"


class Unauthorized(WaggleError):
    """No, malformed, unknown, expired or revoked credential."""

    reason = "unauthorized"


class InvalidLogin(WaggleError):
    """A login failed; the caller does not learn why."""

    reason = "invalid_login"


class Forbidden(WaggleError):
    """The credential is valid but lacks the capability, the exact scope or the authority."""

    reason = "forbidden"


class Absent(WaggleError):
    """What was asked for does not exist for this caller."""

    reason = "not_found"


class RouteNotFound(Absent):
    """No such route."""


class RecordNotFound(Absent):
    """No such record, relation, relation revision or workspace in the caller's own scope."""

    reason = "record_not_found"


class ReviewNotFound(Absent):
    """No record, or no review decision at that revision."""

    reason = "review_not_found"


class TenantNotFound(Absent):
    """No such company."""

    reason = "tenant_not_found"


class MethodNotAllowed(WaggleError):
    """The route exists with another method."""

    reason = "method_not_allowed"


class Conflict(WaggleError):
    """The request does not fit the present state."""

    reason = "revision_conflict"


class RevisionConflict(Conflict):
    """The expected revision, or a pinned source or endpoint, is no longer current."""


class IdempotencyConflict(Conflict):
    """The idempotency key was used with another command."""

    reason = "idempotency_conflict"


class RetrievalBusy(WaggleError):
    """No admission slot is free."""

    reason = "retrieval_busy"


class LoginRateLimited(WaggleError):
    """Too many failed logins lately."""

    reason = "login_rate_limited"


class LoginBusy(WaggleError):
    """Both password workers are taken."""

    reason = "login_busy"


class StorageFull(WaggleError):
    """The store's disk is nearly full, so nothing is written. The same command can be sent again later."""

    reason = "storage_full"


class InternalError(WaggleError):
    """A failure that the caller cannot mend."""


class StorageInconsistency(InternalError):
    """A stored value, index, history or digest does not agree with its checksum or completeness data.

    Attributes:
        partition: Id of the partition that it was met in, None when that is not known. Never leaves the process.
    """

    reason = "storage_inconsistency"

    def __init__(self, message: str, *, member: str | None = None, partition: bytes | None = None) -> None:
        super().__init__(message, member=member)
        self.partition = partition
