"""Key, certificate and authority of a process: all or none, whole or not at all, and read anew when they change."""

from __future__ import annotations

from pathlib import Path

import pytest
from cryptography import x509

from services.runtime.key_material import (
    CHECK_PERIOD_MS,
    TLS_VARIABLES,
    ReloadedKeyMaterial,
    TlsFiles,
    read_tls_files,
)
from services.runtime.start_failure import CannotStart
from services.runtime.transport import read_transport
from tests.harness.certificates import Certificates, issued_certificates
from tests.harness.clock import FakeClock


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """An authority and certificates that no test changes."""
    return issued_certificates(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def own(made: Certificates, tmp_path: Path) -> TlsFiles:
    """Files of the test's own."""
    files = TlsFiles(tmp_path / "tls.crt", tmp_path / "tls.key", tmp_path / "ca.crt")
    copy(made.files("memory"), files)
    return files


def copy(source: TlsFiles, target: TlsFiles) -> None:
    for name in ("certificate", "key", "authority"):
        getattr(target, name).write_bytes(getattr(source, name).read_bytes())


def test_without_the_variables_connections_are_plain() -> None:
    """Empty ones count as not set."""
    assert read_tls_files({}) is None
    assert read_transport(dict.fromkeys(TLS_VARIABLES, "")).key_material is None


@pytest.mark.parametrize("missing", TLS_VARIABLES)
@pytest.mark.parametrize("how", ["absent", "empty"])
def test_a_missing_variable_is_named(made: Certificates, missing: str, how: str) -> None:
    """A process that was given a part never goes on without."""
    environment = made.environment("memory")
    if how == "absent":
        del environment[missing]
    else:
        environment[missing] = ""
    with pytest.raises(CannotStart, match=f"^{missing} must be set$"):
        read_transport(environment)


def test_all_three_make_mutual_tls(made: Certificates) -> None:
    """The transport holds what the files hold."""
    material = read_transport(made.environment("memory")).key_material
    assert material is not None
    assert made.files("memory").key.read_bytes() == material.current().key


def test_the_end_of_the_certificate_is_known(made: Certificates) -> None:
    """In seconds since 1970, and to the second."""
    material = read_transport(made.environment("memory")).key_material
    assert material is not None
    certificate = x509.load_pem_x509_certificate(made.files("memory").certificate.read_bytes())
    assert certificate.not_valid_after_utc.timestamp() == material.current().end_s


@pytest.mark.parametrize("spoilt", ["certificate", "key", "authority"])
@pytest.mark.parametrize("how", ["gone", "no PEM", "of another"])
def test_files_that_make_no_whole_keep_the_process_from_starting(
    made: Certificates, own: TlsFiles, spoilt: str, how: str
) -> None:
    """The message names the file. An authority may be any, since it is not that of the certificate by need."""
    path: Path = getattr(own, spoilt)
    if how == "gone":
        path.unlink()
    elif how == "no PEM":
        path.write_text("-----BEGIN NOTHING-----\n")
    else:
        path.write_bytes(getattr(made.files("identity"), spoilt).read_bytes())
    if (how, spoilt) == ("of another", "authority"):
        assert ReloadedKeyMaterial(own).current().authority == path.read_bytes()
        return
    with pytest.raises(CannotStart, match=str(path)):
        ReloadedKeyMaterial(own)


def test_a_change_is_seen_within_a_second_and_not_looked_for_more_often(
    made: Certificates, own: TlsFiles, clock: FakeClock
) -> None:
    """Until the second is over the files are not looked at; then the new ones are used."""
    material = ReloadedKeyMaterial(own, clock)
    former = material.current()
    copy(made.files("identity"), own)
    clock.advance(CHECK_PERIOD_MS - 1)
    assert former is material.current()
    clock.advance(1)
    assert made.files("identity").key.read_bytes() == material.current().key


def test_a_handshake_sees_a_change_at_once(made: Certificates, own: TlsFiles, clock: FakeClock) -> None:
    """However shortly before the change the files were looked at; unchanged ones are not read again."""
    material = ReloadedKeyMaterial(own, clock)
    former = material.current()
    assert former is material.newest()
    copy(made.files("identity"), own)
    newest = material.newest()
    assert made.files("identity").key.read_bytes() == newest.key
    assert newest is material.newest() is material.current()


def test_files_that_did_not_change_are_not_read_again(own: TlsFiles, clock: FakeClock) -> None:
    """The material stays the very same, by which channels know that theirs is still right."""
    material = ReloadedKeyMaterial(own, clock)
    former = material.current()
    clock.advance(10 * CHECK_PERIOD_MS)
    assert former is material.current()


def test_files_that_are_replaced_one_by_one_are_taken_when_they_fit(
    made: Certificates, own: TlsFiles, clock: FakeClock
) -> None:
    """Between key and certificate, and while one is gone, the former material goes on."""
    material = ReloadedKeyMaterial(own, clock)
    former = material.current()
    seen = []
    own.key.write_bytes(made.files("identity").key.read_bytes())
    for step in (own.certificate.unlink, lambda: own.certificate.write_bytes(b"")):
        clock.advance(CHECK_PERIOD_MS)
        seen.append(material.current())
        step()
    clock.advance(CHECK_PERIOD_MS)
    seen.append(material.current())
    assert [former] * 3 == seen
    own.certificate.write_bytes(made.files("identity").certificate.read_bytes())
    clock.advance(CHECK_PERIOD_MS)
    assert made.files("identity").certificate.read_bytes() == material.current().certificate
