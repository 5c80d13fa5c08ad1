"""Log lines that cannot be written are lost, and nothing else is."""

from __future__ import annotations

import errno

import pytest

from services.runtime.log_sink import LogSink, TextLogSink


class Pipe:
    """A stream with room for some bytes, that then fails in its own way."""

    def __init__(self, room: int, failure: Exception | None) -> None:
        self.room, self.failure = room, failure
        self.data = b""

    def write(self, data: bytes) -> int | None:
        if not self.room:
            if self.failure is not None:
                raise self.failure
            return None
        taken = data[: self.room]
        self.room -= len(taken)
        self.data += taken
        return len(taken)


FAILURES = [OSError(errno.ENOSPC, "full"), BrokenPipeError(), ValueError("closed"), BlockingIOError(), None]


@pytest.mark.parametrize("failure", FAILURES)
@pytest.mark.parametrize("room", range(8))
def test_what_is_lost_is_counted(failure: Exception | None, room: int) -> None:
    """No failure reaches the caller; with room again whole lines follow, the first of them with the number of lost."""
    pipe = Pipe(room, failure)
    sink = LogSink(pipe)
    for line in (b"1\n", b"2\n", b"3\n", b"4\n"):
        assert 2 == sink.write(line)
    pipe.room = 1000
    sink.write(b"5\n")
    lines = pipe.data.split(b"\n")
    whole = room // 2
    told = [b'{"level":"warning","event":"log_lines_lost","count":%d}' % (4 - whole)]
    cut = [] if room % 2 == 0 else [b"%d" % (whole + 1)]
    assert [*(b"%d" % number for number in range(1, whole + 1)), *cut, *told, b"5", b""] == lines


def test_short_writes_are_continued() -> None:
    """A stream that takes a byte at a time loses nothing."""

    class Narrow(Pipe):
        def write(self, data: bytes) -> int | None:
            return super().write(data[:1])

    pipe = Narrow(1000, None)
    TextLogSink(LogSink(pipe)).write("größer\n")
    assert "größer\n".encode() == pipe.data
