"""Authorization of one request: the one place where it is decided, for every service, on every call.

    token = bearer_token(context.invocation_metadata())
    first = authority.first_round(token, scope)
    ... read first.keys (and what else the request needs) in one snapshot ...
    principal = authority.authorize(transaction, token, capabilities=("memory_read",), scope=scope)

Order: authenticate, capability, exact scope, all before any data is looked at. Revocation, rotation and expiry are
judged on the credential's value in the request's own snapshot and on the store's clock, so nothing here can be stale:
what is remembered between requests is only what can never change (company and subject of a credential id), used to
guess what to read, and the parsed form of exact stored bytes.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Generic, Protocol, TypeVar

from services.domain import keys
from services.domain.errors import Forbidden, StorageInconsistency, Unauthorized
from services.domain.records import Author
from services.domain.scope import IDENTITY_PARTITION, Scope, Workspace, workspace_for
from services.identity.credentials import Credential, decode_credential
from services.identity.tokens import VERIFIER_KEY_BYTES, Token, is_verified, parse_authorization

AUTHORIZATION_KEY: Final = "authorization"

_FACTS_MAX: Final = 65_536
_PARSED_BYTES_MAX: Final = 32 * 1024 * 1024
# Stored JSON takes several times its size once parsed; the fixed part keeps many small ones in bounds too.
_PARSED_OVERHEAD_BYTES: Final = 2048

Value = TypeVar("Value")


class CredentialReader(Protocol):
    """What authorization needs of a transaction."""

    @property
    def clock_ms(self) -> int:
        """The store's clock, read together with the snapshot."""
        ...

    def get(self, partition: bytes, key: bytes) -> bytes | None:
        """Return a value of the snapshot, None when absent."""
        ...


@dataclass(frozen=True, slots=True)
class Principal:
    """An authorized caller."""

    credential: Credential

    @property
    def company_id(self) -> str:
        """Company of the credential; the only source of it."""
        return self.credential.tenant_id

    @property
    def subject_id(self) -> str:
        """Authenticated subject."""
        return self.credential.spec.subject_id

    @property
    def credential_id(self) -> str:
        """Acting credential."""
        return self.credential.credential_id

    @property
    def credential_revision(self) -> int:
        """Revision of the acting credential at which it was authorized."""
        return self.credential.revision

    @property
    def author(self) -> Author:
        """How the caller stands in what it writes."""
        return Author(self.credential_id, self.subject_id)

    def workspace(self, scope: Scope) -> Workspace:
        """The workspace that the caller reaches through a scope."""
        return workspace_for(self.company_id, scope, self.subject_id)


@dataclass(frozen=True, slots=True)
class FirstRound:
    """What to read first.

    Attributes:
        keys: Partition id to keys: the credential, and for a known caller what registration and partition need.
        workspace: The caller's workspace when its credential was seen before, else None: then the partition is only
            known after authorization and costs a second round.
        subject_id: The caller's subject, known exactly when the workspace is.
    """

    keys: dict[bytes, list[bytes]]
    workspace: Workspace | None
    subject_id: str | None = None


def bearer_token(metadata: Iterable[tuple[str, str | bytes]]) -> Token:
    """Find the company key in the metadata of a call.

    Raises:
        Unauthorized: There is no `authorization` entry, more than one, or it holds no company key.
    """
    values = [value for key, value in metadata if key == AUTHORIZATION_KEY]
    if len(values) > 1 or (values and not isinstance(values[0], str)):
        raise Unauthorized("exactly one bearer token is required")
    value = values[0] if values else None
    return parse_authorization(value if isinstance(value, str) else None)


class Authority:
    """Decides requests. One for each process; safe to use from many threads."""

    def __init__(self, verifier_key: bytes) -> None:
        """Keep the key of the verifiers, 32 bytes.

        Raises:
            ValueError: The key has another length.
        """
        if len(verifier_key) != VERIFIER_KEY_BYTES:
            raise ValueError(f"a verifier key has {VERIFIER_KEY_BYTES} bytes, not {len(verifier_key)}")
        self._verifier_key = verifier_key
        self._facts: _BoundedCache[tuple[str, str]] = _BoundedCache(_FACTS_MAX)
        self._parsed: _BoundedCache[tuple[bytes, Credential]] = _BoundedCache(_PARSED_BYTES_MAX)

    def first_round(self, token: Token, scope: Scope | None, *, registers: bool = False) -> FirstRound:
        """Say what a request should read in its first round.

        Args:
            token: As presented; it is not verified yet, so nothing that is read may be looked at before `authorize`.
            scope: Scope of the request, None for routes without one.
            registers: The request may register its agent and workspace (`directory`), so read those entries too.
        """
        identity_keys = [keys.credential_key(token.credential_id)]
        wanted = {IDENTITY_PARTITION: identity_keys}
        facts = self._facts.get(token.credential_id)
        if facts is None or scope is None:
            return FirstRound(wanted, None)
        company_id, subject_id = facts
        workspace = workspace_for(company_id, scope, subject_id)
        partition_keys: list[bytes] = []
        if registers:
            identity_keys.append(keys.agent_key(company_id, scope.agent_id))
            partition_keys.append(keys.WORKSPACE)
        wanted[workspace.partition] = partition_keys
        return FirstRound(wanted, workspace, subject_id)

    def authorize(
        self, reader: CredentialReader, token: Token, *, capabilities: Sequence[str] = (), scope: Scope | None = None
    ) -> Principal:
        """Authorize a request inside its own snapshot; the credential joins the transaction's expectations.

        Args:
            reader: The transaction.
            token: As presented.
            capabilities: All of these are needed.
            scope: Must be allowed exactly; None for routes without a scope.

        Raises:
            Unauthorized: Unknown, rotated away, revoked or expired.
            Forbidden: Without a needed capability, or the scope is not allowed.
            StorageInconsistency: The stored credential cannot be read.
        """
        stored = reader.get(IDENTITY_PARTITION, keys.credential_key(token.credential_id))
        return self.authorize_stored(stored, token, now_ms=reader.clock_ms, capabilities=capabilities, scope=scope)

    def authorize_stored(
        self,
        stored: bytes | None,
        token: Token,
        *,
        now_ms: int,
        capabilities: Sequence[str] = (),
        scope: Scope | None = None,
    ) -> Principal:
        """`authorize` for callers that read the credential's value (None for absent) and the clock themselves."""
        credential = self._authenticate(stored, token, now_ms)
        for capability in capabilities:
            if capability not in credential.held_capabilities:
                raise Forbidden(f"the credential lacks the capability {capability}")
        if scope is not None and not credential.allows(scope):
            raise Forbidden("the credential does not reach this scope")
        return Principal(credential)

    def _authenticate(self, stored: bytes | None, token: Token, now_ms: int) -> Credential:
        if stored is None:
            raise Unauthorized("a valid bearer token is required")
        credential = self._credential(token.credential_id, stored)
        # The secret comes first: only its holder may learn that a credential is revoked or has expired.
        if not is_verified(self._verifier_key, token, credential.verifier) or not credential.is_active(now_ms):
            raise Unauthorized("a valid bearer token is required")
        return credential

    def _credential(self, credential_id: str, stored: bytes) -> Credential:
        cached = self._parsed.get(credential_id)
        if cached is not None and cached[0] == stored:
            return cached[1]
        credential = decode_credential(stored)
        if credential.credential_id != credential_id:
            raise StorageInconsistency("a stored credential lies under the key of another")
        self._parsed.put(credential_id, (stored, credential), 4 * len(stored) + _PARSED_OVERHEAD_BYTES)
        self._facts.put(credential_id, (credential.tenant_id, credential.spec.subject_id), 1)
        return credential


class _BoundedCache(Generic[Value]):
    """A dict that forgets what was put first once the weights of its values exceed a bound."""

    def __init__(self, weight_max: int) -> None:
        self._weight_max = weight_max
        self._weight = 0
        self._entries: dict[str, tuple[Value, int]] = {}
        self._lock = threading.Lock()

    def get(self, key: str) -> Value | None:
        entry = self._entries.get(key)
        return None if entry is None else entry[0]

    def put(self, key: str, value: Value, weight: int) -> None:
        with self._lock:
            previous = self._entries.pop(key, None)
            if previous is not None:
                self._weight -= previous[1]
            self._entries[key] = (value, weight)
            self._weight += weight
            while self._weight > self._weight_max and len(self._entries) > 1:
                oldest = next(iter(self._entries))
                self._weight -= self._entries.pop(oldest)[1]
