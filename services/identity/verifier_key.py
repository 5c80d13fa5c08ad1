"""The file that holds the key of the verifiers.

It is one line: 32 random bytes as 64 lowercase hexadecimal digits, a space, 16 check digits. The check digits tell
a damaged file from another key, which would silently refuse every credential. A file without them is read as well: a
secret that was made elsewhere has none.

Losing it invalidates every company key; whoever reads it together with the store still learns no company key, but can
test guesses. It is made once, with mode 0600, and never replaced.
"""

from __future__ import annotations

import os
import re
import secrets
from hashlib import blake2b
from pathlib import Path
from typing import Final

from services.identity.tokens import VERIFIER_KEY_BYTES
from services.runtime.identifiers import new_secret

ENVIRONMENT_VARIABLE: Final = "WAGGLE_VERIFIER_KEY_FILE"

_CONTENT: Final = re.compile(rb"([0-9a-f]{64})(?: ([0-9a-f]{16}))?\n?")
_CHECK_BYTES: Final = 8

_ADVICE: Final = (
    "put back the copy that was kept apart: backups do not hold it, and a new key would invalidate every credential"
)


class VerifierKeyProblem(Exception):
    """The verifier key file cannot be used; the message names the file and the cause, never the content."""


def load_verifier_key(path: Path) -> bytes:
    """Read the key, 32 bytes.

    Raises:
        VerifierKeyProblem: The file is missing, unreadable, or holds anything but one key.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        advice = f"; {_ADVICE}" if isinstance(error, FileNotFoundError) else ""
        raise VerifierKeyProblem(f"cannot read the verifier key file {path}: {error.strerror}{advice}") from error
    found = _CONTENT.fullmatch(content)
    if found is None:
        raise VerifierKeyProblem(
            f"the verifier key file {path} must hold exactly {2 * VERIFIER_KEY_BYTES} lowercase hexadecimal digits, "
            f"with or without {2 * _CHECK_BYTES} check digits; {_ADVICE}"
        )
    key = bytes.fromhex(found[1].decode("ascii"))
    if found[2] is not None and content.rstrip(b"\n") != encode_verifier_key(key).rstrip(b"\n"):
        raise VerifierKeyProblem(f"the verifier key file {path} does not agree with its check digits; {_ADVICE}")
    return key


def encode_verifier_key(key: bytes) -> bytes:
    """Content of the file of a key."""
    check = blake2b(key, digest_size=_CHECK_BYTES, person=b"waggle.verifier")
    return f"{key.hex()} {check.hexdigest()}\n".encode("ascii")


def create_verifier_key(path: Path) -> bytes:
    """Make a new key and its file, durably.

    Raises:
        VerifierKeyProblem: The file exists already or cannot be written.
    """
    key = new_secret(VERIFIER_KEY_BYTES)
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            os.write(descriptor, encode_verifier_key(key))
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        # Linked, not renamed: of two that create at once, one must fail and no reader may see half a key.
        os.link(draft, path)
        _sync_directory(path.parent)
    except FileExistsError as error:
        raise VerifierKeyProblem(f"the verifier key file {path} exists already") from error
    except OSError as error:
        raise VerifierKeyProblem(f"cannot write the verifier key file {path}: {error.strerror}") from error
    finally:
        draft.unlink(missing_ok=True)
    return key


def load_or_create_verifier_key(path: Path) -> bytes:
    """Read the key, making it first where there is no file. Only for a data directory without credentials.

    Raises:
        VerifierKeyProblem: See `load_verifier_key` and `create_verifier_key`.
    """
    return load_verifier_key(path) if path.exists() else create_verifier_key(path)


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
