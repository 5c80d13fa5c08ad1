"""Canonical JSON: the one spelling of a value that is stored, counted and digested.

RFC 8785 in style: UTF-8, no white space, members sorted, shortest numbers that round-trip. Three differences, see
docs/decisions/0002: members sort by code point, 64-bit integers keep all their digits, and a float always has a
fraction or an exponent.
"""

from __future__ import annotations

import hashlib
import re
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import orjson

_STRING_OR_PLUS: Final = re.compile(rb'"(?:[^"\\]|\\.)*"|e\+')


def canonical_bytes(value: Any) -> bytes:
    """Encode a JSON value canonically.

    Args:
        value: Nested dict (str keys), list, str, int within 64 bits, finite float, bool or None.

    Raises:
        TypeError: Something in it has no JSON form.
    """
    return _spelled(orjson.dumps(value, option=orjson.OPT_SORT_KEYS))


def vector_bytes(vector: npt.NDArray[np.float32]) -> bytes:
    """Encode a vector, (dimensions,) float32, as an array of the shortest decimals that round-trip each value."""
    return _spelled(orjson.dumps(np.ascontiguousarray(vector), option=orjson.OPT_SERIALIZE_NUMPY))


def _spelled(text: bytes) -> bytes:
    # Releases of orjson differ in one thing: some write a plus sign before a positive exponent.
    if b"e+" not in text:
        return text
    return _STRING_OR_PLUS.sub(lambda found: b"e" if found[0] == b"e+" else found[0], text)


def parse_canonical(data: bytes) -> Any:
    """Decode what `canonical_bytes` made."""
    return orjson.loads(data)


def digest_bytes(tag: str, data: bytes) -> str:
    """SHA-256 over a domain-separation tag and canonical bytes, as 64 lowercase hexadecimal digits.

    Args:
        tag: Says what is digested, for example "waggle.relation.v1"; two tags never give the same digest.
        data: Canonical bytes.
    """
    return hashlib.sha256(tag.encode() + b"\x00" + data).hexdigest()


def digest_value(tag: str, value: Any) -> str:
    """`digest_bytes` of the value's canonical bytes."""
    return digest_bytes(tag, canonical_bytes(value))
