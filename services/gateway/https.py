"""TLS for the gateway's listener: the hop from the edge, which shows its certificate as all processes of a suite do."""

from __future__ import annotations

import ssl

from services.runtime.key_material import KeyMaterial, ReloadedKeyMaterial, TlsFiles
from services.runtime.logging import get_logger
from services.runtime.start_failure import CannotStart

log = get_logger()


def make_server_context(key_material: ReloadedKeyMaterial) -> ssl.SSLContext:
    """Return a context whose every handshake uses the present key material, and demands a certificate of its authority.

    Raises:
        CannotStart: OpenSSL cannot use the files.
    """
    served = key_material.current()
    try:
        context = present = _context(key_material.files, served)
    except (OSError, ValueError) as error:
        raise CannotStart(f"{key_material.files.certificate} cannot be used for TLS: {error}") from error

    def on_hello(connection: ssl.SSLObject, _name: str | None, _context_of_listener: ssl.SSLContext) -> None:
        nonlocal served, present
        material = key_material.newest()
        if material is not served:
            try:
                served, present = material, _context(key_material.files, material)
            except (OSError, ValueError) as error:
                # Files that are being replaced right now; the next handshake tries again.
                log.warning("key_material_kept", reason=str(error))
        # Its authority is taken over with the certificate.
        connection.context = present

    context.sni_callback = on_hello
    return context


def _context(files: TlsFiles, material: KeyMaterial) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_mode = ssl.CERT_REQUIRED
    # Python takes keys from files only.
    context.load_cert_chain(files.certificate, files.key)
    context.load_verify_locations(cadata=material.authority.decode("ascii"))
    return context
