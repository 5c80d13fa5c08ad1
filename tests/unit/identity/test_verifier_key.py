"""The file of the verifier key."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from services.identity.verifier_key import (
    VerifierKeyProblem,
    create_verifier_key,
    load_or_create_verifier_key,
    load_verifier_key,
)


def test_a_created_key_is_read_back_by_its_owner_alone(tmp_path: Path) -> None:
    """32 random bytes in hexadecimal digits, mode 0600, and nothing else left in the directory."""
    path = tmp_path / "verifier.key"
    key = create_verifier_key(path)
    assert (len(key), load_verifier_key(path)) == (32, key)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_a_key_is_never_replaced(tmp_path: Path) -> None:
    """Creating over an existing file fails and leaves it as it was; two directories get different keys."""
    path = tmp_path / "verifier.key"
    key = load_or_create_verifier_key(path)
    with pytest.raises(VerifierKeyProblem, match="exists already"):
        create_verifier_key(path)
    assert load_or_create_verifier_key(path) == key
    assert create_verifier_key(tmp_path / "other.key") != key
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\n",
        b"00" * 31,
        b"00" * 33,
        b"00" * 32 + b"\n\n",
        b"G0" + b"00" * 31,
        b"AB" * 32,
        b" " + b"00" * 32,
        b"00" * 32 + b" " + b"00" * 7,
        b"00" * 32 + b" " + b"00" * 8,
        bytes(32),
    ],
)
def test_a_file_that_is_not_one_key_is_refused(tmp_path: Path, content: bytes) -> None:
    """Truncated, extended or binary: the message names the file and shows nothing of the content."""
    path = tmp_path / "verifier.key"
    path.write_bytes(content)
    with pytest.raises(VerifierKeyProblem) as caught:
        load_or_create_verifier_key(path)
    assert str(path) in str(caught.value)
    assert "0000" not in str(caught.value)


def test_a_key_without_check_digits_is_read(tmp_path: Path) -> None:
    """A secret that was made elsewhere is 64 digits and nothing else."""
    path = tmp_path / "verifier.key"
    path.write_bytes(b"0f" * 32)
    assert bytes([15]) * 32 == load_verifier_key(path)


def test_every_flipped_bit_is_found(tmp_path: Path) -> None:
    """No damage of one bit makes another key of the file: it would refuse every credential without saying why."""
    path = tmp_path / "verifier.key"
    key = create_verifier_key(path)
    content = path.read_bytes()
    for place in range(8 * len(content)):
        damaged = bytearray(content)
        damaged[place // 8] ^= 1 << place % 8
        path.write_bytes(damaged)
        try:
            assert key == load_verifier_key(path)
        except VerifierKeyProblem:
            continue


def test_a_missing_file_and_directory_are_named(tmp_path: Path) -> None:
    """Nothing is made by reading."""
    path = tmp_path / "absent" / "verifier.key"
    with pytest.raises(VerifierKeyProblem, match=r"absent/verifier\.key"):
        load_verifier_key(path)
    with pytest.raises(VerifierKeyProblem, match=r"absent/verifier\.key"):
        create_verifier_key(path)
    assert list(tmp_path.iterdir()) == []
