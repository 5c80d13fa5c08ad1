"""What never reaches a log."""

from __future__ import annotations

import pytest

from services.runtime.logging import redact_event

TOKEN = "qdb1_" + "0" * 32 + "_" + "A" * 43


@pytest.mark.parametrize("prefix", ["qdb1", "qdbg1", "qdbst1", "qdbsg1"])
def test_tokens_are_blanked_inside_any_text(prefix: str) -> None:
    """A token that slips into a message, such as an exception's, is not written."""
    event = redact_event(None, "info", {"event": f"bad header {prefix}_{'0' * 32}_{'x' * 43} seen"})
    assert "bad header [redacted] seen" == event["event"]


@pytest.mark.parametrize("member", ["authorization", "secret", "token", "text", "payload", "vector"])
def test_secret_members_are_blanked_whatever_they_hold(member: str) -> None:
    """Members that carry secrets or memory content are blanked by name."""
    assert "[redacted]" == redact_event(None, "info", {member: "harmless"})[member]


def test_other_members_stay() -> None:
    """Redaction leaves the rest of the event alone."""
    event = {"event": "rpc", "method": "/m", "ms": 1.5}
    assert redact_event(None, "info", event) == {"event": "rpc", "method": "/m", "ms": 1.5}
