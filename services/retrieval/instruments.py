"""What retrieval counts of its replica."""

from __future__ import annotations

from typing import Final

from prometheus_client import Counter, Gauge, Histogram

from services.runtime.metrics import REGISTRY

REPLICA_PARTITIONS: Final = Gauge("waggle_replica_partitions", "Partitions held in memory.", registry=REGISTRY)
REPLICA_BYTES: Final = Gauge("waggle_replica_bytes", "Estimated memory of these partitions.", registry=REGISTRY)
REPLICA_EVICTIONS: Final = Counter(
    "waggle_replica_evictions", "Partitions dropped to stay within the memory budget.", registry=REGISTRY
)
REPLICA_LOAD_SECONDS: Final = Histogram(
    "waggle_replica_load_seconds",
    "Time to read a partition whole from storage.",
    buckets=(0.05, 0.1, 0.25, 0.5, 1.0, 1.5, 2.5, 5.0, 10.0, 30.0),
    registry=REGISTRY,
)
REPLICA_LAG_COMMITS: Final = Histogram(
    "waggle_replica_lag_commits",
    "Commits that a loaded partition was behind when a request met it; the request applies them first.",
    buckets=(0, 1, 2, 5, 10, 50, 100, 1000),
    registry=REGISTRY,
)
