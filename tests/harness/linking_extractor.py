"""An extractor for `waggle worker` that asserts what can be told from the job alone: its sources are one entity.

The evidence names the job and the attempt, so that a relation says who published it.
"""

from __future__ import annotations

from typing import Any

from qilbeedb import ConsolidationInput, ConsolidationResult

EXTRACTOR: dict[str, Any] = {"origin": "tool_observation", "method": "linking", "method_revision": "1", "model": None}


def extract(given: ConsolidationInput) -> ConsolidationResult:
    """See the module."""
    source, target = given.spec["sources"]
    found = {
        "source": source,
        "target": target,
        "kind": "same_entity",
        "evidence_ref": f"{given.job_id} {given.attempt_id}",
    }
    usage = {"status": "reported", "model_calls": 1, "input_tokens": 2**64 - 1, "output_tokens": 0, "cost_microusd": 0}
    return ConsolidationResult([found], usage, f"run {given.attempt_id}")
