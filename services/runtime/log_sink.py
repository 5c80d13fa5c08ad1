"""Where log lines go: a process serves on although nobody can take its log."""

from __future__ import annotations

import threading
from typing import Final, Protocol

_LINES_LOST: Final = b'{"level":"warning","event":"log_lines_lost","count":%d}\n'


class RawStream(Protocol):
    """An unbuffered binary stream."""

    def write(self, data: bytes, /) -> int | None:
        """Write some of the data and return how much; None when nothing could be taken without waiting."""


class LogSink:
    """A binary stream that loses lines rather than fail: on a full disk, a closed pipe, a reader that does not read.

    Unbuffered, so that nothing of a lost line is left to fail later, at the latest when the process ends. The next line
    that can be written again stands behind one that tells how many were lost.

    Safe to share between threads.
    """

    def __init__(self, stream: RawStream) -> None:
        self._stream = stream
        self._lost = 0
        self._is_torn = False
        self._lock = threading.Lock()

    def write(self, line: bytes) -> int:
        """Write a line that ends with a line feed, or count it as lost. Returns the length of the line."""
        with self._lock:
            if self._lost and self._write_whole(_LINES_LOST % self._lost):
                self._lost = 0
            if self._lost or not self._write_whole(line):
                self._lost += 1
        return len(line)

    def flush(self) -> None:
        """Do nothing: nothing is held back."""

    def _write_whole(self, line: bytes) -> bool:
        # What was cut off before ends here, so that it spoils one line only.
        data = b"\n" + line if self._is_torn else line
        try:
            while data:
                written = self._stream.write(data)
                if not written:
                    break
                self._is_torn = True
                data = data[written:]
        except (OSError, ValueError):
            # ValueError: the stream is closed.
            return False
        if data:
            return False
        self._is_torn = False
        return True


class TextLogSink:
    """A `LogSink` for handlers that write text. A handler writes the line and its line feed at once."""

    def __init__(self, sink: LogSink) -> None:
        self._sink = sink

    def write(self, text: str) -> int:
        """Write a line of text; see `LogSink.write`."""
        self._sink.write(text.encode("utf-8", "backslashreplace"))
        return len(text)

    def flush(self) -> None:
        """Do nothing: nothing is held back."""
