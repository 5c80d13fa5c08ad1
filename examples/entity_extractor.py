"""An external extractor without a model: memories that record the same file, ticket or host are about the same thing.

    python -m examples.entity_extractor --url URL --company C --subject S --project P --agent A --journal DIR JOB

The credential is read from WAGGLE_KEY. What counts as recorded:

* a tag or a text member of the metadata named `file`, `ticket` or `host` ("file:cli/main.py");
* in the text, a path with a slash and an ending, a ticket such as BEE-42 or PEP 8, a host name of three parts or more.

For each such thing the memories that record it are linked in the order of their events, each to the next. One assertion
joins a pair, and its evidence names everything that the two share.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import Any

from examples.arguments import parse_arguments, run_job
from qilbeedb import ConsolidationInput, ConsolidationResult

# Goes into `spec.extractor` of a job for this extractor, with an evidence_ref of the job's own.
EXTRACTOR: dict[str, Any] = {
    "origin": "tool_observation",
    "method": "shared_reference",
    "method_revision": "1",
    "model": None,
}

NO_MODEL = {"status": "reported", "model_calls": 0, "input_tokens": 0, "output_tokens": 0, "cost_microusd": 0}
EVIDENCE_BYTES_MAX = 2048

_NAMES = ("file", "ticket", "host")
_PATTERNS = {
    "file": re.compile(r"(?<![\w/.:-])(?:[\w.-]+/)+[\w-]+(?:\.[\w-]+)*\.[A-Za-z]\w{0,9}(?![\w/])"),
    # Encodings, digests and standards look like tickets, and everybody records them.
    "ticket": re.compile(
        r"(?<![\w-])(?!(?:AES|ISO|SHA|UTF)-)[A-Z][A-Z0-9]{1,9}-[1-9]\d{0,6}(?![\w-])|\b(?:PEP|RFC) [1-9]\d{0,5}\b"
    ),
    "host": re.compile(r"(?<![\w@/.-])(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?\.){2,}[a-z]{2,}(?![\w/.-])"),
}
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def extract(given: ConsolidationInput) -> ConsolidationResult:
    """Link memories that record the same thing; at most `max_relations` pairs, those that share most first."""
    return ConsolidationResult(
        assertions=assertions_between(given.records, given.spec["max_relations"]),
        usage=dict(NO_MODEL),
        evidence_ref=f"{EXTRACTOR['method']}/{EXTRACTOR['method_revision']} attempt {given.attempt_id}",
    )


def assertions_between(records: list[dict[str, Any]], count_max: int) -> list[dict[str, Any]]:
    """Return the documented assertions between records that record the same things. Pure."""
    by_entity: dict[str, list[int]] = {}
    for position in sorted(range(len(records)), key=lambda at: (records[at]["payload"]["event_time_millis"], at)):
        for entity in entities_of(records[position]):
            by_entity.setdefault(entity, []).append(position)
    shared: dict[tuple[int, int], list[str]] = {}
    for entity in sorted(by_entity):
        positions = by_entity[entity]
        for pair in itertools.pairwise(positions):
            shared.setdefault(pair, []).append(entity)
    chosen = sorted(shared, key=lambda pair: (-len(shared[pair]), pair))[:count_max]
    return [
        {
            "source": _reference(records[source]),
            "target": _reference(records[target]),
            "kind": "same_entity",
            "valid_from_millis": None,
            "valid_until_millis": None,
            "evidence_ref": _evidence(shared[source, target]),
        }
        for source, target in chosen
    ]


def entities_of(record: dict[str, Any]) -> set[str]:
    """Return what a record names, each as "file:...", "ticket:..." or "host:..."."""
    return {
        f"{name}:{value}" for name, value in _named(record["payload"]) if value.strip() and not _CONTROL.search(value)
    }


def _named(payload: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for tag in payload.get("tags", []):
        name, separator, value = tag.partition(":")
        if separator and name in _NAMES:
            yield name, value
    for name, value in payload.get("metadata", {}).items():
        if name in _NAMES and isinstance(value, str):
            yield name, value
    content = payload["content"]
    for text in (content["primary"], content.get("secondary"), content.get("context")):
        for name, pattern in _PATTERNS.items():
            for found in pattern.findall(text or ""):
                yield name, found.replace(" ", "-")


def _reference(record: dict[str, Any]) -> dict[str, Any]:
    return {"record_id": record["record_id"], "revision": record["revision"]}


def _evidence(entities: list[str]) -> str:
    text = "; ".join(entities)
    return text.encode("utf-8")[:EVIDENCE_BYTES_MAX].decode("utf-8", "ignore")


if __name__ == "__main__":
    run_job(parse_arguments(__doc__ or ""), extract)
