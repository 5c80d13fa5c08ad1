"""Ports for processes that must know theirs before they start, and keep it over restarts."""

from __future__ import annotations

import itertools
import random
import socket
from collections.abc import Iterator
from pathlib import Path

_LOWEST = 10_000
# Linux gives ports of this range to connections that go out, of which tests open thousands.
_OUTGOING = Path("/proc/sys/net/ipv4/ip_local_port_range")


def free_port() -> int:
    """Return a TCP port that was free a moment ago, and that nobody else is given meanwhile.

    No outgoing connection is, nor a second caller of this process; other test processes begin somewhere else.
    """
    return next(_free_ports)


def _find_free_ports() -> Iterator[int]:
    ports = range(_LOWEST, _end())
    # Generated tests fix the seed of the usual source, with which several processes would begin alike.
    start = random.SystemRandom().randrange(len(ports))
    for index in itertools.count(start):
        port = ports[index % len(ports)]
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        yield port


def _end() -> int:
    try:
        lowest_outgoing = int(_OUTGOING.read_text(encoding="ascii").split()[0])
    except OSError:
        return 32_768
    return lowest_outgoing if lowest_outgoing > _LOWEST else 65_536


_free_ports = _find_free_ports()
