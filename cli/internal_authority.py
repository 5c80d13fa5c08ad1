"""An authority of the suite's own, and one certificate for each of its processes.

    DIRECTORY/authority/ca.crt, ca.key      the authority; its key is needed to issue only
    DIRECTORY/storage/tls.crt, tls.key, ca.crt      what one process is given, named as in a Secret of cert-manager

A certificate carries the two names of `services.runtime.peer`.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from services.edge.certificate import general_name, private_pem, write_private
from services.runtime.peer import server_name, service_uri

SERVERS: Final = ("storage", "identity", "memory", "retrieval", "consolidation", "gateway")
CALLERS: Final = ("edge", "admin")
"""They only call. "admin" is for commands of operators."""

AUTHORITY_DIRECTORY: Final = "authority"
AUTHORITY_FILE: Final = "ca.crt"
AUTHORITY_KEY_FILE: Final = "ca.key"
CERTIFICATE_FILE: Final = "tls.crt"
KEY_FILE: Final = "tls.key"

AUTHORITY_VALID_FOR: Final = datetime.timedelta(days=3650)
VALID_FOR: Final = datetime.timedelta(days=90)
RENEW_BEFORE: Final = datetime.timedelta(days=30)
# Clocks of machines differ a little.
_VALID_SINCE: Final = datetime.timedelta(minutes=5)


class AuthorityUnusable(Exception):
    """The authority of a directory cannot issue certificates. The message says why."""


@dataclass(frozen=True, slots=True)
class Issued:
    """A certificate in the directory.

    Attributes:
        name: The process, such as "storage".
        certificate: Path of its PEM file.
        ends_at: When it expires.
        is_new: It was issued just now.
    """

    name: str
    certificate: Path
    ends_at: datetime.datetime
    is_new: bool


@dataclass(frozen=True, slots=True)
class _Authority:
    certificate: x509.Certificate
    key_path: Path
    trusted: bytes  # what processes believe: the authority, and others that an operator has put behind it


def ensure_certificates(
    directory: Path, *, now: datetime.datetime, extra_names: Sequence[str] = (), renew: bool = False
) -> list[Issued]:
    """Make what a directory lacks: the authority, and certificates that are missing, end soon or do not fit any more.

    Args:
        directory: Made when it is not there, readable by its owner only.
        now: With a time zone.
        extra_names: DNS names or addresses beside the two names, for every process that serves.
        renew: Issue every certificate anew, by the authority that is there.

    Returns:
        The certificate of each process, in the order of SERVERS and CALLERS.

    Raises:
        AuthorityUnusable: The authority has expired, or its key is not there although something is to be issued.
        OSError: A file cannot be read or written.
    """
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    authority = _ensure_authority(directory / AUTHORITY_DIRECTORY, now)
    return [_ensure(directory, name, authority, now, extra_names, renew) for name in (*SERVERS, *CALLERS)]


def _ensure_authority(directory: Path, now: datetime.datetime) -> _Authority:
    certificate_path, key_path = directory / AUTHORITY_FILE, directory / AUTHORITY_KEY_FILE
    if certificate_path.exists():
        trusted = certificate_path.read_bytes()
        try:
            certificate = x509.load_pem_x509_certificates(trusted)[0]
        except ValueError as error:
            raise AuthorityUnusable(f"{certificate_path} holds no certificate") from error
        if certificate.not_valid_after_utc <= now:
            raise AuthorityUnusable(f"{certificate_path} has expired; move {directory} away to make another authority")
        return _Authority(certificate, key_path, trusted)
    directory.mkdir(mode=0o700, exist_ok=True)
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name("Waggle internal authority")
    certificate = (
        _builder(name, name, key.public_key(), now, now + AUTHORITY_VALID_FOR)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(signs_certificates=True), critical=True)
        .sign(key, hashes.SHA256())
    )
    trusted = certificate.public_bytes(serialization.Encoding.PEM)
    write_private(key_path, private_pem(key))
    write_private(certificate_path, trusted)
    return _Authority(certificate, key_path, trusted)


def _ensure(
    directory: Path, name: str, authority: _Authority, now: datetime.datetime, extra_names: Sequence[str], renew: bool
) -> Issued:
    place = directory / name
    place.mkdir(mode=0o700, exist_ok=True)
    path, trusted_path = place / CERTIFICATE_FILE, place / AUTHORITY_FILE
    if not trusted_path.exists() or trusted_path.read_bytes() != authority.trusted:
        write_private(trusted_path, authority.trusted)
    alternatives = _alternative_names(name, extra_names)
    present = None if renew else _usable(place, authority, alternatives, now)
    if present is not None:
        return Issued(name, path, present.not_valid_after_utc, is_new=False)
    authority_key = _load_authority_key(authority)
    key = ec.generate_private_key(ec.SECP256R1())
    usages = [ExtendedKeyUsageOID.CLIENT_AUTH, *([ExtendedKeyUsageOID.SERVER_AUTH] if name in SERVERS else [])]
    issuer = authority.certificate
    ends_at = min(now + VALID_FOR, issuer.not_valid_after_utc)
    certificate = (
        _builder(_name(f"Waggle {name}"), issuer.subject, key.public_key(), now, ends_at)
        .add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        .add_extension(_issuer_identifier(issuer), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    # The certificate last: processes take the new pair once it fits together.
    write_private(place / KEY_FILE, private_pem(key))
    write_private(path, certificate.public_bytes(serialization.Encoding.PEM))
    return Issued(name, path, ends_at, is_new=True)


def _usable(
    place: Path, authority: _Authority, alternatives: Sequence[x509.GeneralName], now: datetime.datetime
) -> x509.Certificate | None:
    """The certificate that is there, if it can go on being used."""
    if not (place / KEY_FILE).exists():
        return None
    try:
        certificate = x509.load_pem_x509_certificate((place / CERTIFICATE_FILE).read_bytes())
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        certificate.verify_directly_issued_by(authority.certificate)
    except (FileNotFoundError, ValueError, TypeError, InvalidSignature, x509.ExtensionNotFound):
        return None
    lasts = certificate.not_valid_after_utc - now > RENEW_BEFORE
    return certificate if lasts and set(names) == set(alternatives) else None


def _load_authority_key(authority: _Authority) -> ec.EllipticCurvePrivateKey:
    try:
        key = serialization.load_pem_private_key(authority.key_path.read_bytes(), password=None)
    except FileNotFoundError as error:
        raise AuthorityUnusable(f"{authority.key_path} is not there, and nothing can be issued without it") from error
    except (ValueError, TypeError) as error:
        raise AuthorityUnusable(f"{authority.key_path} holds no private key without a password") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != authority.certificate.public_key():
        raise AuthorityUnusable(f"{authority.key_path} is not the key of the authority")
    return key


def _alternative_names(name: str, extra_names: Sequence[str]) -> list[x509.GeneralName]:
    extra = extra_names if name in SERVERS else ()
    return [
        x509.DNSName(server_name(name)),
        x509.UniformResourceIdentifier(service_uri(name)),
        *dict.fromkeys(general_name(text) for text in extra),
    ]


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    public_key: ec.EllipticCurvePublicKey,
    now: datetime.datetime,
    ends_at: datetime.datetime,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _VALID_SINCE)
        .not_valid_after(ends_at)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _issuer_identifier(issuer: x509.Certificate) -> x509.AuthorityKeyIdentifier:
    identifier = issuer.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    return x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier)


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
