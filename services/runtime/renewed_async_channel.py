"""The same as `renewed_channel` for calls inside an event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import grpc
import grpc.aio

from services.runtime.channel_succession import ChannelSuccession, Link
from services.runtime.key_material import KeyMaterial, ReloadedKeyMaterial

_Succession = ChannelSuccession[grpc.aio.Channel]
_Make = Callable[[grpc.aio.Channel], Any]


class RenewedAsyncChannel(grpc.aio.Channel):
    """A `grpc.aio.Channel` over a succession of channels. Belongs to one event loop.

    Args:
        material: Read anew when it changes.
        open_channel: Opens a channel with it.
    """

    def __init__(self, material: ReloadedKeyMaterial, open_channel: Callable[[KeyMaterial], grpc.aio.Channel]) -> None:
        self._succession: _Succession = ChannelSuccession(material, open_channel, self._close_soon)
        self._closing: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> RenewedAsyncChannel:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def get_state(self, try_to_connect: bool = False) -> grpc.ChannelConnectivity:
        """Return the connectivity of the channel that is in use now."""
        return self._succession.present.get_state(try_to_connect)

    async def wait_for_state_change(self, last_observed_state: grpc.ChannelConnectivity) -> None:
        """Wait for a change of what `get_state` returns."""
        await self._succession.present.wait_for_state_change(last_observed_state)

    async def channel_ready(self) -> None:
        """Wait until the channel that is in use now is connected."""
        await self._succession.present.channel_ready()

    def unary_unary(self, *arguments: Any, **options: Any) -> Any:
        """See `grpc.aio.Channel`."""
        return _Method(self._succession, lambda channel: channel.unary_unary(*arguments, **options))

    def unary_stream(self, *arguments: Any, **options: Any) -> Any:
        """See `grpc.aio.Channel`."""
        return _Method(self._succession, lambda channel: channel.unary_stream(*arguments, **options))

    def stream_unary(self, *arguments: Any, **options: Any) -> Any:
        """See `grpc.aio.Channel`."""
        return _Method(self._succession, lambda channel: channel.stream_unary(*arguments, **options))

    def stream_stream(self, *arguments: Any, **options: Any) -> Any:
        """See `grpc.aio.Channel`."""
        return _Method(self._succession, lambda channel: channel.stream_stream(*arguments, **options))

    async def close(self, grace: float | None = None) -> None:
        """Close the channels; calls that run have `grace` seconds."""
        await asyncio.gather(*(channel.close(grace) for channel in self._succession.leave()), *self._closing)

    def _close_soon(self, channel: grpc.aio.Channel) -> None:
        task = asyncio.get_running_loop().create_task(channel.close(None))
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)


class _Method:
    """One method, made for each channel when it is first called on it."""

    def __init__(self, succession: _Succession, make: _Make) -> None:
        self._succession = succession
        self._make = make
        self._made: tuple[Link[grpc.aio.Channel], Any] | None = None

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        link = self._succession.take()
        try:
            if self._made is None or self._made[0] is not link:
                self._made = (link, self._make(link.channel))
            call = self._made[1](*arguments, **options)
            call.add_done_callback(lambda _: self._succession.give_back(link))
        except BaseException:
            self._succession.give_back(link)
            raise
        return call
