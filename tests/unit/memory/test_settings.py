"""The operator's settings: defaults, and a start that is refused for every invalid value."""

from __future__ import annotations

from pathlib import Path

import pytest

from services.memory.__main__ import build
from services.memory.settings import Settings, settings_from_environment
from services.runtime.server import CannotStart, Registry


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WAGGLE_STORAGE_ADDRESS", "unix:/run/storage.sock")
    monkeypatch.setenv("WAGGLE_VERIFIER_KEY_FILE", "/run/key")
    monkeypatch.delenv("QILBEE_MAX_EMBEDDING_DIMENSIONS", raising=False)
    monkeypatch.delenv("QILBEE_MAX_CONCURRENT_RETRIEVALS", raising=False)


def test_defaults() -> None:
    """The documented ceilings hold unless the operator says otherwise."""
    assert settings_from_environment() == Settings("unix:/run/storage.sock", Path("/run/key"), 32_768, 2)


def test_lower_ceilings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ends of the ranges are accepted."""
    monkeypatch.setenv("QILBEE_MAX_EMBEDDING_DIMENSIONS", "1")
    monkeypatch.setenv("QILBEE_MAX_CONCURRENT_RETRIEVALS", "64")
    found = settings_from_environment()
    assert (found.dimensions_max, found.slot_count) == (1, 64)


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
def test_invalid_settings_stop_the_start(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    """The message names the setting."""
    monkeypatch.setenv(name, value)
    with pytest.raises(CannotStart, match=name):
        build(Registry())


def test_a_missing_key_file_stops_the_start() -> None:
    """The message names the file."""
    with pytest.raises(CannotStart, match="/run/key"):
        build(Registry())
