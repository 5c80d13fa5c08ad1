"""How commands reach the services of a running suite over gRPC."""

from __future__ import annotations

import os

from cli.console import EXIT_USAGE, fail
from services.runtime.start_failure import CannotStart
from services.runtime.transport import PLAIN, Transport, read_transport


def operator_transport(address: str) -> Transport:
    """Return the transport for an address.

    The sockets of `waggle serve` speak plain text and are guarded by their modes. Anything else is reached as the
    environment says, which under mutual TLS means with the certificate of "admin".

    Ends the command with a message when the environment names files that cannot be used.
    """
    if address.startswith("unix:"):
        return PLAIN
    try:
        return read_transport(os.environ)
    except CannotStart as error:
        fail(str(error), EXIT_USAGE)
