"""The marker beside the engine's directory: which store belongs here, and a commit that it certainly holds."""

from __future__ import annotations

import os
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final, NamedTuple

import orjson

MARKER_NAME: Final = "store.json"
_DRAFT_NAME: Final = "store.json.draft"


class MarkerMissing(Exception):
    """There is no marker."""


class MarkerDamaged(Exception):
    """The marker is not what was written."""


class Marker(NamedTuple):
    """What the marker says."""

    store_id: str
    """UUID of the store, made when it was created."""
    format_version: int
    engine: str
    """Name of the engine in the registry."""
    sequence: int
    """Sequence of a commit that was durable when the marker was written."""


def read_marker(directory: Path) -> Marker:
    """Read the marker of a data directory.

    Raises:
        MarkerMissing: There is none.
        MarkerDamaged: It is truncated, changed or not a marker.
        OSError: It cannot be read.
    """
    try:
        raw = (directory / MARKER_NAME).read_bytes()
    except FileNotFoundError as error:
        raise MarkerMissing(f"{MARKER_NAME} is missing") from error
    try:
        stored: dict[str, Any] = orjson.loads(raw)
        marker = Marker(**{name: stored[name] for name in Marker._fields})
        if stored["checksum"] != _checksum(marker):
            raise MarkerDamaged(f"{MARKER_NAME} does not agree with its checksum")
    except (ValueError, TypeError, KeyError) as error:
        raise MarkerDamaged(f"{MARKER_NAME} cannot be read") from error
    return marker


def write_marker(directory: Path, marker: Marker) -> None:
    """Replace the marker so that, whatever happens, the old or the new one is there. Raises OSError."""
    draft = directory / _DRAFT_NAME
    body = orjson.dumps({**marker._asdict(), "checksum": _checksum(marker)}, option=orjson.OPT_INDENT_2) + b"\n"
    with draft.open("wb") as file:
        file.write(body)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(directory / MARKER_NAME)
    sync_directory(directory)


def sync_directory(directory: Path) -> None:
    """Make renames inside a directory durable. Raises OSError."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _checksum(marker: Marker) -> str:
    return blake2b(orjson.dumps(marker._asdict(), option=orjson.OPT_SORT_KEYS), digest_size=16).hexdigest()
