"""What an operator may set, read from the environment at start; a bad value keeps the process from starting."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from services.identity import verifier_key
from services.runtime.admission import SLOTS_DEFAULT, SLOTS_MAX
from services.runtime.server import CannotStart

DIMENSIONS_MAX: Final = 32_768
DEFAULT_SCAN_BYTES: Final = 8 * 1024 * 1024
SCAN_BYTES_MAX: Final = 256 * 1024 * 1024
VECTOR_REQUEST_BODY_BYTES: Final = 2 * 1024 * 1024
_MEBIBYTE: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Settings:
    """Execution limits of one server.

    Attributes:
        max_embedding_dimensions: QILBEE_MAX_EMBEDDING_DIMENSIONS, 1 to 32,768; stored bindings above it stay, but
            queries and attachments are refused.
        max_scan_bytes: QILBEE_MAX_RETRIEVAL_SCAN_BYTES, 8 MiB to 256 MiB: highest scan_bytes_limit of a request.
        max_concurrent_retrievals: QILBEE_MAX_CONCURRENT_RETRIEVALS, 1 to 64.
        replica_memory_bytes: WAGGLE_REPLICA_MEMORY_BYTES, at least 16 MiB: estimated memory of loaded partitions.
    """

    max_embedding_dimensions: int = DIMENSIONS_MAX
    max_scan_bytes: int = 64 * _MEBIBYTE
    max_concurrent_retrievals: int = SLOTS_DEFAULT
    replica_memory_bytes: int = 512 * _MEBIBYTE


@dataclass(frozen=True, slots=True)
class Addresses:
    """Where the rest of the suite is.

    Attributes:
        storage: WAGGLE_STORAGE_ADDRESS, `unix:/path` or `host:port`.
        verifier_key_file: WAGGLE_VERIFIER_KEY_FILE.
    """

    storage: str
    verifier_key_file: Path


def addresses_from_environment(environment: Mapping[str, str] | None = None) -> Addresses:
    """Read the addresses.

    Args:
        environment: The process environment when None.

    Raises:
        CannotStart: One is missing.
    """
    values = os.environ if environment is None else environment
    storage, key_file = (values.get(name, "") for name in ("WAGGLE_STORAGE_ADDRESS", verifier_key.ENVIRONMENT_VARIABLE))
    if not storage or not key_file:
        raise CannotStart(f"WAGGLE_STORAGE_ADDRESS and {verifier_key.ENVIRONMENT_VARIABLE} must be set")
    return Addresses(storage, Path(key_file))


def settings_from_environment(environment: Mapping[str, str] | None = None) -> Settings:
    """Read the settings.

    Args:
        environment: The process environment when None.

    Raises:
        CannotStart: A setting is no integer, or out of its range; the message names it.
    """
    values = os.environ if environment is None else environment
    default = Settings()
    return Settings(
        _integer(values, "QILBEE_MAX_EMBEDDING_DIMENSIONS", default.max_embedding_dimensions, 1, DIMENSIONS_MAX),
        _integer(values, "QILBEE_MAX_RETRIEVAL_SCAN_BYTES", default.max_scan_bytes, DEFAULT_SCAN_BYTES, SCAN_BYTES_MAX),
        _integer(values, "QILBEE_MAX_CONCURRENT_RETRIEVALS", default.max_concurrent_retrievals, 1, SLOTS_MAX),
        _integer(values, "WAGGLE_REPLICA_MEMORY_BYTES", default.replica_memory_bytes, 16 * _MEBIBYTE, 1 << 50),
    )


def _integer(values: Mapping[str, str], name: str, default: int, least: int, greatest: int) -> int:
    text = values.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdigit() and len(text) <= 20 and least <= int(text) <= greatest):
        raise CannotStart(f"{name} must be an integer from {least} to {greatest}")
    return int(text)
