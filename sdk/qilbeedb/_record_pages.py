"""Pages and batches of records."""

from __future__ import annotations

from typing import Any

from qilbeedb._checks import MILLIS, array, choice, closed, integer, nullable, uuid
from qilbeedb._errors import refuse
from qilbeedb._identities import DEPENDENCY_WORK
from qilbeedb._records import served_record

_WORK = {"dependency_work": DEPENDENCY_WORK}

RECORD_PAGE = closed(
    {"records": array(served_record, 0, 1000), "next_after": nullable(uuid), "scanned_records": integer(0, 10_000)},
    _WORK,
)


def _cursor(value: Any) -> None:
    """An opaque lower-case hexadecimal position."""
    if not isinstance(value, str) or not 0 < len(value) <= 1024 or value.strip("0123456789abcdef"):
        refuse()


ORDERED_PAGE = closed(
    {
        "stop_reason": choice("exhausted", "record_limit", "scan_limit", "byte_limit"),
        "evaluated_at_millis": MILLIS,
        "scanned_records": integer(0, 10_000),
        "record_bytes": integer(0, 8_388_608),
        "dependency_work": DEPENDENCY_WORK,
        "next_cursor": nullable(_cursor),
        "records": array(served_record, 0, 100),
    }
)
BATCH = closed(
    {
        "evaluated_at_millis": MILLIS,
        "entries": array(closed({"record_id": uuid, "record": nullable(served_record)}), 1, 100),
        "record_bytes": integer(0, 8_388_608),
        "dependency_work": DEPENDENCY_WORK,
    }
)
