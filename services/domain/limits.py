"""Bounds that rules share. Bounds of single request members stand in the protos."""

from __future__ import annotations

# The last revision that anything can have.
REVISION_MAX = 2**64 - 1

# Ancestry of one record: dependency edges from the root, and distinct source ids.
ANCESTRY_DEPTH_MAX = 8
ANCESTRY_NODES_MAX = 64

# Dependency work of one request.
DEPENDENCY_RECORDS_MAX = 4096
DEPENDENCY_BYTES_MAX = 16 * 1024 * 1024

# Canonical record bytes and relation bytes that one read, batch or graph may examine.
RECORD_BYTES_MAX = 8 * 1024 * 1024
RELATION_BYTES_MAX = 4 * 1024 * 1024

# A record, serialized: far above what the body bound of the JSON route lets through.
RECORD_VALUE_BYTES_MAX = 1024 * 1024

# A relation, and each value of its history, serialized.
RELATION_VALUE_BYTES_MAX = 16 * 1024

# A job, and each value of its history, serialized.
JOB_VALUE_BYTES_MAX = 512 * 1024
JOB_HISTORY_BYTES_MAX = 1024 * 1024

# Canonical job bytes that one page of a list may examine.
JOB_PAGE_BYTES_MAX = 4 * 1024 * 1024

# Calendar range of event times: 0001-01-01T00:00:00.000Z to 9999-12-31T23:59:59.999Z (docs/decisions/0002).
EVENT_TIME_MIN_MILLIS = -62_135_596_800_000
EVENT_TIME_MAX_MILLIS = 253_402_300_799_999

# The largest finite float32.
FLOAT32_MAX = 3.4028234663852886e38
