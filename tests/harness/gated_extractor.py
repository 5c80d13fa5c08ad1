"""An extractor for `waggle worker` that does what files in a directory say; GATE_DIRECTORY names it.

Each call makes a file `called-N`. While `hold` exists, a call does not return. While `wrong` exists, it asserts what no
server accepts; else that the first source is the same entity as the second.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from qilbeedb import ConsolidationInput, ConsolidationResult
from tests.harness.suite import wait_until

EXTRACTOR: dict[str, Any] = {"origin": "tool_observation", "method": "test", "method_revision": "1", "model": None}


def extract(given: ConsolidationInput) -> ConsolidationResult:
    """See the module."""
    directory = Path(os.environ["GATE_DIRECTORY"])
    (directory / f"called-{len(list(directory.glob('called-*')))}").touch()
    wait_until(lambda: not (directory / "hold").exists(), "the extractor may go on")
    source, target = given.spec["sources"][:2]
    kind = "likes" if (directory / "wrong").exists() else "same_entity"
    found = {"source": source, "target": target, "kind": kind, "evidence_ref": "seen"}
    return ConsolidationResult([found], {"status": "unknown"}, "run")
