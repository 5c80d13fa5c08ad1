"""Key, certificate and authority of one process: where they are, and how they are read anew when they change.

The three variables are given together or not at all; without them connections are plain text.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Final

from services.runtime.clock import Clock, MonotonicClock
from services.runtime.logging import get_logger
from services.runtime.settings import PathVariable, read_settings
from services.runtime.start_failure import CannotStart

CERTIFICATE_VARIABLE: Final = "WAGGLE_TLS_CERTIFICATE_FILE"
KEY_VARIABLE: Final = "WAGGLE_TLS_KEY_FILE"
AUTHORITY_VARIABLE: Final = "WAGGLE_TLS_AUTHORITY_FILE"
TLS_VARIABLES: Final = (CERTIFICATE_VARIABLE, KEY_VARIABLE, AUTHORITY_VARIABLE)
CHECK_PERIOD_MS: Final = 1_000
"""How often the files are looked at, at most."""

log = get_logger()

_Stamps = tuple[tuple[int, int, int], ...]


class UnusableKeyMaterial(Exception):
    """The files do not hold a certificate, its key and an authority. The message says which one is at fault."""


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """The PEM files of one process.

    Attributes:
        certificate: Its own certificate, and the chain behind it.
        key: Private key of the certificate, without a password.
        authority: Certificates of the authorities that peers are believed for.
    """

    certificate: Annotated[Path, PathVariable(CERTIFICATE_VARIABLE)]
    key: Annotated[Path, PathVariable(KEY_VARIABLE)]
    authority: Annotated[Path, PathVariable(AUTHORITY_VARIABLE)]


@dataclass(frozen=True, slots=True, eq=False)
class KeyMaterial:
    """What the files held at one time. Compared by identity: another reading is another material.

    Attributes:
        certificate: PEM.
        key: PEM.
        authority: PEM.
        end_s: When the certificate ends, in seconds since 1970.
    """

    certificate: bytes
    key: bytes
    authority: bytes
    end_s: float


class ReloadedKeyMaterial:
    """The present key material, read again when a file has changed. Safe to share between threads.

    While the files are replaced one after the other, and whenever they make no whole, the former material stays.

    Args:
        files: Where it is.
        clock: Decides when the files are looked at again, at most once a second.

    Raises:
        CannotStart: The files cannot be read or do not belong together.
    """

    def __init__(self, files: TlsFiles, clock: Clock | None = None) -> None:
        self.files = files
        self._clock = clock or MonotonicClock()
        self._lock = threading.Lock()
        try:
            self._stamps = _stamps_of(files)
            self._material = read_key_material(files)
        except (OSError, UnusableKeyMaterial) as error:
            raise CannotStart(str(error)) from error
        self._due_ms = self._clock.now_ms() + CHECK_PERIOD_MS

    def current(self) -> KeyMaterial:
        """Return the material to use for what begins now."""
        now_ms = self._clock.now_ms()
        if now_ms >= self._due_ms:
            with self._lock:
                self._due_ms = now_ms + CHECK_PERIOD_MS
                self._look()
        return self._material

    def newest(self) -> KeyMaterial:
        """Return what the files hold now, for handshakes of a server: they are rare, and one may be the last for long.

        A client that renews its connection would otherwise meet the former certificate if the files were looked at just
        before they changed, and nobody would ask again until its next connection.
        """
        with self._lock:
            self._look()
        return self._material

    def _look(self) -> None:
        try:
            # Before the content: a change while it is read is then seen the next time.
            stamps = _stamps_of(self.files)
            if stamps == self._stamps:
                return
            self._stamps = stamps
            self._material = read_key_material(self.files)
        except (OSError, UnusableKeyMaterial) as error:
            log.warning("key_material_kept", reason=str(error))
        else:
            log.info("key_material_reloaded", certificate=str(self.files.certificate))


def read_tls_files(environment: Mapping[str, str]) -> TlsFiles | None:
    """Return where the environment says that the files are; None when it names none.

    Raises:
        CannotStart: Some of the variables are set and others are not; the message names one that is missing.
    """
    return read_settings(TlsFiles, environment) if any(environment.get(name) for name in TLS_VARIABLES) else None


def read_key_material(files: TlsFiles) -> KeyMaterial:
    """Read the files and see that they belong together.

    Raises:
        OSError: One cannot be read.
        UnusableKeyMaterial: One is not what it should be, or the key is not that of the certificate.
    """
    # Slow to import, and of no use where connections are plain.
    from cryptography import x509
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives import serialization

    shown, secret, authority = files.certificate.read_bytes(), files.key.read_bytes(), files.authority.read_bytes()
    try:
        certificate = x509.load_pem_x509_certificates(shown)[0]
        x509.load_pem_x509_certificates(authority)
    except ValueError as error:
        raise UnusableKeyMaterial(f"{files.certificate} or {files.authority} holds no PEM certificate") from error
    try:
        key = serialization.load_pem_private_key(secret, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise UnusableKeyMaterial(f"{files.key} holds no PEM private key without a password") from error
    if key.public_key() != certificate.public_key():
        raise UnusableKeyMaterial(f"{files.key} is not the key of {files.certificate}")
    return KeyMaterial(shown, secret, authority, certificate.not_valid_after_utc.timestamp())


def _stamps_of(files: TlsFiles) -> _Stamps:
    found = (getattr(files, field.name).stat() for field in fields(files))
    return tuple((status.st_mtime_ns, status.st_ino, status.st_size) for status in found)
