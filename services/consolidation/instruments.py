"""What consolidation counts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from prometheus_client import Counter

from services.domain.errors import WaggleError
from services.runtime.metrics import REGISTRY

JOB_COMMANDS: Final = Counter(
    "waggle_job_commands",
    "Commands on jobs by operation and outcome: accepted, or the documented code of the refusal.",
    ("operation", "outcome"),
    registry=REGISTRY,
)


@contextmanager
def counted(operation: str) -> Iterator[None]:
    """Count what becomes of one command.

    Args:
        operation: As the receipt of its success names it, "recovered" for example.
    """
    try:
        yield
    except WaggleError as error:
        JOB_COMMANDS.labels(operation, error.reason).inc()
        raise
    JOB_COMMANDS.labels(operation, "accepted").inc()
