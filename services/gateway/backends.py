"""Calls to the services: one asynchronous channel for each address, bytes in and bytes out.

Messages are coded by the caller, so that big ones can be coded away from the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import grpc
import grpc.aio

from services.gateway.error_envelope import error_from_status
from services.gateway.settings import service_name
from services.runtime.transport import PLAIN, Transport

_HEALTH_CHECK: Final = "/grpc.health.v1.Health/Check"
_REACH_AGAIN_S: Final = 0.5

Metadata = Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Answer:
    """What a call gave.

    Attributes:
        message: The serialized response.
        metadata: The call's initial metadata, keys in lower case.
    """

    message: bytes
    metadata: Mapping[str, str]


class Backends:
    """Channels to the services, by proto package. Must be made inside the event loop that uses them."""

    def __init__(self, addresses: Mapping[str, str], transport: Transport = PLAIN) -> None:
        """Open channels that connect on first use.

        Args:
            addresses: Proto package -> `host:port` or `unix:/path`.
            transport: Opens them.
        """
        self._channels: dict[str, grpc.aio.Channel] = {}
        self._channel_by_package: dict[str, grpc.aio.Channel] = {}
        for package, address in addresses.items():
            if address not in self._channels:
                self._channels[address] = transport.open_async_channel(address, service_name(package))
            self._channel_by_package[package] = self._channels[address]
        self._methods: dict[str, Any] = {}

    async def call(
        self,
        package: str,
        rpc: str,
        request: bytes,
        *,
        metadata: Metadata,
        deadline_s: float,
        wants_metadata: bool,
        on_start: Callable[[Callable[[], object]], None],
    ) -> Answer:
        """Call a method and wait for its answer.

        A call waits for its service to be reachable, within the deadline, and is only sent once it is: a service that
        restarts costs a moment, not an error. A call that was sent and lost is not repeated.

        Args:
            package: Proto package of the service.
            rpc: Full path of the method.
            request: Serialized request.
            metadata: What goes with the call.
            deadline_s: Seconds until the call is given up.
            wants_metadata: Whether the answer's trailing metadata is needed.
            on_start: Given the function that cancels the call, once it runs.

        Raises:
            WaggleError: The documented error that the service answered with, or InternalError.
            asyncio.CancelledError: The call was cancelled.
        """
        method = self._methods.get(rpc)
        if method is None:
            method = self._methods[rpc] = self._channel_by_package[package].unary_unary(rpc)
        call = method(request, timeout=deadline_s, metadata=metadata, wait_for_ready=True)
        on_start(call.cancel)
        try:
            message: bytes = await call
        except grpc.aio.AioRpcError as error:
            raise error_from_status(error.code(), tuple(error.trailing_metadata() or ())) from error
        headers = await call.trailing_metadata() if wants_metadata else ()
        return Answer(message, {key: value for key, value in headers or () if isinstance(value, str)})

    async def reach_any(self) -> None:
        """Return once one of the services has answered: then addresses, names and certificates are right."""
        channels = self._channels.values()
        while True:
            checks = [asyncio.ensure_future(_answers(channel)) for channel in channels]
            try:
                for check in asyncio.as_completed(checks):
                    if await check:
                        return
            finally:
                for check in checks:
                    check.cancel()
            await asyncio.sleep(_REACH_AGAIN_S)

    async def close(self) -> None:
        """Close all channels."""
        await asyncio.gather(*(channel.close() for channel in self._channels.values()))


async def _answers(channel: grpc.aio.Channel) -> bool:
    check: Any = channel.unary_unary(_HEALTH_CHECK)
    try:
        await check(b"", wait_for_ready=True)
    except grpc.aio.AioRpcError as error:
        return error.code() is not grpc.StatusCode.UNAVAILABLE
    return True
