"""Key material of a suite under mutual TLS, made as an operator makes it."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from pathlib import Path

from cli.internal_authority import AUTHORITY_FILE, CERTIFICATE_FILE, KEY_FILE, ensure_certificates
from services.runtime.clock import Clock
from services.runtime.key_material import (
    AUTHORITY_VARIABLE,
    CERTIFICATE_VARIABLE,
    KEY_VARIABLE,
    ReloadedKeyMaterial,
    TlsFiles,
)
from services.runtime.transport import CONNECTION_AGE_MS, Transport


@dataclass(frozen=True)
class Certificates:
    """A directory of `waggle admin certificates`."""

    directory: Path

    def issue(self) -> None:
        """Make what is missing."""
        ensure_certificates(self.directory, now=datetime.datetime.now(datetime.UTC))

    def renew(self) -> None:
        """Issue all anew."""
        ensure_certificates(self.directory, now=datetime.datetime.now(datetime.UTC), renew=True)

    def files(self, name: str) -> TlsFiles:
        """The files of one process."""
        place = self.directory / name
        return TlsFiles(place / CERTIFICATE_FILE, place / KEY_FILE, place / AUTHORITY_FILE)

    def environment(self, name: str) -> dict[str, str]:
        """The variables of one process."""
        files = self.files(name)
        return {
            CERTIFICATE_VARIABLE: str(files.certificate),
            KEY_VARIABLE: str(files.key),
            AUTHORITY_VARIABLE: str(files.authority),
        }

    def transport(self, name: str, clock: Clock | None = None, *, age_ms: int = CONNECTION_AGE_MS) -> Transport:
        """The connections of one process."""
        return Transport(key_material=ReloadedKeyMaterial(self.files(name), clock), connection_age_ms=age_ms)


def issued_certificates(directory: Path) -> Certificates:
    """Make an authority and a certificate for each process."""
    made = Certificates(directory)
    made.issue()
    return made
