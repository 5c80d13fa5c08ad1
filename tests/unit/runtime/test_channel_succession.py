"""Which channel a call goes through, and when a former one is closed."""

from __future__ import annotations

from typing import cast

from services.runtime.channel_succession import ChannelSuccession
from services.runtime.key_material import KeyMaterial, ReloadedKeyMaterial


class Material:
    """Key material that changes when the test says so."""

    def __init__(self) -> None:
        self.present = KeyMaterial(b"c", b"k", b"a", 0.0)

    def current(self) -> KeyMaterial:
        return self.present

    def change(self) -> None:
        self.present = KeyMaterial(b"c", b"k", b"a", 0.0)


def succession(material: Material) -> tuple[ChannelSuccession[str], list[str], list[str]]:
    """One whose channels are words, with lists of those that were opened and closed."""
    opened: list[str] = []
    closed: list[str] = []

    def open_channel(_material: KeyMaterial) -> str:
        opened.append(f"channel {len(opened) + 1}")
        return opened[-1]

    return ChannelSuccession(cast(ReloadedKeyMaterial, material), open_channel, closed.append), opened, closed


def test_calls_share_a_channel_while_the_material_stays() -> None:
    """Nothing is opened for a call."""
    channels, opened, closed = succession(Material())
    links = [channels.take() for _ in range(3)]
    for link in links:
        channels.give_back(link)
    assert (["channel 1"], []) == (opened, closed)


def test_a_former_channel_is_closed_after_its_last_call() -> None:
    """Calls that began before the change end where they began."""
    material = Material()
    channels, _, closed = succession(material)
    first, second = channels.take(), channels.take()
    material.change()
    third = channels.take()
    seen = [list(closed)]
    for link in (first, third, second):
        channels.give_back(link)
        seen.append(list(closed))
    assert ("channel 1", "channel 2") == (first.channel, third.channel)
    assert [[], [], [], ["channel 1"]] == seen


def test_a_former_channel_without_calls_is_closed_at_once() -> None:
    """Many changes leave one open channel behind."""
    material = Material()
    channels, opened, closed = succession(material)
    for _ in range(5):
        material.change()
        channels.give_back(channels.take())
    assert opened[:-1] == closed
    assert [opened[-1]] == channels.leave()


def test_at_the_end_every_open_channel_is_named() -> None:
    """Also those whose calls still run."""
    material = Material()
    channels, _, _ = succession(material)
    channels.take()
    material.change()
    channels.take()
    assert {"channel 1", "channel 2"} == set(channels.leave())
