"""A flipped bit anywhere in a data directory is either found or harmless.

Found: the store refuses to open, or the audit names something. Harmless: whatever is there can be read, and all of it
is what was written. Which bits are flipped is drawn from a seed; a failure names file and bit.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from services.audit.store_audit import StoreAudit
from services.domain.errors import StorageInconsistency
from services.identity.verifier_key import VerifierKeyProblem, load_verifier_key
from services.storage.directory import open_store
from services.storage.directory_errors import DirectoryError
from services.storage.exporting import LocalExporter
from services.storage.layout import META_KEY, StoreMeta, unpack_meta
from tests.harness.full_store import build_full_store
from tests.harness.memory_world import VERIFIER_KEY

pytestmark = pytest.mark.fault

QUICK_FLIPS = 200
DEEP_FLIPS = 4_000
SEED = 20

Dump = dict[bytes, bytes]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with every kind of object, closed: tables, a write-ahead log, a manifest, the marker and the key."""
    directory = tmp_path_factory.mktemp("whole") / "data"
    build_full_store(directory)
    return directory


def read_everything(directory: Path) -> tuple[Dump, list[str]]:
    """All rows of a store, and what an audit of it finds. Raises whatever refuses to open."""
    assert VERIFIER_KEY == load_verifier_key(directory / "verifier.key")
    with open_store(directory) as store:
        export = LocalExporter(store).export()
        audit = StoreAudit(export.opening.sequence)
        dump: Dump = {}
        for page in export.pages:
            dump.update(page.rows)
            audit.take_page(page)
        return dump, [str(finding) for finding in audit.finish().findings]


def without_opening(dump: Dump) -> tuple[Dump, StoreMeta]:
    """A dump without what every opening writes anew: its incarnation, and the time."""
    rest = dict(dump)
    meta = unpack_meta(rest.pop(META_KEY))
    return rest, meta._replace(clock_ms=0, incarnation=b"")


def draw_flips(directory: Path, count: int, seed: int) -> Iterator[tuple[str, int]]:
    """(file, bit in it): every file as often as any other, so that small ones are not passed over."""
    chance = random.Random(seed)
    files = sorted(path for path in directory.rglob("*") if path.is_file() and path.stat().st_size)
    for _ in range(count):
        path = chance.choice(files)
        yield str(path.relative_to(directory)), chance.randrange(8 * path.stat().st_size)


def flip(path: Path, bit: int) -> None:
    """Flip one bit of a file."""
    content = bytearray(path.read_bytes())
    content[bit // 8] ^= 1 << bit % 8
    path.write_bytes(content)


def judge_flips(whole: Path, copy: Path, flips: Iterator[tuple[str, int]]) -> dict[str, int]:
    """Flip each bit in a fresh copy of the directory, and count how that came out."""
    shutil.copytree(whole, copy)
    original = without_opening(read_everything(copy)[0])
    outcomes = {"refused": 0, "named": 0, "harmless": 0}
    for name, bit in flips:
        shutil.rmtree(copy)
        shutil.copytree(whole, copy)
        flip(copy / name, bit)
        try:
            dump, findings = read_everything(copy)
        except (DirectoryError, StorageInconsistency, VerifierKeyProblem):
            outcomes["refused"] += 1
            continue
        if findings:
            outcomes["named"] += 1
        else:
            assert original == without_opening(dump), f"bit {bit} of {name} passed unnoticed"
            outcomes["harmless"] += 1
    return outcomes


def test_a_whole_store_is_sound(whole: Path, tmp_path: Path) -> None:
    """Without a flip nothing is found, so that every finding is the flip's."""
    shutil.copytree(whole, tmp_path / "copy")
    assert [] == read_everything(tmp_path / "copy")[1]


def test_flipped_bits_are_found_or_harmless(whole: Path, tmp_path: Path) -> None:
    """A few hundred bits all over the directory, the same ones every time."""
    outcomes = judge_flips(whole, tmp_path / "copy", draw_flips(whole, QUICK_FLIPS, SEED))
    assert [] == [name for name, count in outcomes.items() if not count]
    assert QUICK_FLIPS == sum(outcomes.values())


@pytest.mark.deep
@pytest.mark.parametrize("part", range(4))
def test_thousands_of_flipped_bits_are_found_or_harmless(whole: Path, tmp_path: Path, part: int) -> None:
    """Others every time; a failure names its bit."""
    seed = random.randrange(1 << 30) + part
    judge_flips(whole, tmp_path / "copy", draw_flips(whole, DEEP_FLIPS // 4, seed))
