"""The operator's settings of this service."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from services.identity import verifier_key
from services.runtime.admission import slot_count_from_environment

STORAGE_ADDRESS_VARIABLE: Final = "WAGGLE_STORAGE_ADDRESS"


@dataclass(frozen=True, slots=True)
class Settings:
    """Valid settings.

    Attributes:
        storage_address: Where storage listens, `unix:/path` or `host:port`.
        verifier_key_file: File of the verifier key.
        slot_count: Admission slots, 1 to 64.
    """

    storage_address: str
    verifier_key_file: Path
    slot_count: int


def settings_from_environment() -> Settings:
    """Read the environment.

    Raises:
        ValueError: A setting is missing or out of range; the process must not start.
    """
    return Settings(
        _required(STORAGE_ADDRESS_VARIABLE),
        Path(_required(verifier_key.ENVIRONMENT_VARIABLE)),
        slot_count_from_environment(),
    )


def _required(name: str) -> str:
    value = os.environ.get(name, "")
    if not value:
        raise ValueError(f"{name} must be set")
    return value
