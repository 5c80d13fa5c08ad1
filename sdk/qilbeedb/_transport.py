"""One HTTP exchange on a connection of its own: no proxies, redirects, cookies or repetitions, and a bounded answer."""

from __future__ import annotations

import http.client
import re
import threading
from typing import Any, Callable, NamedTuple, Optional, Union
from urllib.parse import urlsplit

from qilbeedb._errors import ConsumerError, ConsumerProtocolError, ConsumerTransportError, refuse
from qilbeedb._strict_json import parse_response

ApiKey = Union[str, Callable[[], str]]

RESPONSE_BYTES_MIN = 1024
RESPONSE_BYTES_MAX = 64 * 1024 * 1024
_READ_BYTES = 64 * 1024
_SINGLE_HEADERS = ("content-type", "content-length", "content-encoding", "cache-control", "transfer-encoding")
_TOKEN = re.compile(r"[!-~]+")
_URL = re.compile(r"[!-~]+")
_DIGITS = re.compile(r"[0-9]{1,19}")


class Response(NamedTuple):
    """A whole answer: its status and the parsed JSON of its body."""

    status: int
    document: Any


class Endpoint(NamedTuple):
    """Where a server is. `prefix` is put before every path; `url` is the base URL without slashes at its end."""

    url: str
    is_tls: bool
    host: str
    port: Optional[int]
    prefix: str


def parse_endpoint(base_url: str) -> Endpoint:
    """Read a base URL.

    Raises:
        ValueError: It is not http or https, has no host, or has user information, a query or a fragment.
    """
    if not isinstance(base_url, str) or not _URL.fullmatch(base_url):
        raise ValueError("base_url must be an http or https URL in ASCII")
    parts = urlsplit(base_url)
    port = parts.port
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("base_url must be http or https and name a host")
    if "@" in parts.netloc or "?" in base_url or "#" in base_url:
        raise ValueError("base_url may have neither user information nor a query nor a fragment")
    return Endpoint(base_url.rstrip("/"), parts.scheme == "https", parts.hostname, port, parts.path.rstrip("/"))


class Transport:
    """Sends requests to one server with one credential.

    Args:
        base_url: See `parse_endpoint`.
        api_key: The credential, or a function that returns it, asked before each request.
        timeout_s: Bound of each operation of the socket, seconds; not of a whole exchange.
        response_bytes_max: Longest accepted body, 1 KiB to 64 MiB.

    Raises:
        TypeError: `api_key` is neither text nor a function.
        ValueError: Another argument is out of its bounds.
    """

    def __init__(self, base_url: str, api_key: ApiKey, *, timeout_s: float, response_bytes_max: int) -> None:
        self.endpoint = parse_endpoint(base_url)
        if not isinstance(api_key, str) and not callable(api_key):
            raise TypeError("api_key must be a string or a function without arguments")
        if isinstance(timeout_s, bool) or not isinstance(timeout_s, (int, float)):
            raise ValueError("timeout must be a number of seconds")
        if not 0 < timeout_s <= threading.TIMEOUT_MAX:
            raise ValueError("timeout must be positive, and no longer than the machine can wait")
        if isinstance(response_bytes_max, bool) or not isinstance(response_bytes_max, int):
            raise ValueError("response_bytes_max must be an integer")
        if not RESPONSE_BYTES_MIN <= response_bytes_max <= RESPONSE_BYTES_MAX:
            raise ValueError("response_bytes_max must be 1 KiB to 64 MiB")
        self._api_key = api_key
        self._timeout_s = timeout_s
        self._response_bytes_max = response_bytes_max

    def exchange(self, method: str, path: str, body: Optional[bytes] = None) -> Response:
        """Send one request and return the answer, whatever its status.

        Raises:
            ConsumerError: `invalid_credential`; nothing was sent.
            ConsumerTransportError: `transport_failure`.
            ConsumerProtocolError: What came back is no acceptable HTTP answer with a JSON body.
        """
        headers = {
            "Authorization": f"Bearer {self._token()}",
            "Accept": "application/json",
            "Content-Type": "application/json",
            "Accept-Encoding": "identity",
        }
        connection = self._connection()
        try:
            connection.request(method, self.endpoint.prefix + path, body=body, headers=headers)
            # Closed on its own: of an answer that ends its connection, the connection lets go.
            with connection.getresponse() as response:
                if 300 <= response.status < 400:
                    refuse("redirect_rejected")
                length = _check_headers(response, self._response_bytes_max)
                data = self._read(response)
        except (OSError, http.client.HTTPException) as error:
            raise ConsumerTransportError("transport_failure") from error
        finally:
            connection.close()
        if length is not None and length != len(data):
            refuse("truncated_response")
        return Response(response.status, parse_response(data))

    def _connection(self) -> http.client.HTTPConnection:
        endpoint = self.endpoint
        kind = http.client.HTTPSConnection if endpoint.is_tls else http.client.HTTPConnection
        return kind(endpoint.host, endpoint.port, timeout=self._timeout_s)

    def _token(self) -> str:
        token = self._api_key if isinstance(self._api_key, str) else self._api_key()
        if not isinstance(token, str) or not _TOKEN.fullmatch(token):
            raise ConsumerError("invalid_credential")
        return token

    def _read(self, response: http.client.HTTPResponse) -> bytes:
        data = bytearray()
        while True:
            part = response.read(_READ_BYTES)
            if not part:
                return bytes(data)
            data += part
            if len(data) > self._response_bytes_max:
                refuse("response_too_large")


def _check_headers(response: http.client.HTTPResponse, bytes_max: int) -> Optional[int]:
    """Check the headers of an answer and return its declared length, if it declares one."""
    values = {name: response.headers.get_all(name) or [] for name in _SINGLE_HEADERS}
    if any(len(found) > 1 for found in values.values()):
        refuse("duplicate_response_header")
    single = {name: found[0].strip() for name, found in values.items() if found}
    if single.get("content-encoding", "identity").lower() != "identity":
        refuse("encoded_response_rejected")
    if single.get("transfer-encoding", "chunked").lower() != "chunked":
        refuse("encoded_response_rejected")
    if single.get("content-type", "").split(";")[0].strip().lower() != "application/json":
        refuse("non_json_response")
    if single.get("cache-control") != "no-store":
        refuse("cacheable_response_rejected")
    declared = single.get("content-length")
    if declared is None:
        return None
    if "transfer-encoding" in single or not _DIGITS.fullmatch(declared):
        refuse("ambiguous_response_length")
    length = int(declared)
    if length > bytes_max:
        raise ConsumerProtocolError("response_too_large")
    return length
