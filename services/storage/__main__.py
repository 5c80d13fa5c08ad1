"""Run the storage service: `python -m services.storage --data-dir DIRECTORY --listen unix:/path/to.sock`.

The engine is the one that the directory was created with. `--in-memory` serves a new, empty store that ends with the
process instead.

Ends with 0 after a drain, with the codes of `directory_errors` when the directory cannot be used (75: held by another
process, 65: damaged, 66: no store), else as `services.runtime.server` says.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from services.runtime.server import CannotStart, Registry, serve
from services.storage.core import LocalStore, StoreOptions
from services.storage.directory import open_store
from services.storage.directory_errors import DirectoryError
from services.storage.servicer import StorageServicer
from waggle.storage.v1 import storage_service_pb2_grpc


def main(arguments: list[str] | None = None) -> int:
    """Serve until told to stop, and return the exit code.

    Args:
        arguments: The command line without the program's name; None for that of the process.
    """
    parser = argparse.ArgumentParser(prog="python -m services.storage", description="The storage service.")
    place = parser.add_mutually_exclusive_group(required=True)
    place.add_argument("--data-dir", type=Path, help="directory of an existing store")
    place.add_argument("--in-memory", action="store_true", help="serve a new, empty store that ends with the process")
    parser.add_argument("--listen", required=True, help="unix:/path/to.sock or host:port")
    parser.add_argument(
        "--free-bytes-min",
        type=int,
        help="bytes of the volume that must stay free for writes; 64 MiB or 2%% of a small volume by default",
    )
    parsed = parser.parse_args(arguments)
    options = StoreOptions(free_bytes_min=parsed.free_bytes_min)

    def build(registry: Registry) -> None:
        try:
            store = (
                LocalStore.in_memory(options=options)
                if parsed.in_memory
                else open_store(parsed.data_dir, options=options)
            )
        except DirectoryError as error:
            raise CannotStart(str(error), error.exit_code) from error
        registry.on_close(store.close)
        registry.ready_when(store.is_open)
        registry.add(storage_service_pb2_grpc.add_StorageServiceServicer_to_server, StorageServicer(store))

    return serve("storage", build, listen=parsed.listen)


if __name__ == "__main__":
    sys.exit(main())
