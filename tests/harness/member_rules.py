"""Kinds of request members as the contract defines them: values at the edge of the bounds, and values one beyond.

Written by hand from the contract's tables, not from the descriptors that the product compiles its checks from.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

U64_MAX, I64_MAX = 2**64 - 1, 2**63 - 1
FLOAT32_MAX = 3.4028234663852886e38
INVALID = "invalid_request"

Json = dict[str, Any]


class Absent:
    """The member is left out."""

    def __repr__(self) -> str:
        return "absent"


@dataclass(frozen=True, slots=True)
class Raw:
    """A value spelled as given, for what Python's own writer would not write."""

    text: str


ABSENT = Absent()


@dataclass(frozen=True, slots=True)
class Rule:
    """What a member may be.

    Attributes:
        good: Accepted values, the edges among them.
        bad: Refused values, those one beyond the edges among them.
        code: Code of the refusal of a value of the right type.
        is_required: The member must be there.
        is_nullable: Null means that it is not there.
    """

    good: tuple[Any, ...]
    bad: tuple[Any, ...]
    code: str = INVALID
    is_required: bool = True
    is_nullable: bool = False

    @property
    def accepted(self) -> tuple[Any, ...]:
        return (*self.good, *(() if self.is_required else (ABSENT,)), *((None,) if self.is_nullable else ()))

    @property
    def refused(self) -> tuple[Any, ...]:
        return (*self.bad, *((ABSENT,) if self.is_required else ()), *(() if self.is_nullable else (None,)))

    def optional(self) -> Rule:
        """The same, may be left out, but not null."""
        return replace(self, is_required=False)

    def nullable(self) -> Rule:
        """The same, may be left out or null."""
        return replace(self, is_required=False, is_nullable=True)

    def without(self, *good: Any) -> Rule:
        """The same without accepted values that the place excludes for another reason."""
        return replace(self, good=tuple(value for value in self.good if value not in good))


def text(bytes_max: int, *, may_be_blank: bool = False) -> Rule:
    """A string of 1 to `bytes_max` UTF-8 bytes, without control characters, not blank unless it may be."""
    blank = (" ", "\u3000", " \u00a0 ")
    pair = "é" * (bytes_max // 2)
    good = ("x", "x" * bytes_max, pair, " x ", "\u2028x", "\U0001f41d", *(blank if may_be_blank else ()))
    bad = ("", "x" * (bytes_max + 1), pair + "é", "a\nb", "a\x00", "\x7f", "a\u0085", 1, True, [], {}, ["x"])
    lone = (Raw('"\\ud800"'),)
    return Rule(good, (*bad, *lone, *(() if may_be_blank else blank)))


def integer(least: int, greatest: int, *, code: str = INVALID) -> Rule:
    """An integer in plain digits."""
    spelled = ("1.0", "1e1", "01", "+1", '"1"', "1.5", "true", "[1]", "{}", "NaN", "1" * 400)
    outside = (least - 1, greatest + 1, 2**64, -(2**63) - 1)
    return Rule((least, greatest), (*outside, *map(Raw, spelled)), code)


def words(*accepted: str) -> Rule:
    """One of the documented words."""
    near = (accepted[0].upper(), accepted[0].capitalize(), accepted[0] + " ", accepted[0][:-1])
    return Rule(accepted, (*(word for word in near if word not in accepted), "", 0, 1, True, [accepted[0]], {}))


REVISION = integer(1, U64_MAX)
MILLIS = integer(-(2**63), I64_MAX)
# Years 1 to 9999.
EVENT_TIME = integer(-62_135_596_800_000, 253_402_300_799_999)
NAME = text(256)
KEY = NAME
REFERENCE = text(2048)
SPACE_NAME = text(256, may_be_blank=True)
VERSION = Rule((1,), (0, 2, -1, 2**32 + 1, U64_MAX, 2**64), "unsupported_contract_version")
VERSION_TYPE = Rule((1,), (Raw("1.0"), Raw('"1"'), Raw("true"), Raw("[1]")))
UUID = Rule(
    (
        "00000000-0000-4000-8000-00000000dead",
        "00000000-0000-4000-8000-00000000DEAD",
        "f" * 8 + "-ffff" * 3 + "-" + "f" * 12,
    ),
    (
        "",
        "dead",
        "0" * 32,
        "{00000000-0000-4000-8000-00000000dead}",
        "urn:uuid:00000000-0000-4000-8000-00000000dead",
        "00000000-0000-4000-8000-00000000deag",
        "00000000-0000-4000-8000-00000000dead ",
        "000000000-000-4000-8000-00000000dead",
        0,
        ["00000000-0000-4000-8000-00000000dead"],
    ),
)
MIN_SCORE = Rule(
    (-1, 1, 0, -0.0, 0.5, Raw("1e-400")),
    (-1.0000000000000002, 1.0000000000000002, "0", True, Raw("NaN"), Raw("Infinity"), [0]),
).optional()
DIMENSIONS = Rule((3,), (0, 32_769, U64_MAX, -1), "embedding_dimension_limit")
SCAN_BYTES = Rule(
    (2_000, 67_108_864), (0, 67_108_865, 268_435_456, 268_435_457, U64_MAX, -1), "retrieval_scan_limit"
).optional()
VECTOR = Rule(
    ([1, 0, 0], [1e-30, 1e-30, 0], [FLOAT32_MAX, FLOAT32_MAX, FLOAT32_MAX], [1e-45, 0, 0], [-0.0, 0, -1]),
    (
        [],
        [1, 0],
        [1, 0, 0, 0],
        [0, 0, 0],
        [0, -0.0, 0],
        [1e-46, 0, 0],
        [3.5e38, 0, 0],
        Raw("[1e999,0,0]"),
        Raw("[NaN,0,1]"),
        Raw("[Infinity,0,1]"),
        ["1", 0, 0],
        [None, 0, 1],
        [True, 0, 1],
        [[1], 0, 0],
        "1,0,0",
        {"0": 1},
        1,
    ),
)
QUERY_TEXT = Rule(
    ("hive", "x " * 2047 + "xx", " ".join(f"t{n}" for n in range(64)), "t " * 100, "hive\n"),
    ("", " ", "!!!", "\u200b", "x" * 4097, " ".join(f"t{n}" for n in range(65)), 1, ["hive"], True),
)


def spelled(value: Any) -> str:
    """JSON text of a value."""
    return value.text if isinstance(value, Raw) else json.dumps(value)


def with_member(body: Json, path: str, value: Any) -> str:
    """JSON text of a body with one member set, or left out. Steps of the path: names, and [n] for list items."""
    steps = [int(step[1:-1]) if step[0] == "[" else step for step in path.replace("[", ".[").split(".")]
    copy = json.loads(json.dumps(body))
    holder: Any = copy
    for step in steps[:-1]:
        holder = holder[step]
    if value is ABSENT:
        holder.pop(steps[-1], None)
        return json.dumps(copy)
    mark = "\u0001value\u0001"
    holder[steps[-1]] = mark
    return json.dumps(copy).replace(json.dumps(mark), spelled(value))
