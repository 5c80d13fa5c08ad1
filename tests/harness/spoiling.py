"""Every way to spoil one member of a JSON document, for checks that must notice each of them."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

Path = tuple[str | int, ...]

STRANGER: Any = {"unknown": {}}


def spoiled(document: Any, *, free: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Yield (what was done, the spoiled document): members taken away, added and replaced by another type.

    Args:
        document: A valid document.
        free: Names of members that may hold anything; they and what lies below them are left alone.
    """
    for path in _paths(document, free):
        where = "/".join(map(str, path))
        if path:
            yield f"{where} replaced", _changed(document, path, STRANGER)
        value = _at(document, path)
        if isinstance(value, dict):
            yield f"{where} with another member", _changed(document, path, {**value, "unknown": 1})
            yield f"{where} as an array", _changed(document, path, [value])
        if isinstance(value, bool) or value is None:
            yield f"{where} as a number", _changed(document, path, 0)
        elif isinstance(value, int):
            yield f"{where} as a float", _changed(document, path, value + 0.5)
            yield f"{where} as text", _changed(document, path, str(value))
            yield f"{where} as a boolean", _changed(document, path, value == 1)


def without(document: Any, *, free: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Yield (path, the document without the member there) for every member of every object."""
    for path in _paths(document, free):
        if path and isinstance(path[-1], str):
            changed = copy.deepcopy(document)
            del _at(changed, path[:-1])[path[-1]]
            yield "/".join(map(str, path)), changed


def _paths(value: Any, free: tuple[str, ...], path: Path = ()) -> Iterator[Path]:
    yield path
    if isinstance(value, dict):
        for name, item in value.items():
            if name not in free:
                yield from _paths(item, free, (*path, name))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _paths(item, free, (*path, index))


def _at(document: Any, path: Path) -> Any:
    for step in path:
        document = document[step]
    return document


def _changed(document: Any, path: Path, value: Any) -> Any:
    if not path:
        return value
    changed = copy.deepcopy(document)
    _at(changed, path[:-1])[path[-1]] = value
    return changed
