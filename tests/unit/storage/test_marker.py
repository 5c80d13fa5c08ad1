"""The marker is written whole and read back, or refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from services.storage.marker import MARKER_NAME, Marker, MarkerDamaged, MarkerMissing, read_marker, write_marker

MARKER = Marker("11111111-2222-4333-8444-555555555555", 1, "leveldb", 7)


def test_a_marker_comes_back_as_written(tmp_path: Path) -> None:
    """A later one replaces the former, and no draft stays behind."""
    write_marker(tmp_path, MARKER)
    write_marker(tmp_path, MARKER._replace(sequence=8))
    assert (read_marker(tmp_path), [path.name for path in tmp_path.iterdir()]) == (
        MARKER._replace(sequence=8),
        [MARKER_NAME],
    )


def test_a_missing_marker_is_not_a_damaged_one(tmp_path: Path) -> None:
    """The two have errors of their own."""
    with pytest.raises(MarkerMissing):
        read_marker(tmp_path)


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"[]", b"null", b"\xff", b'{"store_id": "x", "format_version": 1, "engine": "y"}']
)
def test_anything_else_is_refused(tmp_path: Path, content: bytes) -> None:
    """What is not a marker, in any way, is damaged."""
    (tmp_path / MARKER_NAME).write_bytes(content)
    with pytest.raises(MarkerDamaged):
        read_marker(tmp_path)


def test_every_cut_and_every_changed_digit_is_refused(tmp_path: Path) -> None:
    """The checksum covers what the marker says."""
    write_marker(tmp_path, MARKER)
    whole = (tmp_path / MARKER_NAME).read_bytes()
    for damaged in (*(whole[:length] for length in range(len(whole) - 2)), whole.replace(b"7", b"6")):
        (tmp_path / MARKER_NAME).write_bytes(damaged)
        with pytest.raises(MarkerDamaged):
            read_marker(tmp_path)
