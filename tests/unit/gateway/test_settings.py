"""What the environment may say."""

from __future__ import annotations

from dataclasses import fields

import pytest

from services.gateway.settings import HttpLimits, address_variable, read_addresses
from services.runtime.settings import read_settings
from services.runtime.start_failure import CannotStart


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
    with pytest.raises(CannotStart, match="WAGGLE_MEMORY_ADDRESS"):
        read_addresses({"WAGGLE_MEMORY_ADDRESS": ""}, ["waggle.memory.v1"])


def test_limits_keep_their_defaults_unless_set() -> None:
    """Nothing needs to be set."""
    assert read_settings(HttpLimits, {}) == HttpLimits()
    environment = {"WAGGLE_GATEWAY_HEADER_TIMEOUT_S": "0.5", "WAGGLE_GATEWAY_HEADER_COUNT_MAX": "7"}
    assert read_settings(HttpLimits, environment) == HttpLimits(header_timeout_s=0.5, header_count_max=7)


@pytest.mark.parametrize("name", [field.name for field in fields(HttpLimits)])
def test_each_limit_has_the_variable_of_its_name(name: str) -> None:
    """Whoever knows the limit knows the variable."""
    assert read_settings(HttpLimits, {f"WAGGLE_GATEWAY_{name.upper()}": "7"}) == HttpLimits(**{name: 7})


@pytest.mark.parametrize("text", ["", "fast", "0", "-1", "nan", "inf"])
def test_a_limit_is_a_positive_number(text: str) -> None:
    """Anything else is refused, naming the variable."""
    with pytest.raises(CannotStart, match="WAGGLE_GATEWAY_IDLE_TIMEOUT_S"):
        read_settings(HttpLimits, {"WAGGLE_GATEWAY_IDLE_TIMEOUT_S": text})
