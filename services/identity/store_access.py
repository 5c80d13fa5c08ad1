"""What a service that authorizes its callers needs: the store, the key of the verifiers, and the authority."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from services.identity import verifier_key
from services.identity.authority import Authority
from services.identity.verifier_key import VerifierKeyProblem, load_verifier_key
from services.runtime.main import Process
from services.runtime.server import Registry
from services.runtime.settings import PathVariable, TextVariable, read_settings
from services.runtime.start_failure import CannotStart
from services.storage.client import GrpcStore


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """Where the store and its key are.

    Attributes:
        storage_address: Where storage listens, `unix:/path` or `host:port`.
        verifier_key_file: File of the verifier key.
    """

    storage_address: Annotated[str, TextVariable("WAGGLE_STORAGE_ADDRESS")]
    verifier_key_file: Annotated[Path, PathVariable(verifier_key.ENVIRONMENT_VARIABLE)]


@dataclass(frozen=True, slots=True)
class StoreAccess:
    """The store of the suite, as one process reaches it.

    Attributes:
        store: Closed by the registry.
        verifier_key: 32 bytes; also what cursors are signed with.
        authority: Authorizes requests.
    """

    store: GrpcStore
    verifier_key: bytes
    authority: Authority


def open_store_access(registry: Registry, process: Process) -> StoreAccess:
    """Connect a process to the store; it is ready while storage answers.

    Raises:
        CannotStart: A setting is missing or the verifier key cannot be read.
    """
    settings = read_settings(StoreSettings, process.environment)
    try:
        key = load_verifier_key(settings.verifier_key_file)
    except VerifierKeyProblem as error:
        raise CannotStart(str(error)) from error
    store = GrpcStore(settings.storage_address, transport=process.transport)
    registry.on_close(store.close)
    registry.ready_when(lambda: bool(store.status().incarnation), of_another=True)
    return StoreAccess(store, key, Authority(key))
