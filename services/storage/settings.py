"""What an operator may set for storage, beside the flags of the command line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

from services.runtime.settings import IntegerVariable
from services.storage.compaction import CompactionSchedule
from services.storage.contract import SNAPSHOT_TTL_MS_DEFAULT, SNAPSHOT_TTL_MS_MAX
from services.storage.core import StoreOptions
from services.storage.snapshots import PINNED_MAX_DEFAULT
from services.storage.upkeep import UpkeepOptions

_HOUR_S: Final = 3600
_DAY_S: Final = 24 * _HOUR_S
_YEAR_S: Final = 365 * _DAY_S


@dataclass(frozen=True, slots=True)
class Settings:
    """How a store is kept.

    Attributes:
        change_retention_s: For how long the change log tells deletions at least, in seconds: an hour to ten years. A
            replica that comes back later reads its partition whole. Living keys are told for ever.
        compaction_interval_s: Seconds between two passes that drop what was overwritten, at most a year; 0 for none.
        compaction_idle_s: A pass waits until nothing was committed for so many seconds, at most a day.
        snapshot_ttl_s: Seconds that a pinned snapshot lives when its reader does not say, 1 to 600.
        snapshots_max: Greatest number of pinned snapshots, 1 to 65,536.
    """

    change_retention_s: Annotated[
        int, IntegerVariable("WAGGLE_CHANGE_RETENTION_S", least=_HOUR_S, greatest=10 * _YEAR_S)
    ] = _DAY_S
    compaction_interval_s: Annotated[
        int, IntegerVariable("WAGGLE_COMPACTION_INTERVAL_S", least=0, greatest=_YEAR_S)
    ] = _DAY_S
    compaction_idle_s: Annotated[int, IntegerVariable("WAGGLE_COMPACTION_IDLE_S", least=0, greatest=_DAY_S)] = 60
    snapshot_ttl_s: Annotated[
        int, IntegerVariable("WAGGLE_SNAPSHOT_TTL_S", least=1, greatest=SNAPSHOT_TTL_MS_MAX // 1000)
    ] = SNAPSHOT_TTL_MS_DEFAULT // 1000
    snapshots_max: Annotated[int, IntegerVariable("WAGGLE_SNAPSHOTS_MAX", least=1, greatest=65_536)] = (
        PINNED_MAX_DEFAULT
    )

    def options(self, *, free_bytes_min: int | None) -> StoreOptions:
        """Return what the store takes; `free_bytes_min` as there."""
        return StoreOptions(
            free_bytes_min=free_bytes_min,
            snapshots_max=self.snapshots_max,
            snapshot_ttl_ms=1000 * self.snapshot_ttl_s,
            upkeep=UpkeepOptions(
                change_retention_ms=1000 * self.change_retention_s,
                compaction=CompactionSchedule(1000 * self.compaction_interval_s, 1000 * self.compaction_idle_s),
            ),
        )
