"""The retrieval service as a process: how it refuses to start, and outlives storage and itself."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.harness.api import Api
from tests.harness.suite import Suite

ROOT = Path(__file__).parents[2]
START_LIMIT_S = 30


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("QILBEE_MAX_EMBEDDING_DIMENSIONS", "0"),
        ("QILBEE_MAX_RETRIEVAL_SCAN_BYTES", "8388607"),
        ("QILBEE_MAX_CONCURRENT_RETRIEVALS", "65"),
        ("WAGGLE_STORAGE_ADDRESS", ""),
    ],
)
def test_an_invalid_setting_stops_startup(tmp_path: Path, name: str, value: str) -> None:
    """Ends with code 3 and a sentence that names the setting."""
    environment = {
        **os.environ,
        "WAGGLE_STORAGE_ADDRESS": f"unix:{tmp_path}/s.sock",
        "WAGGLE_VERIFIER_KEY_FILE": str(tmp_path / "verifier.key"),
        name: value,
    }
    ended = subprocess.run(
        [sys.executable, "-m", "services.retrieval", "--listen", f"unix:{tmp_path}/r.sock"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        timeout=START_LIMIT_S,
        check=False,
    )
    assert ended.returncode == 3
    assert name.encode() in ended.stderr


def found(api: Api, text: str) -> list[str]:
    """Ids that a lexical search finds."""
    body = {"mode": "lexical", "query": {"text": text, "limit": 100}}
    hits: list[dict[str, Any]] = api.expect("memory/search/lexical", body)["page"]["hits"]
    return sorted(hit["record"]["record_id"] for hit in hits)


def test_searches_go_on_after_storage_and_retrieval_were_killed(fresh_suite: Suite, fresh_api: Api) -> None:
    """Nothing acknowledged is missing, whatever is remembered of the store that died."""
    ids = [fresh_api.create("bee")["record_id"]]
    assert found(fresh_api, "bee") == ids
    for name in ("storage", "retrieval", "storage"):
        fresh_suite.kill(name)
        fresh_suite.wait_healthy()
        ids = sorted([*ids, fresh_api.create("bee")["record_id"]])
        assert found(fresh_api, "bee") == ids
