"""`waggle admin certificates`: what is issued, to whom it is readable, and what happens when it is run again."""

from __future__ import annotations

import datetime
import stat
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID
from typer.testing import CliRunner

from cli.internal_authority import (
    AUTHORITY_DIRECTORY,
    CALLERS,
    RENEW_BEFORE,
    SERVERS,
    VALID_FOR,
    AuthorityUnusable,
    ensure_certificates,
)
from cli.main import app

NOW = datetime.datetime(2026, 3, 1, tzinfo=datetime.UTC)


def load(path: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate(path.read_bytes())


def alternatives(certificate: x509.Certificate) -> set[str]:
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return {str(name.value) for name in names}


def content(directory: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def test_each_process_has_a_certificate_of_the_authority_with_its_names(tmp_path: Path) -> None:
    """The DNS name and the URI that peers look for, for 90 days, signed by the authority beside it."""
    issued = ensure_certificates(tmp_path, now=NOW)
    assert [*SERVERS, *CALLERS] == [entry.name for entry in issued]
    for entry in issued:
        certificate = load(entry.certificate)
        certificate.verify_directly_issued_by(load(entry.certificate.with_name("ca.crt")))
        assert {f"waggle-{entry.name}", f"waggle://service/{entry.name}"} == alternatives(certificate)
        assert NOW + VALID_FOR == certificate.not_valid_after_utc == entry.ends_at


def test_who_only_calls_cannot_serve(tmp_path: Path) -> None:
    """The edge's certificate and the operator's are of no use to pose as a service."""
    for entry in ensure_certificates(tmp_path, now=NOW):
        usage = load(entry.certificate).extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
        assert (entry.name in SERVERS) == (ExtendedKeyUsageOID.SERVER_AUTH in usage)
        assert ExtendedKeyUsageOID.CLIENT_AUTH in usage


def test_the_authority_signs_certificates_and_nothing_below_it_does(tmp_path: Path) -> None:
    """For ten years, with no further authority under it."""
    ensure_certificates(tmp_path, now=NOW)
    authority = load(tmp_path / AUTHORITY_DIRECTORY / "ca.crt")
    constraints = authority.extensions.get_extension_for_class(x509.BasicConstraints).value
    assert (True, 0) == (constraints.ca, constraints.path_length)
    assert datetime.timedelta(days=3650) == authority.not_valid_after_utc - NOW
    leaf = load(tmp_path / "memory" / "tls.crt").extensions.get_extension_for_class(x509.BasicConstraints).value
    assert not leaf.ca


def test_nobody_else_reads_what_was_issued(tmp_path: Path) -> None:
    """Files 0600 in directories 0700."""
    ensure_certificates(tmp_path / "tls", now=NOW)
    modes = {
        (path.is_dir(), stat.S_IMODE(path.stat().st_mode))
        for path in (tmp_path / "tls", *(tmp_path / "tls").rglob("*"))
    }
    assert {(True, 0o700), (False, 0o600)} == modes


def test_a_second_run_changes_nothing(tmp_path: Path) -> None:
    """What is there and lasts is kept, to the byte."""
    ensure_certificates(tmp_path, now=NOW)
    before = content(tmp_path)
    again = ensure_certificates(tmp_path, now=NOW + VALID_FOR - RENEW_BEFORE - datetime.timedelta(seconds=1))
    assert [False] * len(again) == [entry.is_new for entry in again]
    assert before == content(tmp_path)


def test_what_ends_soon_is_issued_anew_by_the_same_authority(tmp_path: Path) -> None:
    """A run each day is all that renewal needs."""
    ensure_certificates(tmp_path, now=NOW)
    before = content(tmp_path)
    again = ensure_certificates(tmp_path, now=NOW + VALID_FOR - RENEW_BEFORE)
    changed = {path.name for path, data in content(tmp_path).items() if data != before[path]}
    assert [True] * len(again) == [entry.is_new for entry in again]
    assert {"tls.crt", "tls.key"} == changed


def test_renewal_can_be_forced(tmp_path: Path) -> None:
    """All certificates, and the authority stays."""
    ensure_certificates(tmp_path, now=NOW)
    before = content(tmp_path)
    ensure_certificates(tmp_path, now=NOW, renew=True)
    kept = {path.name for path, data in content(tmp_path).items() if data == before[path]}
    assert {"ca.crt", "ca.key"} == kept


def test_further_names_are_of_those_who_serve(tmp_path: Path) -> None:
    """Names and addresses; a run that asks for others issues anew."""
    ensure_certificates(tmp_path, now=NOW, extra_names=["storage.example", "10.0.0.7"])
    assert {"storage.example", "10.0.0.7"} < alternatives(load(tmp_path / "storage" / "tls.crt"))
    assert {"waggle-edge", "waggle://service/edge"} == alternatives(load(tmp_path / "edge" / "tls.crt"))
    again = {entry.name: entry.is_new for entry in ensure_certificates(tmp_path, now=NOW)}
    assert dict.fromkeys(SERVERS, True) | dict.fromkeys(CALLERS, False) == again


def test_a_lost_certificate_is_issued_alone(tmp_path: Path) -> None:
    """The others stay as they are."""
    ensure_certificates(tmp_path, now=NOW)
    (tmp_path / "memory" / "tls.key").unlink()
    assert ["memory"] == [entry.name for entry in ensure_certificates(tmp_path, now=NOW) if entry.is_new]


def test_the_key_of_the_authority_is_needed_to_issue_only(tmp_path: Path) -> None:
    """It may be kept elsewhere in between; when it is missed, the message names it."""
    ensure_certificates(tmp_path, now=NOW)
    key = tmp_path / AUTHORITY_DIRECTORY / "ca.key"
    key.unlink()
    assert not any(entry.is_new for entry in ensure_certificates(tmp_path, now=NOW))
    with pytest.raises(AuthorityUnusable, match=str(key)):
        ensure_certificates(tmp_path, now=NOW, renew=True)


def test_nothing_outlives_the_authority(tmp_path: Path) -> None:
    """Certificates end with it at the latest, and afterwards it issues none."""
    ensure_certificates(tmp_path, now=NOW)
    end = load(tmp_path / AUTHORITY_DIRECTORY / "ca.crt").not_valid_after_utc
    late = ensure_certificates(tmp_path, now=end - datetime.timedelta(days=1), renew=True)
    assert {end} == {entry.ends_at for entry in late}
    with pytest.raises(AuthorityUnusable, match="expired"):
        ensure_certificates(tmp_path, now=end)


def test_an_authority_is_replaced_without_a_moment_of_distrust(tmp_path: Path) -> None:
    """With the former certificate behind the new one in ca.crt, everyone believes both, and the first one issues."""
    ensure_certificates(tmp_path / "old", now=NOW)
    ensure_certificates(tmp_path / "new", now=NOW)
    bundle = b"".join((tmp_path / which / AUTHORITY_DIRECTORY / "ca.crt").read_bytes() for which in ("new", "old"))
    (tmp_path / "old" / AUTHORITY_DIRECTORY / "ca.crt").write_bytes(bundle)
    new_key = (tmp_path / "new" / AUTHORITY_DIRECTORY / "ca.key").read_bytes()
    (tmp_path / "old" / AUTHORITY_DIRECTORY / "ca.key").write_bytes(new_key)
    issued = ensure_certificates(tmp_path / "old", now=NOW)
    assert all(entry.is_new for entry in issued)
    for entry in issued:
        assert bundle == entry.certificate.with_name("ca.crt").read_bytes()
        load(entry.certificate).verify_directly_issued_by(x509.load_pem_x509_certificates(bundle)[0])


def test_the_command_says_what_it_did(tmp_path: Path) -> None:
    """One line a certificate; a name that is none is refused with the option's name."""
    runner = CliRunner()
    first = runner.invoke(app, ["admin", "certificates", str(tmp_path), "--dns", "localhost"])
    second = runner.invoke(app, ["admin", "certificates", str(tmp_path), "--dns", "localhost"])
    assert (0, 8, 0, 8) == (
        first.exit_code,
        first.output.count("issued"),
        second.exit_code,
        second.output.count("kept"),
    )
    refused = runner.invoke(app, ["admin", "certificates", str(tmp_path), "--dns", "käse"])
    assert 2 == refused.exit_code
