"""A channel whose certificate changes with the files: for the calls that begin afterwards, without ending any."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import grpc

from services.runtime.channel_succession import ChannelSuccession, Link
from services.runtime.key_material import KeyMaterial, ReloadedKeyMaterial

_Succession = ChannelSuccession[grpc.Channel]
_Make = Callable[[grpc.Channel], Any]


class RenewedChannel(grpc.Channel):
    """A `grpc.Channel` over a succession of channels.

    Args:
        material: Read anew when it changes.
        open_channel: Opens a channel with it.
    """

    def __init__(self, material: ReloadedKeyMaterial, open_channel: Callable[[KeyMaterial], grpc.Channel]) -> None:
        self._succession: _Succession = ChannelSuccession(material, open_channel, _close)

    def __enter__(self) -> RenewedChannel:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def subscribe(self, callback: Callable[[Any], None], try_to_connect: Any = False) -> None:
        """Watch the connectivity of the channel that is in use now."""
        self._succession.present.subscribe(callback, try_to_connect)

    def unsubscribe(self, callback: Callable[[Any], None]) -> None:
        """End what `subscribe` began."""
        self._succession.present.unsubscribe(callback)

    def unary_unary(self, *arguments: Any, **options: Any) -> Any:
        """See `grpc.Channel`."""
        return _SingleAnswer(self._succession, lambda channel: channel.unary_unary(*arguments, **options))

    def stream_unary(self, *arguments: Any, **options: Any) -> Any:
        """See `grpc.Channel`."""
        return _SingleAnswer(self._succession, lambda channel: channel.stream_unary(*arguments, **options))

    def unary_stream(self, *arguments: Any, **options: Any) -> Any:
        """See `grpc.Channel`."""
        return _StreamedAnswer(self._succession, lambda channel: channel.unary_stream(*arguments, **options))

    def stream_stream(self, *arguments: Any, **options: Any) -> Any:
        """See `grpc.Channel`."""
        return _StreamedAnswer(self._succession, lambda channel: channel.stream_stream(*arguments, **options))

    def close(self) -> None:
        """Close the channels; calls that run are cancelled."""
        for channel in self._succession.leave():
            channel.close()


def _close(channel: grpc.Channel) -> None:
    # The last call of a channel may end on the channel's own thread, and closing waits for that one.
    threading.Thread(target=channel.close, name="channel-close", daemon=True).start()


class _Method:
    """One method, made for each channel when it is first called on it."""

    def __init__(self, succession: _Succession, make: _Make) -> None:
        self._succession = succession
        self._make = make
        self._made: tuple[Link[grpc.Channel], Any] | None = None

    def _on(self, link: Link[grpc.Channel]) -> Any:
        made = self._made
        if made is None or made[0] is not link:
            made = self._made = (link, self._make(link.channel))
        return made[1]

    def _waited(self, call: Callable[[Any], Any]) -> Any:
        """Make a call that is over when it returns."""
        link = self._succession.take()
        try:
            return call(self._on(link))
        finally:
            self._succession.give_back(link)

    def _started(self, call: Callable[[Any], Any]) -> Any:
        """Make a call that goes on after this returns."""
        link = self._succession.take()
        try:
            started = call(self._on(link))
        except BaseException:
            self._succession.give_back(link)
            raise
        if not started.add_callback(lambda: self._succession.give_back(link)):
            self._succession.give_back(link)  # it is over already
        return started


class _SingleAnswer(_Method):
    def __call__(self, *arguments: Any, **options: Any) -> Any:
        return self._waited(lambda method: method(*arguments, **options))

    def with_call(self, *arguments: Any, **options: Any) -> Any:
        return self._waited(lambda method: method.with_call(*arguments, **options))

    def future(self, *arguments: Any, **options: Any) -> Any:
        return self._started(lambda method: method.future(*arguments, **options))


class _StreamedAnswer(_Method):
    def __call__(self, *arguments: Any, **options: Any) -> Any:
        return self._started(lambda method: method(*arguments, **options))
