"""Passwords: what is stored of one, and whether a presented one is right. Docs: decisions/0012.

A password is first sealed with HMAC-SHA-256 under the verifier key and then hashed with Argon2id, so that a copy of the
store alone allows no guessing.
"""

from __future__ import annotations

import hmac
from typing import Final

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError, VerifyMismatchError
from argon2.low_level import Type

from services.domain.errors import StorageInconsistency

# OWASP's password storage cheat sheet asks for at least one pass over 46 MiB; this is twice that, about a tenth of a
# second. One lane, so that two workers never use more than two cores.
TIME_COST: Final = 2
MEMORY_KIB: Final = 46 * 1024
LANES: Final = 1
SALT_BYTES: Final = 16
HASH_BYTES: Final = 32

_TAG: Final = b"waggle.login.password.v1\x00"


class Passwords:
    """Hashes passwords and verifies them, each in about a tenth of a second of one core. Safe to use from many threads.

    Args:
        verifier_key: 32 bytes.
        time_cost: Passes over the memory.
        memory_kib: Memory of one hash.
    """

    def __init__(self, verifier_key: bytes, *, time_cost: int = TIME_COST, memory_kib: int = MEMORY_KIB) -> None:
        self._verifier_key = verifier_key
        self._hasher = PasswordHasher(time_cost, memory_kib, LANES, HASH_BYTES, SALT_BYTES, type=Type.ID)
        # Stands for accounts that do not exist; nobody knows a password that gives it.
        salt, digest = "A" * 22, "A" * 43
        self._nobody = f"$argon2id$v=19$m={memory_kib},t={time_cost},p={LANES}${salt}${digest}"

    def hash(self, password: str) -> str:
        """The stored form, a PHC string with a fresh salt."""
        return self._hasher.hash(self._sealed(password))

    def is_right(self, password: str, password_hash: str | None) -> bool:
        """Whether a password is the one of a stored form. None is never right, and takes as long to find out.

        Raises:
            StorageInconsistency: The stored form is none.
        """
        try:
            is_right = self._hasher.verify(password_hash or self._nobody, self._sealed(password))
        except VerifyMismatchError:
            return False
        except (VerificationError, InvalidHashError) as error:
            raise StorageInconsistency("a stored password hash cannot be read") from error
        return is_right and password_hash is not None

    def _sealed(self, password: str) -> bytes:
        return hmac.digest(self._verifier_key, _TAG + password.encode(), "sha256")
