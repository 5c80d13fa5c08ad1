"""Which of several channels to one address is used: one after the other, each with the key material of its time.

gRPC fixes the certificate of a channel when it is made. So when the material changes, calls that begin later go through
a new channel, and the old one is closed when its last call has ended.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from services.runtime.key_material import KeyMaterial, ReloadedKeyMaterial

C = TypeVar("C")


class Link(Generic[C]):
    """One channel, and how many calls it carries now."""

    __slots__ = ("call_count", "channel", "material")

    def __init__(self, channel: C, material: KeyMaterial) -> None:
        self.channel = channel
        self.material = material
        self.call_count = 0


class ChannelSuccession(Generic[C]):
    """The channels to one address. Safe to share between threads when `open_channel` and `close_channel` are.

    Args:
        material: What channels are opened with.
        open_channel: Opens one.
        close_channel: Closes one that carries no call.
    """

    def __init__(
        self,
        material: ReloadedKeyMaterial,
        open_channel: Callable[[KeyMaterial], C],
        close_channel: Callable[[C], None],
    ) -> None:
        self._material = material
        self._open = open_channel
        self._close = close_channel
        self._lock = threading.Lock()
        present = material.current()
        self._present = Link(open_channel(present), present)
        self._former: set[Link[C]] = set()

    @property
    def present(self) -> C:
        """The channel that was used last."""
        return self._present.channel

    def take(self) -> Link[C]:
        """Return the channel for a call that begins now; `give_back` is owed when the call has ended."""
        material = self._material.current()
        with self._lock:
            former = self._present
            if material is not former.material:
                self._present = Link(self._open(material), material)
                self._former.add(former)
            self._present.call_count += 1
            taken, idle = self._present, self._drop_idle()
        self._close_all(idle)
        return taken

    def give_back(self, link: Link[C]) -> None:
        """Note that a call has ended."""
        with self._lock:
            link.call_count -= 1
            idle = self._drop_idle()
        self._close_all(idle)

    def leave(self) -> list[C]:
        """Return every channel that is open, to be closed whatever it carries."""
        with self._lock:
            links = [self._present, *self._former]
            self._former.clear()
        return [link.channel for link in links]

    def _drop_idle(self) -> list[Link[C]]:
        if not self._former:
            return []
        idle = [link for link in self._former if link.call_count == 0]
        self._former.difference_update(idle)
        return idle

    def _close_all(self, links: list[Link[C]]) -> None:
        for link in links:
            self._close(link.channel)
