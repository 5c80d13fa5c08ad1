"""Bytes that were good once: some of them changed, taken away, put in, doubled or turned round."""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import strategies as st

MUTATIONS_MAX = 4
_SPAN_MAX = 12
# What parsers of text and of lengths trip over.
_TELLING = [
    *(b"\x00", b"\xff", b"\x80", b"\xed\xa0\x80"),
    *(b'"', b"\\", b"{", b"}", b"[", b"]", b",", b":", b"null", b"-", b"1e999"),
]


class Mutation(NamedTuple):
    """One change.

    Attributes:
        kind: What is done.
        place: Where; counted round and round, so that it is somewhere in any bytes.
        span: Number of bytes that are cut, doubled or turned round.
        inserted: Bytes that are put in.
        bit: Which one is flipped.
    """

    kind: str
    place: int
    span: int
    inserted: bytes
    bit: int

    def apply(self, data: bytearray) -> None:
        """Change some bytes in place."""
        first = self.place % (len(data) + 1)
        last = min(len(data), first + self.span)
        if self.kind == "insert":
            data[first:first] = self.inserted
        elif self.kind == "cut":
            del data[first:last]
        elif self.kind == "double":
            data[last:last] = data[first:last]
        elif self.kind == "turn":
            data[first:last] = bytes(reversed(data[first:last]))
        elif first < len(data):
            data[first] ^= 1 << self.bit


mutations = st.lists(
    st.builds(
        Mutation,
        st.sampled_from(["flip", "insert", "cut", "double", "turn"]),
        st.integers(0, 2**16),
        st.integers(1, _SPAN_MAX),
        st.sampled_from(_TELLING) | st.binary(min_size=1, max_size=6),
        st.integers(0, 7),
    ),
    min_size=1,
    max_size=MUTATIONS_MAX,
)
"""A few changes, whatever they will be made to."""


def mutate(good: bytes, changes: list[Mutation]) -> bytes:
    """Make the changes, one after the other; now and then they come to nothing."""
    data = bytearray(good)
    for change in changes:
        change.apply(data)
    return bytes(data)
