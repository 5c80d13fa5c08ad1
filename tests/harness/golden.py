"""Whole answers as files: what may differ between two runs is replaced by a word, everything else must be equal.

`WAGGLE_WRITE_GOLDEN=1` writes the files anew; what then changes in them is a change of the contract and is read as one.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

DIRECTORY = Path(__file__).resolve().parents[1] / "golden"
WRITE_VARIABLE = "WAGGLE_WRITE_GOLDEN"

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_HEX64 = re.compile(r"[0-9a-f]{64}")
_SECRET = re.compile(r"qdbg?1_[0-9a-f]{32}_[A-Za-z0-9_-]{43}")
_MILLIS = re.compile(r"(.*_)?at_millis")
# The digest of a vector is documented; all others are opaque.
_KEPT = "vector_digest"


def settled(value: Any, labels: dict[str, str], member: str = "") -> Any:
    """Replace what differs between runs.

    Args:
        labels: Text -> word, for identifiers that the reader should recognise.
    """
    if isinstance(value, dict):
        return {name: settled(inner, labels, name) for name, inner in value.items()}
    if isinstance(value, list):
        return [settled(inner, labels) for inner in value]
    if isinstance(value, str) and member != _KEPT:
        return _settled_text(value, labels, member)
    if type(value) is int and _MILLIS.fullmatch(member):
        return "<millis>"
    if type(value) is int and member.endswith("micros"):
        return "<micros>"
    return value


def _settled_text(value: str, labels: dict[str, str], member: str) -> str:
    if value in labels:
        return labels[value]
    if member == "idempotency_key":
        return "<key>"
    if member == "next_cursor":
        return "<cursor>"
    if member.endswith("micros"):
        return "<micros>"
    if _HEX64.fullmatch(value):
        return "<hex64>"
    if _SECRET.fullmatch(value):
        return "<secret>"
    return _UUID.sub("<uuid>", value)


def assert_golden(name: str, value: Any) -> None:
    """Compare a settled value with its file, as text: 1 is not 1.0, and every member counts."""
    path = DIRECTORY / f"{name}.json"
    text = json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
    if os.environ.get(WRITE_VARIABLE):
        path.write_text(text, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == text
