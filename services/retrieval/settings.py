"""What an operator may set for retrieval."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

from services.runtime.settings import IntegerVariable
from services.workspace.settings import WorkspaceSettings

DEFAULT_SCAN_BYTES: Final = 8 * 1024 * 1024
SCAN_BYTES_MAX: Final = 256 * 1024 * 1024
VECTOR_REQUEST_BODY_BYTES: Final = 2 * 1024 * 1024
_MEBIBYTE: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Settings(WorkspaceSettings):
    """Execution limits of one server.

    Attributes:
        max_scan_bytes: Highest scan_bytes_limit of a request, 8 MiB to 256 MiB.
        replica_memory_bytes: Estimated memory of loaded partitions, at least 16 MiB.
    """

    max_scan_bytes: Annotated[
        int, IntegerVariable("QILBEE_MAX_RETRIEVAL_SCAN_BYTES", least=DEFAULT_SCAN_BYTES, greatest=SCAN_BYTES_MAX)
    ] = 64 * _MEBIBYTE
    replica_memory_bytes: Annotated[
        int, IntegerVariable("WAGGLE_REPLICA_MEMORY_BYTES", least=16 * _MEBIBYTE, greatest=1 << 50)
    ] = 512 * _MEBIBYTE
