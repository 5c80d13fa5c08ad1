"""The first authority of a company, and the one above all companies. The operator makes both on the host."""

from __future__ import annotations

from typing import Any, Final

from google.protobuf.message import Message

from services.domain import keys
from services.domain.canonical_json import canonical_bytes, parse_canonical
from services.domain.errors import InvalidRequest, RevisionConflict, StorageInconsistency
from services.domain.scope import IDENTITY_PARTITION
from services.identity import global_credentials
from services.identity.credential_commands import NewKey, make_key
from services.identity.credentials import Credential, decode_credential
from services.identity.global_commands import enter_global, find_global, make_global_key, put_global
from services.identity.global_credentials import GlobalCredential
from services.identity.history import Change
from services.identity.tenants import enter_company
from services.identity.tokens import token_from_random, verifier_of
from services.identity.transitions import bootstrap_credential
from services.runtime.identifiers import new_secret, new_uuid
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
        # Nobody acts before the first credential exists, so it is its own actor.
        change = Change(change_id=change_id, actor_id=credential_id, at_millis=transaction.clock_ms)
        credential = bootstrap_credential(credential_id, tenant_id, subject_id, key.verifier, change)
        enter_company(transaction, credential, None)
        return credential

    wanted = [keys.credential_key(credential_id), keys.company_key(tenant_id)]
    credential = run_transaction(store, run, prefetch={IDENTITY_PARTITION: wanted})
    return _answer(credential, key)


def bootstrap_master(store: Store, verifier_key: bytes, *, subject_id: str) -> dict[str, Any]:
    """Make the master: the one global credential that holds every capability and was issued by nobody.

    Args:
        store: Opened with exclusive access to the data directory.
        verifier_key: Key of the verifiers, 32 bytes.
        subject_id: Its subject: 1 to 256 bytes of UTF-8, not blank, no control characters.

    Returns:
        `{"contract_version", "credential", "secret"}`. The secret, a global key, can never be read again.

    Raises:
        InvalidRequest: The name is out of bounds.
        RevisionConflict: There was a master before, whatever became of it. Nothing changes.
    """
    _check_name(subject_id, "subject_id")
    key = make_global_key(verifier_key, new_uuid())
    credential_id = key.token.credential_id
    change_id = new_uuid()

    def run(transaction: Transaction) -> GlobalCredential:
        found = find_global(transaction, credential_id)
        if found is not None:
            return found
        if transaction.get(IDENTITY_PARTITION, keys.MASTER) is not None:
            raise RevisionConflict("there is a master already; recover-master gives it a new secret")
        change = Change(change_id=change_id, actor_id=credential_id, at_millis=transaction.clock_ms)
        master = global_credentials.bootstrap_master(credential_id, subject_id, key.verifier, change)
        transaction.put(IDENTITY_PARTITION, keys.MASTER, canonical_bytes({"credential_id": credential_id}))
        enter_global(transaction, master)
        return master

    wanted = [keys.global_credential_key(credential_id), keys.MASTER]
    master = run_transaction(store, run, prefetch={IDENTITY_PARTITION: wanted})
    return _answer(master, key)


def recover_master(store: Store, verifier_key: bytes, *, expected_revision: int) -> dict[str, Any]:
    """Give the master a new secret; the old one and the sessions that it had end. A revoked master works again.

    Args:
        store: Opened with exclusive access to the data directory.
        verifier_key: Key of the verifiers, 32 bytes.
        expected_revision: The revision that the operator knows the master to have.

    Returns:
        `{"contract_version", "credential", "secret"}`.

    Raises:
        RevisionConflict: There is no master, or it has another revision. Nothing changes.
        StorageInconsistency: The master is lost.
    """
    random_bytes = new_secret()
    change_id = new_uuid()

    def run(transaction: Transaction) -> tuple[GlobalCredential, NewKey]:
        stored = transaction.get(IDENTITY_PARTITION, keys.MASTER)
        if stored is None:
            raise RevisionConflict("there is no master yet; bootstrap-master makes it")
        credential_id: str = parse_canonical(stored)["credential_id"]
        token = token_from_random(credential_id, random_bytes, is_global=True)
        key = NewKey(token, verifier_of(verifier_key, token))
        master = find_global(transaction, credential_id)
        if master is None:
            raise StorageInconsistency("the master credential is not there")
        if master.change_id == change_id:
            return master, key
        change = Change(change_id=change_id, actor_id=credential_id, at_millis=transaction.clock_ms)
        recovered = global_credentials.recover_master(master, expected_revision, key.verifier, change)
        put_global(transaction, recovered)
        return recovered, key

    return _answer(*run_transaction(store, run, prefetch={IDENTITY_PARTITION: [keys.MASTER]}))


def _answer(credential: Credential | GlobalCredential, key: NewKey) -> dict[str, Any]:
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
