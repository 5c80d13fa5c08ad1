"""What an operator can set for the gateway, read from the environment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields


class BadSetting(Exception):
    """A setting is missing or malformed; the message names the variable."""


@dataclass(frozen=True, slots=True)
class HttpLimits:
    """Limits of one HTTP connection. Each is set by the environment variable WAGGLE_GATEWAY_<NAME>.

    Attributes:
        header_timeout_s: From the first byte of a request to the end of its header.
        body_timeout_s: From the end of the header to the end of the body.
        idle_timeout_s: Between requests on a kept connection, and before the first one.
        linger_s: How long a refused request is still read, and thrown away, so that the refusal reaches its client.
        header_bytes_max: Request line and header together.
        header_count_max: Number of header fields.
        drain_s: How long running requests may take to finish after SIGTERM.
    """

    header_timeout_s: float = 10.0
    body_timeout_s: float = 30.0
    idle_timeout_s: float = 75.0
    linger_s: float = 5.0
    header_bytes_max: int = 32_768
    header_count_max: int = 100
    drain_s: float = 8.0


def read_http_limits(environment: Mapping[str, str]) -> HttpLimits:
    """Read the limits; what is not set keeps its default.

    Raises:
        BadSetting: A value is not a positive number.
    """
    values: dict[str, float] = {}
    for field in fields(HttpLimits):
        variable = f"WAGGLE_GATEWAY_{field.name.upper()}"
        text = environment.get(variable)
        if text is None:
            continue
        try:
            values[field.name] = int(text) if isinstance(field.default, int) else float(text)
        except ValueError:
            raise BadSetting(f"{variable} is not a number") from None
        if not values[field.name] > 0:
            raise BadSetting(f"{variable} must be above zero")
    return HttpLimits(**values)  # type: ignore[arg-type]  # int fields have got ints above


def address_variable(package: str) -> str:
    """Variable that holds the address of a service: "waggle.memory.v1" -> WAGGLE_MEMORY_ADDRESS."""
    return "_".join(package.split(".")[:-1]).upper() + "_ADDRESS"


def read_addresses(environment: Mapping[str, str], packages: Iterable[str]) -> dict[str, str]:
    """Read the address of every service package, `host:port` or `unix:/path`.

    Raises:
        BadSetting: One is missing.
    """
    addresses: dict[str, str] = {}
    for package in packages:
        variable = address_variable(package)
        if not environment.get(variable):
            raise BadSetting(f"{variable} is not set: routes of {package} need its address")
        addresses[package] = environment[variable]
    return addresses


def parse_listen(listen: str) -> tuple[str, int]:
    """Split HOST:PORT; an IPv6 host stands in brackets, port 0 picks a free one.

    Raises:
        BadSetting: It is something else.
    """
    host, colon, port = listen.rpartition(":")
    if not colon or not port.isascii() or not port.isdecimal() or int(port) > 65_535:
        raise BadSetting(f"{listen!r} is not HOST:PORT")
    return host.removeprefix("[").removesuffix("]"), int(port)
