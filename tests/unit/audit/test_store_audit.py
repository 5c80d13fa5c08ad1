"""The audit finds nothing in a sound store, and every key that is missing, foreign or changed in an unsound one.

Changes are made beneath the checksums, with right checksums, counts and change log: what only the meaning can show.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

import pytest

from services.audit.findings import Finding, is_known_kind, words_of_key
from services.audit.store_audit import StoreAudit
from services.domain import keys
from services.domain.canonical_json import canonical_bytes, parse_canonical
from services.domain.scope import workspace_for
from services.storage.layout import (
    META_KEY,
    PartitionHead,
    StoreMeta,
    data_key,
    head_key,
    log_key,
    pack_head,
    pack_log_entry,
    pack_meta,
    pack_value,
)
from services.storage.store_rows import RowPage, UnreadablePart
from tests.harness.full_store import build_full_store, read_living
from tests.harness.memory_world import SCOPE

Living = dict[bytes, dict[bytes, bytes]]
MAIN = workspace_for("acme", SCOPE, "svc").partition

# Keys that only the count in the head of their partition misses: nothing else tells of them.
UNTOLD_KEYS = {"receipt", "session", "agent", "global credential", "incoming adjacency count"}
# Members that nothing but the checksum of their value vouches for.
UNTOLD_MEMBERS = {
    ("agent", "first_scope"),
    ("agent", "registered_at_millis"),
    ("agent", "trigger"),
    ("company", "registration"),
    ("credential", "change_id"),
    ("credential", "history"),
    ("credential", "spec"),
    ("credential", "verifier"),
    ("global credential", "change_id"),
    ("global credential", "history"),
    ("global credential", "spec"),
    ("global credential", "verifier"),
    ("login account", "change_id"),
    ("login account", "history"),
    ("login account", "password_hash"),
    ("receipt", "command_digest"),
    ("receipt", "receipt/committed_at_millis"),
    ("session", "credential_revision"),
    ("session", "expires_at_millis"),
    ("session", "verifier"),
}
# One of so many is tried where not all are.
SAMPLE_STEP = 23


@pytest.fixture(scope="module")
def living(tmp_path_factory: pytest.TempPathFactory) -> Living:
    """Every living key of a store with every kind of object, by partition."""
    directory = tmp_path_factory.mktemp("full") / "data"
    build_full_store(directory)
    return read_living(directory)


def audit(living: Mapping[bytes, Mapping[bytes, bytes]]) -> list[Finding]:
    """What an audit finds in a store that holds exactly this, laid with right checksums, counts and change log."""
    found = StoreAudit(1)
    found.take_page(RowPage([(META_KEY, pack_meta(StoreMeta(bytes(16), 1, 1, 0, bytes(16))))], []))
    for partition, values in sorted(living.items()):
        rows = []
        counts: dict[int, int] = {}
        for key, value in sorted(values.items()):
            physical_key, entry = data_key(partition, key), log_key(partition, 1, key)
            rows.append((physical_key, pack_value(physical_key, 1, value)))
            rows.append((entry, pack_log_entry(entry, deleted=False)))
            counts[key[0]] = counts.get(key[0], 0) + 1
        rows.append((head_key(partition), pack_head(head_key(partition), PartitionHead(1, 0, counts))))
        found.take_page(RowPage(rows, []))
    return found.finish().findings


def test_every_kind_of_key_is_in_the_store_and_known(living: Living) -> None:
    """The store that the other tests spoil leaves out no kind, and the audit has a name for each."""
    kinds = {
        value
        for name, value in vars(keys).items()
        if name.isupper() and not name.startswith("_") and isinstance(value, bytes) and len(value) == 1
    }
    assert kinds == {key[:1] for values in living.values() for key in values}
    for partition, values in living.items():
        assert [] == [key for key in values if not is_known_kind(partition, key)]


def test_a_sound_store_has_no_findings(living: Living) -> None:
    """Whatever the services leave behind fits together."""
    assert [] == audit(living)


def test_missing_keys_are_found(living: Living) -> None:
    """A key that is not there, though checksums and counts are right, is missed by something else."""
    judge_missing(living, step=SAMPLE_STEP)


def test_changed_members_are_found(living: Living) -> None:
    """Whichever member of a stored object has another value, in canonical form, something contradicts it."""
    judge_changed(living, step=SAMPLE_STEP)


@pytest.mark.deep
def test_every_missing_key_and_changed_member_is_found(living: Living) -> None:
    """The same for all of them."""
    judge_missing(living, step=1)
    judge_changed(living, step=1)


def judge_missing(living: Living, *, step: int) -> None:
    """Leave keys out, one at a time."""
    untold = set()
    for partition, key in islice(all_keys(living), 0, None, step):
        rest = {other: value for other, value in living[partition].items() if other != key}
        if not audit({**living, partition: rest}):
            untold.add(words_of_key(partition, key)[0])
    assert untold <= UNTOLD_KEYS


def judge_changed(living: Living, *, step: int) -> None:
    """Change members, one at a time."""
    changes = (
        (partition, key, where, value)
        for partition, key in all_keys(living)
        for where, value in changed_values(living[partition][key])
    )
    untold = {
        member_in_words(words_of_key(partition, key)[0], where)
        for partition, key, where, value in islice(changes, 0, None, step)
        if not audit({**living, partition: {**living[partition], key: value}})
    }
    assert untold <= UNTOLD_MEMBERS


def test_findings_name_kind_key_and_workspace_without_content(living: Living) -> None:
    """Whoever reads a finding learns what to look at, and nothing of what is remembered."""
    key = next(key for key in sorted(living[MAIN]) if key[:1] == keys.RECORD)
    changed = living[MAIN][key].replace(b'"event_time_millis":17', b'"event_time_millis":18')
    (finding,) = audit({**living, MAIN: {**living[MAIN], key: changed}})
    problem = "is not what its command asked for, by the command's digest"
    assert Finding("record", keys.id_text(key[1:]), problem, MAIN.hex()) == finding
    assert f"workspace {MAIN.hex()}: record {keys.id_text(key[1:])}: {problem}" == str(finding)


def test_damaged_rows_are_named_by_what_they_hold(living: Living) -> None:
    """A value that contradicts its checksum is named by its key; the rest of the store is judged all the same."""
    key = next(key for key in living[MAIN] if key[:1] == keys.RELATION)
    physical_key = data_key(MAIN, key)
    found = StoreAudit(1)
    found.take_page(RowPage([(physical_key, b"damaged value")], [UnreadablePart(MAIN, "cannot be read")]))
    named = {(item.kind, item.key, item.workspace_id) for item in found.finish().findings}
    assert {("relation", keys.id_text(key[1:]), MAIN.hex()), ("partition", "", MAIN.hex())} == named


def member_in_words(kind: str, where: str) -> tuple[str, str]:
    """The kind of a value and the member of it that was changed, told more closely where most are noticed."""
    return kind, "/".join(where.split("/")[: 2 if kind == "receipt" else 1])


def all_keys(living: Living) -> Iterator[tuple[bytes, bytes]]:
    """Every key with its partition."""
    return ((partition, key) for partition, values in sorted(living.items()) for key in sorted(values))


def changed_values(value: bytes) -> Iterator[tuple[str, bytes]]:
    """(what was changed, the value with that change)."""
    if value[:1] not in (b"{", b"["):
        yield "the bytes", bytes([*value[:-1], value[-1] ^ 1]) if value else b"x"
        return
    document = parse_canonical(value)
    for path, leaf in leaves(document):
        changed = copy.deepcopy(document)
        place: Any = changed
        for step in path[:-1]:
            place = place[step]
        place[path[-1]] = other_value(leaf)
        yield "/".join(map(str, path)), canonical_bytes(changed)


def leaves(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    """Every value that is no object and no array with something in it, with the way to it."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    if not items or (isinstance(value, dict | list) and not value):
        yield path, value
        return
    for step, item in items:
        yield from leaves(item, (*path, step))


def other_value(value: Any) -> Any:
    """Another value of the same type, where there is one."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    if isinstance(value, str):
        return value[:-1] + ("0" if value[-1:] != "0" else "1")
    if isinstance(value, dict):
        return {"unknown": 1}
    return ["unknown"] if isinstance(value, list) else 1
