"""Physical keys keep the order of what they are made of, and packed values give back what went in or fail."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from services.domain.errors import StorageInconsistency
from services.storage import layout
from services.storage.layout import KEY_BYTES_MAX, PARTITION_BYTES, PartitionHead, StoreMeta

PARTITION = st.binary(min_size=PARTITION_BYTES, max_size=PARTITION_BYTES)
# The greatest keys are those that a range must still hold.
KEY = st.one_of(st.binary(min_size=1, max_size=20), st.just(b"\xff" * KEY_BYTES_MAX))
SEQUENCE = st.integers(1, 2**63)


@given(PARTITION, PARTITION, KEY, KEY)
def test_data_keys_sort_as_partition_then_key(p: bytes, q: bytes, a: bytes, b: bytes) -> None:
    """Physical order is the order of (partition, key)."""
    assert (layout.data_key(p, a) < layout.data_key(q, b)) == ((p, a) < (q, b))


@given(PARTITION, SEQUENCE, SEQUENCE, KEY, KEY)
def test_log_keys_sort_as_sequence_then_key(p: bytes, m: int, n: int, a: bytes, b: bytes) -> None:
    """Within a partition physical order is the order of (sequence, key)."""
    assert (layout.log_key(p, m, a) < layout.log_key(p, n, b)) == ((m, a) < (n, b))


@given(PARTITION, PARTITION, KEY, KEY, KEY)
def test_a_data_range_holds_exactly_its_keys(p: bytes, q: bytes, key: bytes, start: bytes, end: bytes) -> None:
    """[start, end) of one partition, and with an empty end everything from start on."""
    first, stop = layout.data_range(p, start, end)
    assert (first <= layout.data_key(p, key) < stop) == (start <= key < end)
    first, stop = layout.data_range(p, start, b"")
    assert (first <= layout.data_key(p, key) < stop) == (start <= key)
    assume(p != q)
    first, stop = layout.data_range(p, b"", b"")
    assert not first <= layout.data_key(q, key) < stop


@given(PARTITION, SEQUENCE, SEQUENCE, KEY)
def test_a_log_range_holds_exactly_what_came_after(p: bytes, after: int, sequence: int, key: bytes) -> None:
    """Entries above the sequence, of this partition."""
    first, stop = layout.log_range(p, after)
    assert (first <= layout.log_key(p, sequence, key) < stop) == (sequence > after)


@given(PARTITION, KEY, SEQUENCE, st.binary(max_size=50), st.booleans())
def test_values_come_out_as_they_went_in(p: bytes, key: bytes, sequence: int, value: bytes, deleted: bool) -> None:
    """Every packing is undone by its unpacking."""
    data, log, note = layout.data_key(p, key), layout.log_key(p, sequence, key), layout.deletion_key(p, key)
    assert layout.unpack_value(data, layout.pack_value(data, sequence, value)) == (sequence, value)
    entry = layout.pack_log_entry(log, deleted=deleted)
    assert layout.unpack_log_entry(log, entry) == (sequence, key, deleted)
    assert layout.unpack_deletion(note, layout.pack_deletion(note, sequence)) == sequence


@given(PARTITION, SEQUENCE, st.integers(0, 99), st.dictionaries(st.integers(0, 255), st.integers(1, 2**40)), SEQUENCE)
def test_heads_come_out_as_they_went_in(
    p: bytes, sequence: int, deleted: int, counts: dict[int, int], forgotten: int
) -> None:
    """Counts of zero are left out, and so is a log that tells every deletion; an absent head is the empty one."""
    key = layout.head_key(p)
    stored = layout.pack_head(key, PartitionHead(sequence, deleted, {**counts, 7: counts.get(7, 0)}))
    assert layout.unpack_head(key, stored) == (sequence, deleted, counts, 0)
    trimmed = PartitionHead(sequence, deleted, counts, forgotten)
    assert layout.unpack_head(key, layout.pack_head(key, trimmed)) == trimmed
    assert layout.head_sequence(key, layout.pack_head(key, trimmed)) == sequence
    assert layout.head_sequence(key, stored) == sequence
    assert (layout.unpack_head(key, None), layout.head_sequence(key, None)) == (layout.EMPTY_HEAD, 0)


@given(st.data(), PARTITION, KEY, SEQUENCE, st.binary(max_size=20))
def test_any_changed_byte_is_found(data: st.DataObject, p: bytes, key: bytes, sequence: int, value: bytes) -> None:
    """One changed, missing or additional byte anywhere in a packed value makes reading it fail."""
    meta = StoreMeta(bytes(16), 1, sequence % 2**62, 5, bytes(16))
    data_key, log_key, note_key = layout.data_key(p, key), layout.log_key(p, sequence, key), layout.deletion_key(p, key)
    head_key = layout.head_key(p)
    stored, unpack = data.draw(
        st.sampled_from(
            [
                (layout.pack_value(data_key, sequence, value), lambda raw: layout.unpack_value(data_key, raw)),
                (layout.pack_log_entry(log_key, deleted=True), lambda raw: layout.unpack_log_entry(log_key, raw)),
                (layout.pack_deletion(note_key, sequence), lambda raw: layout.unpack_deletion(note_key, raw)),
                (
                    layout.pack_head(head_key, PartitionHead(sequence, 1, {5: 1})),
                    lambda raw: layout.unpack_head(head_key, raw),
                ),
                (
                    layout.pack_head(head_key, PartitionHead(sequence, 1, {5: 1})),
                    lambda raw: layout.head_sequence(head_key, raw),
                ),
                (layout.pack_meta(meta), layout.unpack_meta),
            ]
        )
    )
    position = data.draw(st.integers(0, len(stored) - 1))
    flipped = bytearray(stored)
    flipped[position] ^= data.draw(st.integers(1, 255))
    for damaged in (bytes(flipped), stored[:position], stored + b"\x00"):
        with pytest.raises(StorageInconsistency):
            unpack(damaged)


@given(PARTITION, KEY, KEY, SEQUENCE)
def test_a_value_belongs_to_its_key(p: bytes, key: bytes, other: bytes, sequence: int) -> None:
    """A value that was moved to another key is found."""
    assume(key != other)
    stored = layout.pack_value(layout.data_key(p, key), sequence, b"value")
    with pytest.raises(StorageInconsistency):
        layout.unpack_value(layout.data_key(p, other), stored)
