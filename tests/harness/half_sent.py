"""A client of HTTP/2 that sends bodies and never finishes one, or asks and never reads."""

from __future__ import annotations

import h2.connection
import h2.events
import h2.exceptions
import h2.settings

from tests.harness.raw_http import Door


class HalfSent:
    """One connection with requests that are never whole.

    Args:
        door: Where to.
        reads: Whether it takes anything of the body of an answer.

    Attributes:
        ended: How many of them the other side has put an end to, by an answer or a reset.
    """

    def __init__(self, door: Door, *, reads: bool = True) -> None:
        self._socket = door.connect()
        self._http = h2.connection.H2Connection()
        self._over: set[int] = set()
        self._http.initiate_connection()
        if not reads:
            self._http.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: 0})
        self._flush()

    @property
    def ended(self) -> int:
        return len(self._over)

    def close(self) -> None:
        self._socket.close()

    def ask(self, path: str) -> None:
        """GET a path, and go on without the answer."""
        stream = self._http.get_next_available_stream_id()
        header = [(":method", "GET"), (":path", path), (":scheme", "https"), (":authority", "edge")]
        self._http.send_headers(stream, header, end_stream=True)
        self._flush()

    def send(self, path: str, content_type: str, size: int) -> None:
        """Begin a POST and send so many bytes of its body, fewer when it is ended before."""
        stream = self._http.get_next_available_stream_id()
        header = [(":method", "POST"), (":path", path), (":scheme", "https"), (":authority", "edge")]
        self._http.send_headers(stream, [*header, ("content-type", content_type)])
        left = size
        while left and stream not in self._over:
            try:
                room = min(self._http.local_flow_control_window(stream), self._http.max_outbound_frame_size, left)
                if room:
                    self._http.send_data(stream, bytes(room))
            except h2.exceptions.StreamClosedError:
                break
            left -= room
            self._flush()
            if not room:
                self._read()

    def _read(self) -> None:
        for event in self._http.receive_data(self._socket.recv(65_536)):
            if isinstance(event, (h2.events.StreamReset, h2.events.ResponseReceived)):
                self._over.add(event.stream_id)
        self._flush()

    def _flush(self) -> None:
        self._socket.sendall(self._http.data_to_send())
