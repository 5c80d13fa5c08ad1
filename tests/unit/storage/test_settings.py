"""What an operator may set for storage."""

from __future__ import annotations

import pytest

from services.runtime.settings import read_settings
from services.runtime.start_failure import CannotStart
from services.storage.compaction import CompactionSchedule
from services.storage.core import StoreOptions
from services.storage.settings import Settings
from services.storage.upkeep import UpkeepOptions

NAMES = {
    "WAGGLE_CHANGE_RETENTION_S": "7200",
    "WAGGLE_COMPACTION_INTERVAL_S": "0",
    "WAGGLE_COMPACTION_IDLE_S": "5",
    "WAGGLE_SNAPSHOT_TTL_S": "600",
    "WAGGLE_SNAPSHOTS_MAX": "3",
}


def test_settings_become_options() -> None:
    """Seconds become milliseconds, and what is not set keeps its default."""
    upkeep = UpkeepOptions(7_200_000, compaction=CompactionSchedule(0, 5_000))
    assert StoreOptions(9, 3, 600_000, upkeep) == read_settings(Settings, NAMES).options(free_bytes_min=9)
    assert StoreOptions() == read_settings(Settings, {}).options(free_bytes_min=None)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("WAGGLE_CHANGE_RETENTION_S", "3599"),
        ("WAGGLE_COMPACTION_INTERVAL_S", "-1"),
        ("WAGGLE_COMPACTION_IDLE_S", "86401"),
        ("WAGGLE_SNAPSHOT_TTL_S", "0"),
        ("WAGGLE_SNAPSHOT_TTL_S", "601"),
        ("WAGGLE_SNAPSHOTS_MAX", "many"),
    ],
)
def test_what_cannot_be_taken_keeps_storage_from_starting(name: str, value: str) -> None:
    """The message names the variable."""
    with pytest.raises(CannotStart, match=name):
        read_settings(Settings, {name: value})
