"""The operator's settings of this service."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from services.identity import verifier_key
from services.runtime.admission import slot_count_from_environment

STORAGE_ADDRESS_VARIABLE: Final = "WAGGLE_STORAGE_ADDRESS"
DIMENSIONS_VARIABLE: Final = "QILBEE_MAX_EMBEDDING_DIMENSIONS"
DIMENSIONS_MAX: Final = 32_768


@dataclass(frozen=True, slots=True)
class Settings:
    """Valid settings.

    Attributes:
        storage_address: Where storage listens, `unix:/path` or `host:port`.
        verifier_key_file: File of the verifier key.
        dimensions_max: Ceiling for new vectors, 1 to 32,768. Lowering it keeps what is stored.
        slot_count: Admission slots, 1 to 64.
    """

    storage_address: str
    verifier_key_file: Path
    dimensions_max: int
    slot_count: int


def settings_from_environment() -> Settings:
    """Read the environment.

    Raises:
        ValueError: A setting is missing or out of range; the process must not start.
    """
    return Settings(
        _required(STORAGE_ADDRESS_VARIABLE),
        Path(_required(verifier_key.ENVIRONMENT_VARIABLE)),
        _dimensions_max(),
        slot_count_from_environment(),
    )


def _required(name: str) -> str:
    value = os.environ.get(name, "")
    if not value:
        raise ValueError(f"{name} must be set")
    return value


def _dimensions_max() -> int:
    text = os.environ.get(DIMENSIONS_VARIABLE, str(DIMENSIONS_MAX))
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= DIMENSIONS_MAX):
        raise ValueError(f"{DIMENSIONS_VARIABLE} must be an integer from 1 to {DIMENSIONS_MAX}")
    return int(text)
