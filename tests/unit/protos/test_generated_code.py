"""The generated code is that of the protos, and differences are told."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from scripts import generate_protos


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A package that was just generated."""
    target = tmp_path_factory.mktemp("fresh")
    generate_protos.generate(target)
    return target / "waggle"


def _contents(package: Path) -> dict[Path, bytes]:
    return {name: (package / name).read_bytes() for name in generate_protos.tree(package)}


def test_checked_in_code_is_fresh(fresh: Path) -> None:
    """What is checked in is exactly what the protos give."""
    stale = {str(name) for name, _ in _contents(fresh).items() ^ _contents(generate_protos.PACKAGE).items()}
    assert stale == set()


def test_generation_is_deterministic(fresh: Path, tmp_path: Path) -> None:
    """The same protos give the same bytes."""
    generate_protos.generate(tmp_path)
    assert _contents(tmp_path / "waggle") == _contents(fresh)


@pytest.fixture
def drifted(fresh: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout whose package has one changed, one missing and one additional file."""
    package = tmp_path / "waggle"
    shutil.copytree(fresh, package)
    (package / "common/v1/scope_pb2.py").write_text("changed\n")
    (package / "common/v1/records_pb2.pyi").unlink()
    (package / "common/v1/gone_pb2.py").write_text("left over\n")
    monkeypatch.setattr(generate_protos, "PACKAGE", package)
    return package


def test_check_names_what_differs(
    drifted: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`--check` fails, names every file that differs, and mends nothing."""
    monkeypatch.setattr("sys.argv", ["generate_protos.py", "--check"])
    before = _contents(drifted)
    assert generate_protos.main() == 1
    named = [line.split()[0] for line in capsys.readouterr().err.splitlines()]
    assert named == [
        "waggle/common/v1/gone_pb2.py",
        "waggle/common/v1/records_pb2.pyi",
        "waggle/common/v1/scope_pb2.py",
    ]
    assert _contents(drifted) == before


def test_generation_mends_what_differs(drifted: Path, fresh: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A plain run leaves exactly the generated files."""
    monkeypatch.setattr("sys.argv", ["generate_protos.py"])
    assert generate_protos.main() == 0
    assert _contents(drifted) == _contents(fresh)
