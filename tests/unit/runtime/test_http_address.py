"""HOST:PORT as operators write it."""

from __future__ import annotations

import pytest

from services.runtime.http_address import parse_http_address


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("127.0.0.1:7474", ("127.0.0.1", 7474)),
        ("[::1]:0", ("::1", 0)),
        (":80", ("", 80)),
        ("localhost:1", ("localhost", 1)),
    ],
)
def test_an_address_is_host_and_port(text: str, expected: tuple[str, int]) -> None:
    """IPv6 hosts stand in brackets."""
    assert expected == parse_http_address(text)


@pytest.mark.parametrize("text", ["", "7474", "host:", "host:x", "host:65536", "host:-1", "host:٧"])
def test_other_addresses_are_refused(text: str) -> None:
    """The address must be whole."""
    with pytest.raises(ValueError, match="HOST:PORT"):
        parse_http_address(text)
