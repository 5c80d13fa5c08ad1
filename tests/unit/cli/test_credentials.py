"""What the table of credentials says."""

from __future__ import annotations

from typing import Any

import pytest

from cli.credentials import _state_in_words


def credential(expires_at_millis: int | None) -> dict[str, Any]:
    """A credential that was not revoked."""
    return {"revoked_at_millis": None, "spec": {"expires_at_millis": expires_at_millis}}


@pytest.mark.parametrize(
    ("expires_at_millis", "words"),
    [
        (None, "active"),
        (4_102_444_800_000, "active until 2100-01-01 00:00:00Z"),
        (2**63 - 1, "active until 9223372036854775807 ms"),
    ],
)
def test_every_expiry_that_the_contract_allows_is_told(expires_at_millis: int | None, words: str) -> None:
    """Times are 64-bit numbers; what no calendar holds is told as it is."""
    assert words == _state_in_words(credential(expires_at_millis))
