"""Authorization of one request: the one place where it is decided, for every service, on every call.

    token = bearer_token(context.invocation_metadata())
    first = authority.first_round(token, scope)
    ... read first.keys (and what else the request needs) in one snapshot ...
    principal = authority.authorize(transaction, token, capabilities=("memory_read",), scope=scope)

Order: authenticate, capability, exact scope, all before any data is looked at. Revocation, rotation and expiry are
judged on the credential's value in the request's own snapshot and on the store's clock, so nothing here can be stale:
what is remembered between requests is only what can never change (company and subject of a credential id), used to
guess what to read, and the parsed form of exact stored bytes.

Keys and login sessions are decided alike; a session acts with its credential. Those of the wrong authority are told
403 once they are known to be valid: global ones on company routes, those of companies on global administration.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from services.domain import keys
from services.domain.errors import Forbidden, StorageInconsistency, Unauthorized
from services.domain.records import Author
from services.domain.scope import IDENTITY_PARTITION, Scope, Workspace, workspace_for
from services.identity.bounded_cache import BoundedCache
from services.identity.credentials import Credential, decode_credential
from services.identity.global_credentials import GlobalCredential, decode_global_credential
from services.identity.sessions import decode_session
from services.identity.tokens import VERIFIER_KEY_BYTES, Token, is_verified, parse_authorization

AUTHORIZATION_KEY: Final = "authorization"

_REFUSED: Final = "a valid bearer token is required"
_FACTS_MAX: Final = 65_536
_PARSED_BYTES_MAX: Final = 32 * 1024 * 1024
# Stored JSON takes several times its size once parsed; the fixed part keeps many small ones in bounds too.
_PARSED_OVERHEAD_BYTES: Final = 2048


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
class GlobalPrincipal:
    """An authorized caller of global administration."""

    credential: GlobalCredential

    @property
    def credential_id(self) -> str:
        """Acting global credential."""
        return self.credential.credential_id


@dataclass(frozen=True, slots=True)
class FirstRound:
    """What to read first.

    Attributes:
        keys: Partition id to keys: first in the identity partition the credential, then for a known caller what
            registration needs, last the session when the token is one.
        workspace: The caller's workspace when its credential was seen before, else None: then the partition is only
            known after authorization and costs a second round.
        subject_id: The caller's subject, known exactly when the workspace is.
    """

    keys: dict[bytes, list[bytes]]
    workspace: Workspace | None
    subject_id: str | None = None


def bearer_token(metadata: Iterable[tuple[str, str | bytes]]) -> Token:
    """Find the key or session in the metadata of a call.

    Raises:
        Unauthorized: There is no `authorization` entry, more than one, or it holds neither.
    """
    values = [value for key, value in metadata if key == AUTHORIZATION_KEY]
    if len(values) > 1 or (values and not isinstance(values[0], str)):
        raise Unauthorized("exactly one bearer token is required")
    value = values[0] if values else None
    return parse_authorization(value if isinstance(value, str) else None)


def token_keys(token: Token) -> list[bytes]:
    """Keys in the identity partition of what a token is judged by: its credential, then its session if it is one."""
    make_key = keys.global_credential_key if token.is_global else keys.credential_key
    found = [make_key(token.credential_id)]
    if token.session_id is not None:
        found.append(keys.session_key(token.credential_id, token.session_id))
    return found


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
        self._facts: BoundedCache[tuple[str, str]] = BoundedCache(_FACTS_MAX)
        self._parsed: BoundedCache[tuple[bytes, Credential]] = BoundedCache(_PARSED_BYTES_MAX)

    def first_round(self, token: Token, scope: Scope | None, *, registers: bool = False) -> FirstRound:
        """Say what a request should read in its first round.

        Args:
            token: As presented; it is not verified yet, so nothing that is read may be looked at before `authorize`.
            scope: Scope of the request, None for routes without one.
            registers: The request may register its agent and workspace (`directory`), so read those entries too.
        """
        identity_keys = token_keys(token)
        wanted = {IDENTITY_PARTITION: identity_keys}
        facts = self._facts.get(token.credential_id)
        if facts is None or scope is None:
            return FirstRound(wanted, None)
        company_id, subject_id = facts
        workspace = workspace_for(company_id, scope, subject_id)
        partition_keys: list[bytes] = []
        if registers:
            identity_keys.insert(1, keys.agent_key(company_id, scope.agent_id))
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
            Unauthorized: Unknown, rotated away, revoked, expired, or a session that has ended.
            Forbidden: A global key or session, without a needed capability, or the scope is not allowed.
            StorageInconsistency: The stored credential cannot be read.
        """
        stored, session = _stored(reader, token)
        return self.authorize_stored(
            stored, token, session=session, now_ms=reader.clock_ms, capabilities=capabilities, scope=scope
        )

    def authorize_stored(
        self,
        stored: bytes | None,
        token: Token,
        *,
        session: bytes | None,
        now_ms: int,
        capabilities: Sequence[str] = (),
        scope: Scope | None = None,
    ) -> Principal:
        """`authorize` for callers that read the values (None for absent) and the clock themselves.

        Args:
            stored: Value of the credential, the first key of `first_round`.
            token: As presented.
            session: Value of the last key of `first_round`; of no account when the token is no session.
            now_ms: The store's clock.
            capabilities, scope: As for `authorize`.
        """
        credential = self._authenticate(stored, session, token, now_ms)
        if isinstance(credential, GlobalCredential):
            raise Forbidden("a global credential reaches no company")
        for capability in capabilities:
            if capability not in credential.held_capabilities:
                raise Forbidden(f"the credential lacks the capability {capability}")
        if scope is not None and not credential.allows(scope):
            raise Forbidden("the credential does not reach this scope")
        return Principal(credential)

    def authorize_global(
        self, reader: CredentialReader, token: Token, *, capabilities: Sequence[str] = (), is_master: bool = False
    ) -> GlobalPrincipal:
        """Authorize a request of global administration inside its own snapshot.

        Args:
            reader: The transaction.
            token: As presented.
            capabilities: All of these are needed.
            is_master: Only the master will do.

        Raises:
            Unauthorized: Unknown, rotated away, revoked, expired, or a session that has ended.
            Forbidden: A key or session of a company, or without the authority.
        """
        credential = self.authenticate(reader, token)
        if not isinstance(credential, GlobalCredential):
            raise Forbidden("global administration needs a global credential")
        if is_master and not credential.is_master:
            raise Forbidden("only the master may do this")
        for capability in capabilities:
            if capability not in credential.spec.capabilities:
                raise Forbidden(f"the credential lacks the capability {capability}")
        return GlobalPrincipal(credential)

    def authenticate(self, reader: CredentialReader, token: Token) -> Credential | GlobalCredential:
        """The credential that a valid key or session acts with, whatever it may do. Raises Unauthorized."""
        stored, session = _stored(reader, token)
        return self._authenticate(stored, session, token, reader.clock_ms)

    def _authenticate(
        self, stored: bytes | None, stored_session: bytes | None, token: Token, now_ms: int
    ) -> Credential | GlobalCredential:
        if stored is None:
            raise Unauthorized(_REFUSED)
        credential: Credential | GlobalCredential
        if token.is_global:
            credential = decode_global_credential(stored)
        else:
            credential = self._credential(token.credential_id, stored)
        verifier = credential.verifier
        if token.session_id is not None:
            if stored_session is None:
                raise Unauthorized(_REFUSED)
            session = decode_session(stored_session)
            # Whatever made another revision of the credential has ended the sessions that it had.
            if session.is_over(credential.revision, now_ms):
                raise Unauthorized(_REFUSED)
            verifier = session.verifier
        # The secret comes before the state: only its holder may learn that a credential is revoked or has expired.
        if not is_verified(self._verifier_key, token, verifier) or not credential.is_active(now_ms):
            raise Unauthorized(_REFUSED)
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


def _stored(reader: CredentialReader, token: Token) -> tuple[bytes | None, bytes | None]:
    values = [reader.get(IDENTITY_PARTITION, key) for key in token_keys(token)]
    return values[0], values[-1] if token.session_id is not None else None
