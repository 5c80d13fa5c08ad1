"""How much must stay free."""

from __future__ import annotations

import pytest

from services.storage.volume import free_bytes_min

MIB = 1024 * 1024
GIB = 1024 * MIB


@pytest.mark.parametrize(
    ("total", "configured", "expected"),
    [
        (500 * GIB, None, 64 * MIB),
        (1 * GIB, None, GIB // 50),
        (100 * MIB, None, 4 * MIB),
        (10 * MIB, None, 10 * MIB // 4),
        (2 * MIB, None, MIB // 2),
        (500 * GIB, 5 * GIB, 5 * GIB),
        (500 * GIB, 0, 0),
    ],
)
def test_the_reserve_fits_the_volume(total: int, configured: int | None, expected: int) -> None:
    """64 MiB, or 2% of a smaller volume, with a floor that a tiny volume can bear; the operator's word rules."""
    assert free_bytes_min(total, configured) == expected
