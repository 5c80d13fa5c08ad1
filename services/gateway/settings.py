"""What an operator can set for the gateway, read from the environment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Final

from services.runtime.settings import DurationVariable, IntegerVariable, TextVariable

_COUNT_MAX: Final = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class HttpLimits:
    """Limits of one HTTP connection.

    Attributes:
        header_timeout_s: From the first byte of a request to the end of its header.
        body_timeout_s: From the end of the header to the end of the body.
        idle_timeout_s: Between requests on a kept connection, and before the first one.
        linger_s: How long a refused request is still read, and thrown away, so that the refusal reaches its client.
        header_bytes_max: Request line and header together.
        header_count_max: Number of header fields.
        farewell_s: How long a connection without a request is kept after SIGTERM: one may be on its way.
        drain_s: How long running requests may take to finish after SIGTERM.
    """

    header_timeout_s: Annotated[float, DurationVariable("WAGGLE_GATEWAY_HEADER_TIMEOUT_S")] = 10.0
    body_timeout_s: Annotated[float, DurationVariable("WAGGLE_GATEWAY_BODY_TIMEOUT_S")] = 30.0
    idle_timeout_s: Annotated[float, DurationVariable("WAGGLE_GATEWAY_IDLE_TIMEOUT_S")] = 75.0
    linger_s: Annotated[float, DurationVariable("WAGGLE_GATEWAY_LINGER_S")] = 5.0
    header_bytes_max: Annotated[
        int, IntegerVariable("WAGGLE_GATEWAY_HEADER_BYTES_MAX", least=1, greatest=_COUNT_MAX)
    ] = 32_768
    header_count_max: Annotated[
        int, IntegerVariable("WAGGLE_GATEWAY_HEADER_COUNT_MAX", least=1, greatest=_COUNT_MAX)
    ] = 100
    farewell_s: Annotated[float, DurationVariable("WAGGLE_GATEWAY_FAREWELL_S")] = 0.25
    drain_s: Annotated[float, DurationVariable("WAGGLE_GATEWAY_DRAIN_S")] = 8.0


def address_variable(package: str) -> str:
    """Variable that holds the address of a service: "waggle.memory.v1" -> WAGGLE_MEMORY_ADDRESS."""
    return "_".join(package.split(".")[:-1]).upper() + "_ADDRESS"


def service_name(package: str) -> str:
    """Name of the service that has a package: "waggle.memory.v1" -> "memory"."""
    return package.split(".")[-2]


def read_addresses(environment: Mapping[str, str], packages: Iterable[str]) -> dict[str, str]:
    """Read the address of every service package, `host:port` or `unix:/path`.

    Raises:
        CannotStart: One is missing.
    """
    variables = {package: TextVariable(address_variable(package)) for package in packages}
    return {package: variable.parse(environment.get(variable.name, "")) for package, variable in variables.items()}
