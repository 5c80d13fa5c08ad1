"""Fault points do nothing until a test arms them."""

from __future__ import annotations

from pathlib import Path

import pytest

from services.runtime import fault_points
from services.runtime.fault_points import FaultInjected, fault_point, parse_fault_points


def test_an_unarmed_point_does_nothing() -> None:
    """Without the environment variable no point acts."""
    fault_point("storage.commit.before_write")


def test_an_armed_point_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    """`name=error` makes that point raise, and no other."""
    monkeypatch.setattr(fault_points, "_armed", parse_fault_points("a=error"))
    fault_point("b")
    with pytest.raises(FaultInjected):
        fault_point("a")


def test_a_point_can_act_on_one_passing_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """`@2` lets the first and the third passing through."""
    monkeypatch.setattr(fault_points, "_armed", parse_fault_points("a=error@2"))
    fault_point("a")
    with pytest.raises(FaultInjected):
        fault_point("a")
    fault_point("a")


def test_a_point_can_be_armed_from_outside(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """`?FILE` acts on the next passing after the file was made, and takes it away."""
    trigger = tmp_path / "trigger"
    monkeypatch.setattr(fault_points, "_armed", parse_fault_points(f"a=error?{trigger}"))
    fault_point("a")
    trigger.touch()
    with pytest.raises(FaultInjected):
        fault_point("a")
    assert not trigger.exists()
    fault_point("a")


@pytest.mark.parametrize("text", ["a", "a=explode", "=kill", "a=error@x", "a=error?"])
def test_a_bad_setting_stops_the_process(text: str) -> None:
    """A misspelt setting is an error, not a test that silently proves nothing."""
    with pytest.raises(ValueError):
        parse_fault_points(text)
