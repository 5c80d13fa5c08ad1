"""What an operator may set."""

from __future__ import annotations

import pytest

from services.retrieval.settings import Settings
from services.runtime.settings import read_settings
from services.runtime.start_failure import CannotStart


def test_without_settings_the_documented_defaults_hold() -> None:
    """Dimensions, scan bytes and slots as published."""
    expected = Settings(
        max_embedding_dimensions=32_768,
        max_scan_bytes=67_108_864,
        max_concurrent_retrievals=2,
        replica_memory_bytes=536_870_912,
    )
    assert expected == read_settings(Settings, {})


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
        assert read_settings(Settings, {name: str(good)}) != read_settings(Settings, {name: str(least + 1)})
    for bad in (str(least - 1), str(greatest + 1), "", " 5", "5.0", "-5", "five", "٣", "9" * 5000):
        with pytest.raises(CannotStart, match=name):
            read_settings(Settings, {name: bad})
