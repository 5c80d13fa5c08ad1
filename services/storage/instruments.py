"""What storage counts and measures."""

from __future__ import annotations

from typing import Final

from prometheus_client import Counter, Gauge, Histogram

from services.runtime.metrics import REGISTRY, SECONDS_BUCKETS

BATCH_COMMITS: Final = Histogram(
    "waggle_storage_batch_commits",
    "Commits that one group commit decided.",
    buckets=(1, 2, 4, 8, 16, 32, 64, 128, 256),
    registry=REGISTRY,
)
SYNC_SECONDS: Final = Histogram(
    "waggle_storage_sync_seconds",
    "Time to write one batch and sync it.",
    buckets=SECONDS_BUCKETS,
    registry=REGISTRY,
)
COMMITS: Final = Counter(
    "waggle_storage_commits",
    "Commits by outcome: durable, refused, or unavailable (refused or unknown).",
    ("outcome",),
    registry=REGISTRY,
)
for outcome in ("durable", "refused", "unavailable"):
    # A series that begins with its first event shows no increase at it, and an alert on it would not fire.
    COMMITS.labels(outcome)
WAITING_COMMITS: Final = Gauge(
    "waggle_storage_waiting_commits", "Commits that wait for the committer.", registry=REGISTRY
)
OPEN_SNAPSHOTS: Final = Gauge("waggle_storage_open_snapshots", "Pinned snapshots.", registry=REGISTRY)
FREE_BYTES: Final = Gauge("waggle_storage_free_bytes", "Free bytes of the volume of the store.", registry=REGISTRY)
SEQUENCE: Final = Gauge("waggle_storage_sequence", "Sequence of the newest durable commit.", registry=REGISTRY)
RESERVE_BYTES: Final = Gauge(
    "waggle_storage_reserve_bytes", "Free bytes below which writes are refused.", registry=REGISTRY
)
