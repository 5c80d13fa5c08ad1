"""Reading a whole store for a command: that of a running suite, or one in a directory that nobody has open."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from cli.console import fail
from cli.operator_transport import operator_transport
from cli.readiness import GrpcProbe
from cli.suite import STORAGE, NotRunning, find_address, is_supervised
from services.domain.errors import StorageInconsistency, WaggleError
from services.runtime.status import RpcFailure
from services.storage.directory import open_store
from services.storage.directory_errors import DirectoryError
from services.storage.export_client import GrpcExporter
from services.storage.exporting import Exporter, LocalExporter

EXIT_UNAVAILABLE = 69
STORAGE_WAIT_S = 30.0
_LOOK_AGAIN_S = 0.2

StorageAddressOption = Annotated[
    str,
    typer.Option(
        "--storage-address",
        envvar="WAGGLE_STORAGE_ADDRESS",
        help="gRPC address of the storage service; default: that of the suite on --data-dir.",
    ),
]


@contextmanager
def opened_exporter(data_directory: Path, address: str) -> Iterator[Exporter]:
    """What exports the store; refusals and failures end the command with one line and the exit code of their cause.

    Args:
        data_directory: Asked of the suite that runs on it; without one, the store is opened here, exclusively.
        address: Of a storage service; empty for that of the directory.
    """
    try:
        address = address or running_address(data_directory)
        if address:
            with GrpcExporter(address, transport=operator_transport(address)) as remote:
                yield remote
        else:
            with open_store(data_directory) as store:
                yield LocalExporter(store)
    except DirectoryError as error:
        fail(str(error), error.exit_code)
    except StorageInconsistency as error:
        fail(f"the store at {address or data_directory} contradicts itself: {error.message}")
    except (WaggleError, RpcFailure) as error:
        fail(f"the store at {address or data_directory} cannot be read: {error.message}", EXIT_UNAVAILABLE)


def running_address(data_directory: Path) -> str:
    """Address of the storage service of the suite that runs on a directory; empty when none does.

    Storage that is just away comes back, and would find its store taken if it were opened here meanwhile. So it is
    waited for, and the command ends when it stays away.
    """
    give_up_at_s = time.monotonic() + STORAGE_WAIT_S
    while is_supervised(data_directory):
        address = _ready_address(data_directory)
        if address:
            return address
        if time.monotonic() > give_up_at_s:
            fail(f"a suite runs on {data_directory}, but its storage does not answer", EXIT_UNAVAILABLE)
        time.sleep(_LOOK_AGAIN_S)
    return ""


def _ready_address(data_directory: Path) -> str:
    try:
        address = find_address(data_directory, STORAGE.name)
    except NotRunning:
        return ""
    probe = GrpcProbe(address)
    try:
        return address if probe.is_ready() else ""
    finally:
        probe.close()
