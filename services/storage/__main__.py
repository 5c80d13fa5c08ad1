"""Run the storage service: `python -m services.storage --data-dir DIRECTORY --listen unix:/path/to.sock`.

The engine is the one that the directory was created with. `--in-memory` serves a new, empty store that ends with the
process instead.

Ends with 0 after a drain, with the codes of `directory_errors` when the directory cannot be used (75: held by another
process, 65: damaged, 66: no store), else as `services.runtime.start_failure` says.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Final

from services.runtime.health_names import WRITES
from services.runtime.main import Process, run_service
from services.runtime.server import Registry
from services.runtime.settings import read_settings
from services.runtime.start_failure import CannotStart
from services.runtime.transport import MESSAGE_BYTES_MAX
from services.storage.core import LocalStore
from services.storage.directory import open_store
from services.storage.directory_errors import DirectoryError
from services.storage.exporting import LocalExporter
from services.storage.servicer import StorageServicer
from services.storage.servicer_export import ExportServicer
from services.storage.settings import Settings
from waggle.storage.v1 import export_service_pb2_grpc, storage_service_pb2_grpc

CALLERS: Final = ("identity", "memory", "retrieval", "consolidation", "admin")
"""Whom storage serves under mutual TLS, by the names in their certificates; "admin" is for commands of operators."""


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add what only storage is told."""
    place = parser.add_mutually_exclusive_group(required=True)
    place.add_argument("--data-dir", type=Path, help="directory of an existing store")
    place.add_argument("--in-memory", action="store_true", help="serve a new, empty store that ends with the process")
    parser.add_argument(
        "--free-bytes-min",
        type=int,
        help="bytes of the volume that must stay free for writes; 64 MiB or 2%% of a small volume by default, and "
        "always what the engine needs to flush and merge",
    )


def build(registry: Registry, process: Process) -> None:
    """Open the store and wire the service.

    Raises:
        CannotStart: The directory cannot be used.
    """
    flags = process.flags
    options = read_settings(Settings, process.environment).options(free_bytes_min=flags.free_bytes_min)
    try:
        store = (
            LocalStore.in_memory(options=options) if flags.in_memory else open_store(flags.data_dir, options=options)
        )
    except DirectoryError as error:
        raise CannotStart(str(error), error.exit_code) from error
    # Only services send requests here, and a commit can be larger than anything that a client sends.
    registry.request_bytes_max = MESSAGE_BYTES_MAX
    registry.on_close(store.close)
    registry.ready_when(store.is_open)
    # Readiness is that of reads: on a full disk it stays, since nothing is gained by a restart.
    registry.report(WRITES, store.is_writable)
    if process.transport.key_material is not None:
        registry.admit_only(CALLERS)
    registry.add(storage_service_pb2_grpc.add_StorageServiceServicer_to_server, StorageServicer(store))
    exporter = ExportServicer(LocalExporter(store))
    registry.add(export_service_pb2_grpc.add_ExportServiceServicer_to_server, exporter)


def main(arguments: list[str] | None = None) -> int:
    """Serve until told to stop, and return the exit code; see `run_process` for the arguments."""
    # It gives no notice before it ends: nobody else can take over its calls, and its successor waits for the directory.
    return run_service(
        "storage",
        build,
        arguments,
        description="The storage service.",
        add_flags=add_flags,
        gives_notice=False,
    )


if __name__ == "__main__":
    sys.exit(main())
