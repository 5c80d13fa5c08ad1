"""`waggle admin`: what is done to a data directory while no suite runs on it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from cli.certificates import certificates
from cli.console import fail, out, print_json
from cli.suite import verifier_key_file
from services.domain.errors import WaggleError
from services.identity.bootstrap import bootstrap_master as make_master
from services.identity.bootstrap import bootstrap_tenant as make_tenant
from services.identity.bootstrap import recover_master as renew_master
from services.identity.verifier_key import VerifierKeyProblem, create_verifier_key, load_verifier_key
from services.runtime.logging import configure_logging
from services.runtime.start_failure import EXIT_CANNOT_START
from services.storage.core import LocalStore
from services.storage.directory import create_store as lay_store
from services.storage.directory import open_store
from services.storage.directory_errors import DirectoryError, DirectoryMissing

app = typer.Typer(no_args_is_help=True, help="Work on a data directory offline, with exclusive access.")
app.command()(certificates)

DataDirectoryArgument = Annotated[Path, typer.Argument(metavar="DATA_DIR", help="Directory of the store.")]


@app.command("create-store")
def create_store(
    data_dir: DataDirectoryArgument,
    engine: Annotated[str, typer.Option(help="Storage engine.")] = "leveldb",
) -> None:
    """Make a new, empty store. Refused where there is one, or what is left of one."""
    with _operator_errors():
        store_id = lay_store(data_dir, engine=engine)
        key_file = verifier_key_file(data_dir)
        if not key_file.exists():
            create_verifier_key(key_file)
    out.print(f"Created store {store_id} in {data_dir}", markup=False)
    out.print(f"Next: waggle admin bootstrap-tenant {data_dir} COMPANY ADMINISTRATOR", markup=False)


@app.command("bootstrap-tenant")
def bootstrap_tenant(
    data_dir: DataDirectoryArgument,
    tenant: Annotated[str, typer.Argument(metavar="TENANT", help="Name of the company.")],
    subject: Annotated[str, typer.Argument(metavar="SUBJECT", help="Name of its first administrator.")],
) -> None:
    """Make a company and its first administrator; prints one JSON object with the only copy of the secret.

    The administrator can issue credentials but holds no memory grants.
    """
    with _operator_errors(), _open(data_dir) as (store, key):
        answer = make_tenant(store, key, tenant_id=tenant, subject_id=subject)
    print_json(answer)


@app.command("bootstrap-master")
def bootstrap_master(
    data_dir: DataDirectoryArgument,
    subject: Annotated[str, typer.Argument(metavar="SUBJECT", help="Name of who holds the master key.")],
) -> None:
    """Make the global master key; prints one JSON object with the only copy of the secret.

    It can create companies and issue global credentials, and reaches no memory. Refused once there was a master.
    """
    with _operator_errors(), _open(data_dir) as (store, key):
        answer = make_master(store, key, subject_id=subject)
    print_json(answer)


@app.command("recover-master")
def recover_master(
    data_dir: DataDirectoryArgument,
    expected_revision: Annotated[
        int, typer.Argument(metavar="EXPECTED_REVISION", min=1, help="The revision that the master has now.")
    ],
) -> None:
    """Give the master a new secret, which is printed, and end the old one. A revoked master works again."""
    with _operator_errors(), _open(data_dir) as (store, key):
        answer = renew_master(store, key, expected_revision=expected_revision)
    print_json(answer)


@contextmanager
def _open(data_dir: Path) -> Iterator[tuple[LocalStore, bytes]]:
    """The store, held exclusively, and the key of its verifiers."""
    # The store first: where there is none, its key is not what is missing.
    store = open_store(data_dir)
    try:
        yield store, load_verifier_key(verifier_key_file(data_dir))
    finally:
        store.close()


@contextmanager
def _operator_errors() -> Iterator[None]:
    """End with the sentence that says what is wrong, and the exit code of its cause."""
    configure_logging("admin")
    # Whatever is created here holds memory or guards it.
    os.umask(0o077)
    try:
        yield
    except DirectoryMissing as error:
        fail(f"{error} Make one with: waggle admin create-store {error.path}", error.exit_code)
    except DirectoryError as error:
        fail(str(error), error.exit_code)
    except VerifierKeyProblem as error:
        fail(str(error), EXIT_CANNOT_START)
    except WaggleError as error:
        fail(str(error))
