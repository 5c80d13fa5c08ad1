"""What the environment may say."""

from __future__ import annotations

import pytest

from services.gateway.settings import (
    BadSetting,
    HttpLimits,
    address_variable,
    parse_listen,
    read_addresses,
    read_http_limits,
)


def test_each_service_has_one_variable() -> None:
    """Derived from the proto package, so that a new service needs no line of code."""
    assert address_variable("waggle.memory.v1") == "WAGGLE_MEMORY_ADDRESS"
    environment = {"WAGGLE_MEMORY_ADDRESS": "unix:/m.sock", "WAGGLE_IDENTITY_ADDRESS": "h:1"}
    assert read_addresses(environment, ["waggle.identity.v1", "waggle.memory.v1"]) == {
        "waggle.identity.v1": "h:1",
        "waggle.memory.v1": "unix:/m.sock",
    }


def test_a_missing_address_is_named() -> None:
    """The operator is told which variable to set."""
    with pytest.raises(BadSetting, match="WAGGLE_MEMORY_ADDRESS"):
        read_addresses({"WAGGLE_MEMORY_ADDRESS": ""}, ["waggle.memory.v1"])


def test_limits_keep_their_defaults_unless_set() -> None:
    """Each limit has its own variable."""
    assert read_http_limits({}) == HttpLimits()
    environment = {"WAGGLE_GATEWAY_HEADER_TIMEOUT_S": "0.5", "WAGGLE_GATEWAY_HEADER_COUNT_MAX": "7"}
    assert read_http_limits(environment) == HttpLimits(header_timeout_s=0.5, header_count_max=7)


@pytest.mark.parametrize("text", ["", "fast", "0", "-1", "nan"])
def test_a_limit_is_a_positive_number(text: str) -> None:
    """Anything else is refused, naming the variable."""
    with pytest.raises(BadSetting, match="WAGGLE_GATEWAY_IDLE_TIMEOUT_S"):
        read_http_limits({"WAGGLE_GATEWAY_IDLE_TIMEOUT_S": text})


@pytest.mark.parametrize(
    ("listen", "expected"),
    [
        ("127.0.0.1:7474", ("127.0.0.1", 7474)),
        ("[::1]:0", ("::1", 0)),
        (":80", ("", 80)),
        ("localhost:1", ("localhost", 1)),
    ],
)
def test_listen_is_host_and_port(listen: str, expected: tuple[str, int]) -> None:
    """IPv6 hosts stand in brackets."""
    assert parse_listen(listen) == expected


@pytest.mark.parametrize("listen", ["", "7474", "host:", "host:x", "host:65536", "host:-1", "host:٧"])
def test_other_addresses_are_refused(listen: str) -> None:
    """The address must be whole."""
    with pytest.raises(BadSetting):
        parse_listen(listen)
