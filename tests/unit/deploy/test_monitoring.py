"""The rules and the dashboard speak of metrics that the processes really have."""

from __future__ import annotations

import json
import re
from importlib import import_module
from pathlib import Path
from typing import get_args

import yaml

from services.domain.receipts import JobAction
from services.runtime.metrics import REGISTRY

MONITORING = Path(__file__).resolve().parents[3] / "deploy" / "monitoring"
# What Prometheus itself or its client library adds.
FOREIGN = {"up", "process_start_time_seconds", "process_resident_memory_bytes", "process_cpu_seconds_total"}
WORD = re.compile(r"\b(?:waggle|process)_[a-z_]+\b|\bup\b")


def known_names() -> set[str]:
    """Names of all samples of all services."""
    for service in ("consolidation", "gateway", "retrieval", "storage"):
        import_module(f"services.{service}.instruments")
    names = set(FOREIGN)
    for family in REGISTRY.collect():
        suffixes = {"histogram": ("_bucket", "_count", "_sum"), "counter": ("_total",)}.get(family.type, ("",))
        names.update(family.name + suffix for suffix in suffixes)
    return names


def test_every_alert_asks_for_what_there_is() -> None:
    """A rule over a name that no process has would never fire."""
    rules = yaml.safe_load((MONITORING / "alerts.yaml").read_text(encoding="utf-8"))["groups"][0]["rules"]
    used = {name for rule in rules for name in WORD.findall(rule["expr"])}
    assert set() == used - known_names()
    assert 18 == len({rule["alert"] for rule in rules})


def test_alerts_about_jobs_name_what_is_counted() -> None:
    """A label value that no process writes would never fire either; commands are counted by what they do."""
    counted = set(get_args(JobAction))
    text = (MONITORING / "alerts.yaml").read_text(encoding="utf-8")
    asked = set(re.findall(r'waggle_job_commands_total\{operation="([a-z_]+)"', text))
    assert asked
    assert asked <= counted


def test_every_panel_asks_for_what_there_is() -> None:
    """A panel over a name that no process has would stay empty."""
    panels = json.loads((MONITORING / "dashboard.json").read_text(encoding="utf-8"))["panels"]
    used = {name for panel in panels for target in panel["targets"] for name in WORD.findall(target["expr"])}
    assert set() == used - known_names()
    # Everything that is measured can be seen.
    shown = {name for name in known_names() if name.startswith("waggle_")}
    families = {re.sub(r"_(bucket|count|sum|total)$", "", name) for name in shown}
    assert set() == families - {re.sub(r"_(bucket|count|sum|total)$", "", name) for name in used}


def test_every_alert_is_explained_to_the_operator() -> None:
    """docs/operations.md has a line for each."""
    text = (MONITORING.parents[1] / "docs" / "operations.md").read_text(encoding="utf-8")
    rules = yaml.safe_load((MONITORING / "alerts.yaml").read_text(encoding="utf-8"))["groups"][0]["rules"]
    assert [] == [rule["alert"] for rule in rules if f"`{rule['alert']}`" not in text]
