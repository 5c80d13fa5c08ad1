"""What an operator may set."""

from __future__ import annotations

import pytest

from services.retrieval.settings import Settings, addresses_from_environment, settings_from_environment
from services.runtime.server import CannotStart


def test_without_settings_the_documented_defaults_hold() -> None:
    """Dimensions, scan bytes and slots as published."""
    assert Settings(32_768, 67_108_864, 2, 536_870_912) == settings_from_environment({})


@pytest.mark.parametrize(
    ("name", "least", "greatest"),
    [
        ("QILBEE_MAX_EMBEDDING_DIMENSIONS", 1, 32_768),
        ("QILBEE_MAX_RETRIEVAL_SCAN_BYTES", 8_388_608, 268_435_456),
        ("QILBEE_MAX_CONCURRENT_RETRIEVALS", 1, 64),
    ],
)
def test_a_setting_outside_of_its_range_keeps_the_process_from_starting(name: str, least: int, greatest: int) -> None:
    """The bounds themselves are accepted; the complaint names the setting."""
    for good in (least, greatest):
        assert settings_from_environment({name: str(good)}) != settings_from_environment({name: str(least + 1)})
    for bad in (str(least - 1), str(greatest + 1), "", " 5", "5.0", "-5", "five", "٣", "9" * 5000):
        with pytest.raises(CannotStart, match=name):
            settings_from_environment({name: bad})


def test_addresses_must_be_set() -> None:
    """Neither has a default."""
    with pytest.raises(CannotStart):
        addresses_from_environment({"WAGGLE_STORAGE_ADDRESS": "unix:/s"})
