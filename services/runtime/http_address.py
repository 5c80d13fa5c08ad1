"""HOST:PORT, as operators write where HTTP is served."""

from __future__ import annotations


def parse_http_address(text: str) -> tuple[str, int]:
    """Split HOST:PORT; an IPv6 host stands in brackets, port 0 picks a free one.

    Raises:
        ValueError: It is something else.
    """
    host, colon, port = text.rpartition(":")
    if not colon or not port.isascii() or not port.isdecimal() or int(port) > 65_535:
        raise ValueError(f"{text!r} is not HOST:PORT")
    return host.removeprefix("[").removesuffix("]"), int(port)
