"""The operator's settings of memory: a start that is refused for every invalid value."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from services.memory.__main__ import build
from services.runtime.main import Process
from services.runtime.server import Registry
from services.runtime.start_failure import CannotStart

VALID = {"WAGGLE_STORAGE_ADDRESS": "unix:/run/storage.sock", "WAGGLE_VERIFIER_KEY_FILE": "/run/key"}


def start(environment: Mapping[str, str]) -> None:
    build(Registry(), Process("memory", "unix:/run/memory.sock", environment))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("WAGGLE_STORAGE_ADDRESS", ""),
        ("WAGGLE_VERIFIER_KEY_FILE", ""),
        ("QILBEE_MAX_EMBEDDING_DIMENSIONS", "0"),
        ("QILBEE_MAX_EMBEDDING_DIMENSIONS", "32769"),
        ("QILBEE_MAX_EMBEDDING_DIMENSIONS", "1e3"),
        ("QILBEE_MAX_EMBEDDING_DIMENSIONS", "٣"),
        ("QILBEE_MAX_CONCURRENT_RETRIEVALS", "0"),
        ("QILBEE_MAX_CONCURRENT_RETRIEVALS", "65"),
    ],
)
def test_invalid_settings_stop_the_start(name: str, value: str) -> None:
    """The message names the setting."""
    with pytest.raises(CannotStart, match=name):
        start({**VALID, name: value})


def test_a_missing_key_file_stops_the_start() -> None:
    """The message names the file."""
    with pytest.raises(CannotStart, match="/run/key"):
        start(VALID)
