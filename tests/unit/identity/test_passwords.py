"""Hashing of passwords: parameters, secrecy, and what is never stored."""

from __future__ import annotations

import argon2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.domain.errors import StorageInconsistency
from services.identity.passwords import Passwords
from tests.unit.identity.builders import KEY
from tests.unit.identity.login_world import CHEAP, PASSWORD


def test_the_parameters_are_the_decided_ones() -> None:
    """Argon2id with 46 MiB, two passes and one lane, a salt of 16 bytes and 32 bytes of result."""
    stored = Passwords(KEY).hash(PASSWORD)
    parameters = argon2.extract_parameters(stored)
    assert argon2.Parameters(argon2.Type.ID, 19, 16, 32, 2, 47_104, 1) == parameters
    assert stored.startswith("$argon2id$v=19$m=47104,t=2,p=1$")
    assert Passwords(KEY).is_right(PASSWORD, stored)


def test_equal_passwords_are_stored_differently() -> None:
    """The salt is fresh each time, and the password itself is not in it."""
    first, second = CHEAP.hash(PASSWORD), CHEAP.hash(PASSWORD)
    assert first != second
    assert PASSWORD not in first
    assert CHEAP.is_right(PASSWORD, first)
    assert CHEAP.is_right(PASSWORD, second)


@given(st.text(min_size=1, max_size=40), st.text(min_size=1, max_size=40))
def test_only_the_exact_password_is_right(password: str, other: str) -> None:
    """Nothing is trimmed, folded or normalised."""
    stored = CHEAP.hash(password)
    assert CHEAP.is_right(password, stored)
    assert CHEAP.is_right(other, stored) == (other == password)


def test_every_byte_of_a_long_password_counts() -> None:
    """Up to the greatest length."""
    stored = CHEAP.hash("x" * 1023 + "a")
    assert not CHEAP.is_right("x" * 1023 + "b", stored)


def test_a_hash_is_worth_nothing_without_the_verifier_key() -> None:
    """The right password is not found under another key, nor by Argon2 alone."""
    stored = CHEAP.hash(PASSWORD)
    assert not Passwords(bytes(32), time_cost=1, memory_kib=8).is_right(PASSWORD, stored)
    with pytest.raises(argon2.exceptions.VerifyMismatchError):
        argon2.PasswordHasher().verify(stored, PASSWORD)


def test_no_account_costs_what_an_account_costs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a stored hash, the same function runs on one with the same parameters, and nothing is right."""
    compared: list[str] = []
    verify = argon2.PasswordHasher.verify

    def spy(self: argon2.PasswordHasher, stored: str, password: bytes) -> bool:
        compared.append(stored)
        return verify(self, stored, password)

    monkeypatch.setattr(argon2.PasswordHasher, "verify", spy)
    assert not CHEAP.is_right(PASSWORD, None)
    assert not CHEAP.is_right("wrong password", CHEAP.hash(PASSWORD))
    assert argon2.extract_parameters(compared[0]) == argon2.extract_parameters(compared[1])


@pytest.mark.parametrize("stored", ["nonsense", "$argon2id$v=19$m=8,t=1,p=1$AAAA"])
def test_a_damaged_hash_is_no_wrong_password(stored: str) -> None:
    """It is the store's fault, and says so."""
    with pytest.raises(StorageInconsistency):
        CHEAP.is_right(PASSWORD, stored)
