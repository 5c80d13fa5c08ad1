"""The first authority of a company. It comes from the operator on the host, never over the network."""

from __future__ import annotations

from typing import Any, Final

from google.protobuf.message import Message

from services.domain import keys
from services.domain.canonical_json import canonical_bytes
from services.domain.errors import InvalidRequest, RevisionConflict
from services.domain.scope import IDENTITY_PARTITION
from services.identity.credential_commands import enter_credential, make_key
from services.identity.credentials import Credential, decode_credential
from services.identity.transitions import Change, bootstrap_credential
from services.runtime.identifiers import new_uuid
from services.runtime.validation import validate
from services.storage.contract import Store
from services.storage.transaction import Transaction, run_transaction
from waggle.common.v1 import scope_pb2

CONTRACT_VERSION: Final = 1


def bootstrap_tenant(store: Store, verifier_key: bytes, *, tenant_id: str, subject_id: str) -> dict[str, Any]:
    """Make a company and its first administrator: `credential_admin` and `policy_admin`, no data.

    Args:
        store: Opened with exclusive access to the data directory.
        verifier_key: Key of the verifiers, 32 bytes.
        tenant_id: Name of the company: 1 to 256 bytes of UTF-8, not blank, no control characters.
        subject_id: Name of the administrator; same bounds.

    Returns:
        `{"contract_version", "credential", "secret"}`. The secret, a company key, can never be read again.

    Raises:
        InvalidRequest: A name is out of bounds.
        RevisionConflict: The company exists already, even if its administrator was revoked. Nothing changes.
    """
    _check_name(tenant_id, "tenant_id")
    _check_name(subject_id, "subject_id")
    key = make_key(verifier_key, new_uuid())
    credential_id = key.token.credential_id
    change_id = new_uuid()

    def run(transaction: Transaction) -> Credential:
        stored = transaction.get(IDENTITY_PARTITION, keys.credential_key(credential_id))
        if stored is not None:
            return decode_credential(stored)
        if transaction.get(IDENTITY_PARTITION, keys.company_key(tenant_id)) is not None:
            raise RevisionConflict("the company exists already", member="tenant_id")
        # Nobody acts before the first credential exists, so it is its own actor.
        change = Change(change_id=change_id, actor_id=credential_id, at_millis=transaction.clock_ms)
        credential = bootstrap_credential(credential_id, tenant_id, subject_id, key.verifier, change)
        marker = {
            "company_id": tenant_id,
            "created_at_millis": transaction.clock_ms,
            "initial_admin_id": credential_id,
        }
        transaction.put(IDENTITY_PARTITION, keys.company_key(tenant_id), canonical_bytes(marker))
        enter_credential(transaction, credential)
        return credential

    wanted = [keys.credential_key(credential_id), keys.company_key(tenant_id)]
    credential = run_transaction(store, run, prefetch={IDENTITY_PARTITION: wanted})
    return {"contract_version": CONTRACT_VERSION, "credential": credential.as_json(), "secret": key.token.text}


def _check_name(value: str, member: str) -> None:
    # The bounds of names stand in the protos alone: borrow those of a scope's project.
    try:
        scope: Message = scope_pb2.Scope(project_id=value, agent_id="-", visibility=scope_pb2.VISIBILITY_SHARED)
        validate(scope)
    except InvalidRequest as error:
        raise InvalidRequest(error.message, member=member) from None
    except ValueError:  # a lone surrogate, as an argument of a command line in no known encoding has
        raise InvalidRequest("must be UTF-8", member=member) from None
