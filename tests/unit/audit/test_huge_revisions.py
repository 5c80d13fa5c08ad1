"""A damaged revision may be any number of 64 bits: it is named, and costs neither memory nor the audit."""

from __future__ import annotations

import pytest

from services.audit.findings import Findings
from services.audit.histories import check_history
from services.audit.records import judge_revisions
from services.audit.stored_values import Unsound
from services.identity.history import Event

U64_MAX = 2**64 - 1


@pytest.mark.parametrize("newest", [3, 2**40, U64_MAX])
def test_steps_that_do_not_lead_to_the_present_revision_are_named(newest: int) -> None:
    """Whatever the number, the first that is missing is told."""
    findings = Findings(None)
    judge_revisions("record", "r", [1, 2], newest, findings)
    (finding,) = findings.items
    assert f"revision {newest}" in finding.problem
    assert "3 is missing" in finding.problem


@pytest.mark.parametrize("revision", [2, 2**40, U64_MAX])
def test_a_history_that_is_shorter_than_its_revision_is_broken(revision: int) -> None:
    """Of credentials and accounts."""
    with pytest.raises(Unsound, match="broken history"):
        check_history(revision, (Event(1, "issued", "actor", 1),), None)
