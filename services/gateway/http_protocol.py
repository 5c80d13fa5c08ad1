"""HTTP/1.1 connections: uvicorn's httptools protocol, made strict and given the documented refusals.

What it adds: limits on the header, time-outs from the first byte, the error envelope for anything that is not HTTP,
a lingering close so that an early refusal is read and not lost in a reset, the same care for requests that are on their
way when the process leaves, and word of a lost client.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import Any, ClassVar, cast

import httptools
import structlog
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from services.gateway.error_envelope import envelope_bytes
from services.gateway.settings import HttpLimits

CONNECTION_KEY = "waggle.connection"
"""Where the ASGI scope holds the connection."""

_UPGRADE_FIELDS = frozenset((b"connection", b"upgrade", b"http2-settings"))
_VERSIONS = frozenset(("1.0", "1.1"))
_LINGER_BYTES_MAX = 64 * 1024 * 1024

log = structlog.get_logger()


class HeaderRefused(Exception):
    """The header breaks a limit or a rule of HTTP; the message is for the client."""


class LingeringTransport:
    """A transport whose close waits for the client to stop sending, within bounds.

    Closing a socket with unread input makes the kernel send a reset, which can wipe out an answer that the client has
    not read yet. So the sending side is closed first, and what still arrives is thrown away.
    """

    def __init__(self, transport: asyncio.Transport, linger_s: float) -> None:
        self._transport = transport
        self._linger_s = linger_s
        self._timer: asyncio.TimerHandle | None = None
        self._discarded_bytes = 0
        self.has_unread_input: Callable[[], bool] = lambda: False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    @property
    def is_lingering(self) -> bool:
        """Whether input is being thrown away."""
        return self._timer is not None

    def is_closing(self) -> bool:
        """Whether no further answer can be sent."""
        return self.is_lingering or self._transport.is_closing()

    def close(self) -> None:
        """Close after the output is sent; linger first if the client may still be sending."""
        if self.is_closing():
            return
        if not self.has_unread_input():
            self._transport.close()
            return
        self._timer = asyncio.get_running_loop().call_later(self._linger_s, self._transport.abort)
        # TLS cannot be closed by half; there the answer's own words ("close", and its length) tell that it has ended.
        if self._transport.can_write_eof():
            self._transport.write_eof()
        self._transport.resume_reading()

    def discard(self, data: bytes) -> None:
        """Throw input away; too much of it ends the patience."""
        self._discarded_bytes += len(data)
        if self._discarded_bytes > _LINGER_BYTES_MAX:
            self._transport.close()

    def forget(self) -> None:
        """Drop the timer of a connection that is gone."""
        if self._timer is not None:
            self._timer.cancel()


class GatewayProtocol(HttpToolsProtocol):
    """One client connection. `limits` is set once for the process by `protocol_class`."""

    limits: ClassVar[HttpLimits] = HttpLimits()

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._lingering: LingeringTransport | None = None
        self._header_timer: asyncio.TimerHandle | None = None
        self._in_header = False
        self._message_open = False
        self._header_bytes = 0
        self._partial_header_bytes = 0
        self._stopped = False
        self._offered_upgrade = False
        self._on_lost: Callable[[], object] | None = None
        self.is_lost = False

    # What the application uses.

    def when_lost(self, callback: Callable[[], object] | None) -> None:
        """Call `callback` when the client goes away before it is answered; None takes it back."""
        self._on_lost = callback
        if callback is not None and self.is_lost:
            callback()

    # What the transport calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start with the idle timer: a connection that sends nothing is closed."""
        self._lingering = LingeringTransport(cast(asyncio.Transport, transport), self.limits.linger_s)
        self._lingering.has_unread_input = lambda: self._message_open or self._stopped
        super().connection_made(cast(asyncio.Transport, self._lingering))
        self._arm_idle_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the application that nobody waits any more."""
        self._cancel_header_timer()
        self._unset_keepalive_if_required()
        if self._lingering is not None:
            self._lingering.forget()
        super().connection_lost(exc)
        self.is_lost = True
        if self._on_lost is not None:
            self._on_lost()

    def data_received(self, data: bytes) -> None:
        """Feed the parser, or throw the bytes away when the connection has been refused."""
        transport = self._lingering
        if transport is None or transport.is_lingering:
            if transport is not None:
                transport.discard(data)
            return
        if self._stopped or transport.is_closing():
            return
        if self._in_header:
            self._partial_header_bytes += len(data)
        elif not self._message_open:
            # Armed by the first byte whatever it is: blank lines before a request are no way to stay connected.
            self._arm_header_timer()
        self._unset_keepalive_if_required()
        try:
            self._feed(data)
        except httptools.HttpParserError:
            self.send_400_response("the request is not valid HTTP/1.1")
            return
        if self._in_header and not self._stopped:
            self._arm_header_timer()
            if self._partial_header_bytes > self.limits.header_bytes_max:
                self.send_400_response("the request header is too large")

    def shutdown(self) -> None:
        """Let a running request finish, and an idle connection go after a moment.

        Whoever shares a connection among requests may have sent one before it knew that this process leaves. Closed
        with it unread, the connection would be reset, and nobody could tell whether the request had an effect.
        """
        if self.cycle is None or self.cycle.response_complete:
            self.loop.call_later(self.limits.farewell_s, self._leave)
        else:
            self.cycle.keep_alive = False

    def timeout_keep_alive_handler(self) -> None:
        """Close an idle connection without a word."""
        # Nothing of a request has arrived, so there is nobody to answer. What is still unsent will never be read.
        if self.transport.get_write_buffer_size():
            self.transport.abort()
        super().timeout_keep_alive_handler()

    # What the parser calls.

    def on_message_begin(self) -> None:
        """Start a request."""
        super().on_message_begin()
        self._in_header = self._message_open = True
        self._header_bytes = self._partial_header_bytes = 0
        cast(dict[str, Any], self.scope)[CONNECTION_KEY] = self

    def on_url(self, url: bytes) -> None:
        """Take a piece of the request target."""
        self._count_header(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header field."""
        self._count_header(len(name) + len(value) + 4)
        if not self._in_header:
            return  # a trailer: counted, and never allowed to pass for a header
        if len(self.headers) >= self.limits.header_count_max:
            raise HeaderRefused("the request header has too many fields")
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Judge the header and start the application."""
        self._in_header = False
        self._cancel_header_timer()
        self._check_header()
        if self.parser.should_upgrade():
            self._offered_upgrade = True  # `_feed` starts the request anew
            return
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """Note that the body is whole."""
        if self._offered_upgrade:
            return
        self._message_open = False
        super().on_message_complete()

    # Refusals.

    def send_400_response(self, msg: str) -> None:
        """Refuse what is not a valid request, after anything that is still owed to the client."""
        refusal = self._refusal_from_context() or msg
        self._stopped = True
        self._cancel_header_timer()
        cycle = self.cycle
        owes_answer = cycle is not None and not cycle.response_complete
        if owes_answer and not cycle.more_body:
            # A whole request came before the garbage. Its answer is sent, says "close", and is the last one.
            self.pipeline.clear()
            cycle.keep_alive = False
            return
        if owes_answer:
            # The body of the request itself is malformed: the application, which waits for it, is let go.
            cycle.disconnected = True
            cycle.message_event.set()
        if self.transport.is_closing():
            return
        body = envelope_bytes("invalid_request", refusal)
        self.transport.write(
            STATUS_LINE[400]
            + b"content-type: application/json\r\ncache-control: no-store\r\nconnection: close\r\ncontent-length: "
            + str(len(body)).encode("ascii")
            + b"\r\n\r\n"
            + body
        )
        self.transport.close()
        log.info("http_refused", status=400, message=refusal)

    def _feed(self, data: bytes) -> None:
        """Parse input. An offered upgrade (h2c, as some clients send with every first request) is not taken up.

        The parser takes what follows such a header for another protocol, so a new one reads the header again without
        the offer, and then the body.
        """
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            header = self._header_without_upgrade()
            self._offered_upgrade = False
            self.parser = httptools.HttpRequestParser(self)
            self._feed(header + data[upgrade.args[0] :])

    def _header_without_upgrade(self) -> bytes:
        lines = [self.parser.get_method() + b" " + self.url + b" HTTP/1.1"]
        lines += [name + b": " + value for name, value in self.headers if name not in _UPGRADE_FIELDS]
        return b"\r\n".join([*lines, b"", b""])

    def _refusal_from_context(self) -> str | None:
        # httptools wraps what a callback raises; this runs while uvicorn handles it.
        error = sys.exc_info()[1]
        cause = error.__context__ if isinstance(error, httptools.HttpParserCallbackError) else None
        return str(cause) if isinstance(cause, HeaderRefused) else None

    def _check_header(self) -> None:
        """Refuse framing that two readers could understand differently."""
        if self.parser.get_method() == b"CONNECT":
            raise HeaderRefused("this server is no proxy")
        version = self.parser.get_http_version()
        if version not in _VERSIONS:
            raise HeaderRefused("the HTTP version must be 1.1 or 1.0")
        hosts = 0
        lengths = 0
        for name, value in self.headers:
            if name == b"host":
                hosts += 1
            elif name == b"content-length":
                lengths += 1
            elif name == b"transfer-encoding" and value.strip().lower() != b"chunked":
                raise HeaderRefused("the only transfer encoding is chunked")
        if lengths > 1:
            raise HeaderRefused("more than one Content-Length")
        if hosts > 1 or (hosts == 0 and version == "1.1"):
            raise HeaderRefused("exactly one Host header is needed")

    def _leave(self) -> None:
        # A header that has begun has its own time, and the answer to it ends the connection.
        if not self._in_header:
            super().shutdown()

    def _count_header(self, size: int) -> None:
        self._header_bytes += size
        if self._header_bytes > self.limits.header_bytes_max:
            raise HeaderRefused("the request header is too large")

    def _header_timed_out(self) -> None:
        self._header_timer = None
        if self._in_header:
            self.send_400_response("the request header took too long")
        elif self.cycle is None or self.cycle.response_complete:
            self.transport.close()

    def _arm_header_timer(self) -> None:
        if self._header_timer is None:
            self._header_timer = self.loop.call_later(self.limits.header_timeout_s, self._header_timed_out)

    def _cancel_header_timer(self) -> None:
        if self._header_timer is not None:
            self._header_timer.cancel()
            self._header_timer = None

    def _arm_idle_timer(self) -> None:
        self.timeout_keep_alive_task = self.loop.call_later(self.limits.idle_timeout_s, self.timeout_keep_alive_handler)


def protocol_class(limits: HttpLimits) -> type[GatewayProtocol]:
    """The protocol class with these limits."""
    return type("LimitedGatewayProtocol", (GatewayProtocol,), {"limits": limits})
