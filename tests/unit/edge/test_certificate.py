"""The certificate that the edge makes for a machine where nobody has given one."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest
from cryptography import x509

from services.edge.certificate import RENEW_BEFORE, VALID_FOR, ensure_certificate

NOW = datetime.datetime(2030, 1, 1, tzinfo=datetime.UTC)


def test_files_are_their_owners_alone(tmp_path: Path) -> None:
    """Certificate, key and directory."""
    certificate, key = ensure_certificate(tmp_path / "edge", "127.0.0.1", now=NOW)
    assert {0o600} == {path.stat().st_mode & 0o777 for path in (certificate, key)}
    assert 0o700 == certificate.parent.stat().st_mode & 0o777


def test_it_is_for_this_machine_and_where_it_listens(tmp_path: Path) -> None:
    """Both loopback addresses and the address that was asked for; signed by itself, and no authority."""
    path, _ = ensure_certificate(tmp_path, "192.0.2.7", now=NOW)
    certificate = x509.load_pem_x509_certificate(path.read_bytes())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert {"127.0.0.1", "::1", "192.0.2.7"} == {str(address) for address in names.get_values_for_type(x509.IPAddress)}
    assert "localhost" in names.get_values_for_type(x509.DNSName)
    assert not certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca


def test_it_is_kept_until_it_is_about_to_end(tmp_path: Path) -> None:
    """Clients that trust it need not be told anything new at every start."""
    path, key = ensure_certificate(tmp_path, "127.0.0.1", now=NOW)
    first = path.read_bytes(), key.read_bytes()
    ensure_certificate(tmp_path, "127.0.0.1", now=NOW + VALID_FOR - RENEW_BEFORE - datetime.timedelta(days=1))
    assert first == (path.read_bytes(), key.read_bytes())
    ensure_certificate(tmp_path, "127.0.0.1", now=NOW + VALID_FOR - RENEW_BEFORE + datetime.timedelta(days=1))
    assert first[0] != path.read_bytes()


@pytest.mark.parametrize("damage", ["host", "key", "certificate"])
def test_what_does_not_fit_any_more_is_made_anew(tmp_path: Path, damage: str) -> None:
    """Another address, a lost key, a damaged file."""
    path, key = ensure_certificate(tmp_path, "127.0.0.1", now=NOW)
    first = path.read_bytes()
    if damage == "key":
        key.unlink()
    elif damage == "certificate":
        path.write_text("-----BEGIN CERTIFICATE-----\nmarmalade\n-----END CERTIFICATE-----\n", encoding="utf-8")
    ensure_certificate(tmp_path, "192.0.2.7" if damage == "host" else "127.0.0.1", now=NOW)
    assert path.read_bytes() != first
    assert key.exists()
