"""What the application reads of an HTTP request: the header fields that matter, and the body within its limit."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from dataclasses import dataclass
from typing import Any

from services.domain.errors import InvalidRequest, Unauthorized
from services.gateway.error_envelope import BodyTooLarge

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]

_AUTHORIZATION_BYTES_MAX = 4096
_VISIBLE_ASCII = re.compile(rb"[ -~]+\Z")
_REQUEST_ID = re.compile(rb"[A-Za-z0-9._:/+=-]{1,128}\Z")
_JSON_TYPE = re.compile(rb'application/json[ \t]*(?:;[ \t]*charset=(?:utf-8|"utf-8")[ \t]*)?\Z', re.IGNORECASE)


class ClientGone(Exception):
    """The client went away before its request was whole. Nobody is left to answer."""


@dataclass(frozen=True, slots=True)
class RequestHeader:
    """The header fields that the gateway acts on.

    Attributes:
        authorizations: Values of all Authorization fields.
        content_types: Values of all Content-Type fields.
        content_length: Declared size of the body in bytes, None where there is none.
        is_chunked: The body comes in chunks.
        is_encoded: The body is compressed or otherwise encoded.
        request_id: The client's X-Request-Id where it is usable, else empty.
    """

    authorizations: tuple[bytes, ...]
    content_types: tuple[bytes, ...]
    content_length: int | None
    is_chunked: bool
    is_encoded: bool
    request_id: str

    @staticmethod
    def read(fields: Iterable[tuple[bytes, bytes]]) -> RequestHeader:
        """Collect from (lower-case name, value) pairs, whose framing the server has already checked."""
        authorizations: list[bytes] = []
        content_types: list[bytes] = []
        content_length: int | None = None
        is_chunked = is_encoded = False
        request_id = ""
        for name, value in fields:
            if name == b"authorization":
                authorizations.append(value)
            elif name == b"content-type":
                content_types.append(value.strip())
            elif name == b"content-length":
                content_length = int(value)
            elif name == b"transfer-encoding":
                is_chunked = True
            elif name == b"content-encoding":
                is_encoded = is_encoded or value.strip().lower() != b"identity"
            elif name == b"x-request-id" and _REQUEST_ID.match(value):
                request_id = value.decode("ascii")
        return RequestHeader(
            tuple(authorizations), tuple(content_types), content_length, is_chunked, is_encoded, request_id
        )

    @property
    def has_body(self) -> bool:
        """Whether a body follows the header."""
        return self.is_chunked or bool(self.content_length)

    def authorization(self) -> str | None:
        """The one Authorization value, None where there is none.

        Raises:
            Unauthorized: There are several, or it cannot be a credential.
        """
        if not self.authorizations:
            return None
        # White space around a value is no part of it (RFC 9110, section 5.5); the parser takes what stands before.
        value = self.authorizations[0].rstrip(b" \t")
        # A proxy may have joined several fields into one with commas (RFC 9110, section 5.3); no credential has any.
        if len(self.authorizations) > 1 or b"," in value:
            raise Unauthorized("more than one Authorization header")
        if len(value) > _AUTHORIZATION_BYTES_MAX or not _VISIBLE_ASCII.match(value):
            raise Unauthorized("malformed Authorization header")
        return value.decode("ascii")

    def check_no_body(self) -> None:
        """Raise InvalidRequest if a body follows, for routes that take none."""
        if self.has_body:
            raise InvalidRequest("this route takes no request body")

    def check_json_body(self, body_bytes_max: int) -> None:
        """Judge a body before it is read.

        Raises:
            BodyTooLarge: It declares more than `body_bytes_max` bytes.
            InvalidRequest: There is none, or it is not plain JSON.
        """
        if self.content_length is not None and self.content_length > body_bytes_max:
            raise BodyTooLarge(f"the request body is over {body_bytes_max} bytes")
        if not self.has_body:
            raise InvalidRequest("a JSON body is needed")
        if self.is_encoded:
            raise InvalidRequest("an encoded request body is not accepted")
        if len(self.content_types) != 1 or not _JSON_TYPE.match(self.content_types[0]):
            raise InvalidRequest("the Content-Type must be application/json")


async def read_body(receive: Receive, body_bytes_max: int, timeout_s: float) -> bytes:
    """Read a whole body, and not a byte more than its limit and one.

    Raises:
        BodyTooLarge: It has more than `body_bytes_max` bytes.
        InvalidRequest: It was not whole after `timeout_s` seconds.
        ClientGone: The connection ended first.
    """
    try:
        async with asyncio.timeout(timeout_s):
            return await _collect(receive, body_bytes_max)
    except TimeoutError:
        raise InvalidRequest("the request body took too long") from None


async def _collect(receive: Receive, body_bytes_max: int) -> bytes:
    parts: list[bytes] = []
    size = 0
    more = True
    while more:
        event = await receive()
        if event["type"] != "http.request":
            raise ClientGone
        part: bytes = event.get("body", b"")
        size += len(part)
        if size > body_bytes_max:
            raise BodyTooLarge(f"the request body is over {body_bytes_max} bytes")
        parts.append(part)
        more = event.get("more_body", False)
    return parts[0] if len(parts) == 1 else b"".join(parts)
