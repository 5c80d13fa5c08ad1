"""A certificate that the edge makes itself, for a machine where nobody has given one."""

from __future__ import annotations

import datetime
import ipaddress
import socket
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

CERTIFICATE_FILE: Final = "tls.crt"
KEY_FILE: Final = "tls.key"
VALID_FOR: Final = datetime.timedelta(days=365)
RENEW_BEFORE: Final = datetime.timedelta(days=30)
LOCAL_NAMES: Final = ("localhost", "127.0.0.1", "::1")


def ensure_certificate(directory: Path, host: str, *, now: datetime.datetime) -> tuple[Path, Path]:
    """Return certificate and key in a directory; make new ones when there are none, or they end soon or fit no more.

    Args:
        directory: Made when it is not there, readable by its owner only.
        host: Where the edge listens; a name of the certificate beside localhost and the machine's own.
        now: With a time zone.

    Returns:
        Paths of the PEM files. Clients trust the first one itself: no authority stands behind it.

    Raises:
        OSError: The files cannot be read or written.
    """
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    certificate_path, key_path = directory / CERTIFICATE_FILE, directory / KEY_FILE
    names = _names(host)
    if not (key_path.exists() and _is_usable(certificate_path, names, now)):
        key = ec.generate_private_key(ec.SECP256R1())
        write_private(key_path, private_pem(key))
        write_private(certificate_path, _self_signed(key, names, now).public_bytes(serialization.Encoding.PEM))
    return certificate_path, key_path


def _names(host: str) -> tuple[str, ...]:
    anywhere = ("0.0.0.0", "::", "")  # noqa: S104 - compared, not bound
    own = () if host in anywhere else (host,)
    return tuple(dict.fromkeys((*LOCAL_NAMES, socket.gethostname(), *own)))


def _is_usable(path: Path, names: Iterable[str], now: datetime.datetime) -> bool:
    try:
        certificate = x509.load_pem_x509_certificate(path.read_bytes())
        alternatives = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (FileNotFoundError, ValueError, x509.ExtensionNotFound):
        return False
    lasts = certificate.not_valid_after_utc - now > RENEW_BEFORE and certificate.not_valid_before_utc <= now
    return lasts and set(alternatives) >= {general_name(name) for name in names}


def _self_signed(key: ec.EllipticCurvePrivateKey, names: Iterable[str], now: datetime.datetime) -> x509.Certificate:
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Waggle edge")])
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=5))
        .not_valid_after(now + VALID_FOR)
        .add_extension(x509.SubjectAlternativeName([general_name(name) for name in names]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(identifier, critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier), critical=False)
        .sign(key, hashes.SHA256())
    )


def general_name(name: str) -> x509.GeneralName:
    """Return a DNS name or an address of IP, whichever the text is."""
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """Return a private key as PEM, without a password."""
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def write_private(path: Path, content: bytes) -> None:
    """Write a file that only its owner may read, replacing the former one at once.

    Raises:
        OSError: It cannot be written.
    """
    # Never half a file under the name, and never one that others could open for a moment.
    draft = path.with_name(f"{path.name}.draft")
    draft.unlink(missing_ok=True)
    draft.touch(mode=0o600)
    draft.write_bytes(content)
    draft.replace(path)
