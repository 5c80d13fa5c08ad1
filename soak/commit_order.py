"""Is there one order of commits and reads? A graph of what must come before what, and a cycle in it if there is one.

The order of the commits of each record is known from its revisions, so nothing has to be searched for: commits and
reads are nodes, and the history can be explained if and only if the graph has no cycle. Source: Adya, "Weak
Consistency" (1999), direct serialization graphs, with the edges of real time that make them strict.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter

_BEGAN, _ENDED = 0, 1


@dataclass(frozen=True, slots=True)
class Event:
    """Something that took effect at one moment between its beginning and its end.

    Attributes:
        name: Tells it from all others.
        began_ns: When it was asked for.
        ended_ns: When it was answered; None when it never was, though it took effect.
        after: Events that came before it.
        before: Events that came after it.
    """

    name: Hashable
    began_ns: int
    ended_ns: int | None
    after: tuple[Hashable, ...] = ()
    before: tuple[Hashable, ...] = ()


def find_cycle(events: Iterable[Event]) -> list[Hashable]:
    """Return events that each must come before the next, the first one again at the end; empty when there are none."""
    graph: TopologicalSorter[Hashable] = TopologicalSorter()
    moments: list[tuple[int, int, Hashable]] = []
    for event in events:
        graph.add(event.name, *event.after)
        for later in event.before:
            graph.add(later, event.name)
        moments.append((event.began_ns, _BEGAN, event.name))
        if event.ended_ns is not None:
            moments.append((event.ended_ns, _ENDED, event.name))
    # Whatever ended before another began is tied to it by a chain of ends, one node for each; a beginning at the very
    # moment of an end is none that comes later.
    moments.sort(key=lambda moment: moment[:2])
    last_end: _Moment | None = None
    for number, (_, kind, name) in enumerate(moments):
        if kind == _BEGAN:
            if last_end is not None:
                graph.add(name, last_end)
        else:
            end = _Moment(number)
            graph.add(end, name, *(() if last_end is None else (last_end,)))
            last_end = end
    try:
        graph.prepare()
    except CycleError as error:
        return [name for name in error.args[1] if not isinstance(name, _Moment)]
    return []


@dataclass(frozen=True, slots=True)
class _Moment:
    """An end, as a node of the chain."""

    number: int
