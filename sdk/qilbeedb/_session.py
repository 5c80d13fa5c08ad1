"""One operation of a client: prove who the credential is, send one request, open the envelope of the answer."""

from __future__ import annotations

import re
import threading
from contextlib import contextmanager
from typing import Any, Iterator, Optional

from qilbeedb._checks import NAME, VERSION_1, anything, closed
from qilbeedb._errors import (
    REJECTED,
    UNKNOWN,
    ConsumerAPIError,
    ConsumerError,
    ConsumerProtocolError,
    ConsumerTransportError,
    ReconciliationRequired,
    refuse,
)
from qilbeedb._identities import check_credential, normalize_scope
from qilbeedb._strict_json import JsonObject, compact_json
from qilbeedb._transport import ApiKey, Response, Transport

REQUEST_BYTES_MAX = 65_536
VECTOR_REQUEST_BYTES_MAX = 2_097_152
IDENTITY_PATH = "/api/v1/identity"
_DETAIL_CHARACTERS_MAX = 500

_CODE = re.compile(r"[a-z][a-z0-9_]{0,127}")
_ENVELOPE = closed({"contract_version": VERSION_1, "error": closed({"code": anything, "message": anything})})


class Session:
    """A server, a credential, and who it must belong to.

    Attributes:
        tenant_id: The company that the credential has to belong to.
        subject_id: The subject that it has to belong to.
        scope: The scope of every request, with all four members.
        transport: Sends the requests.
    """

    def __init__(
        self,
        base_url: str,
        api_key: ApiKey,
        *,
        tenant_id: str,
        subject_id: str,
        scope: Any,
        timeout_s: float,
        response_bytes_max: int,
    ) -> None:
        NAME(tenant_id)
        NAME(subject_id)
        self.tenant_id = tenant_id
        self.subject_id = subject_id
        self.scope = normalize_scope(scope)
        self.transport = Transport(base_url, api_key, timeout_s=timeout_s, response_bytes_max=response_bytes_max)
        self._running = threading.Lock()

    @contextmanager
    def operation(self) -> Iterator[None]:
        """Hold the client for one operation.

        Raises:
            ConsumerError: `consumer_already_running`; another thread is inside.
        """
        if not self._running.acquire(blocking=False):
            raise ConsumerError("consumer_already_running")
        try:
            yield
        finally:
            self._running.release()

    def post(
        self,
        path: str,
        members: JsonObject,
        payload: str,
        *,
        is_command: bool = False,
        echoes_scope: bool = True,
        bytes_max: int = REQUEST_BYTES_MAX,
    ) -> Any:
        """Send members with version and scope to a route, and return the member `payload` of its success.

        Raises:
            ConsumerAPIError: The server refused.
            ConsumerProtocolError: `request_too_large` (nothing was sent), or what came back is not documented.
            ConsumerTransportError: No answer came back.
            ReconciliationRequired: `credential_identity_mismatch`; nothing was sent.
        """
        body = self.encode(members, bytes_max)
        return self.send("POST", path, body, payload, is_command=is_command, echoes_scope=echoes_scope)

    def post_review(self, command: JsonObject) -> Any:
        """Send a review, the one command whose version stands beside its members, and return the receipt."""
        body = compact_json({"scope": self.scope, "command": command})
        if len(body) > REQUEST_BYTES_MAX:
            refuse("request_too_large")
        return self.send("POST", "/api/v1/memory/reviews", body, "receipt", is_command=True, echoes_scope=False)

    def encode(self, members: JsonObject, bytes_max: int) -> bytes:
        """Return the body of a request: members, version and scope.

        Raises:
            ConsumerProtocolError: `request_too_large`.
        """
        body = compact_json({**members, "contract_version": 1, "scope": self.scope})
        if len(body) > bytes_max:
            refuse("request_too_large")
        return body

    def send(
        self,
        method: str,
        path: str,
        body: Optional[bytes],
        payload: str,
        *,
        is_command: bool = False,
        echoes_scope: bool = True,
    ) -> Any:
        """Send one request after the identity has been proved; see `post`."""
        answer = self.request(method, path, body, is_command=is_command)
        members = {"contract_version": VERSION_1, payload: anything}
        if echoes_scope:
            members["scope"] = anything
        try:
            closed(members)(answer)
            if echoes_scope and normalize_scope(answer["scope"]) != self.scope:
                refuse(detail="scope: must be the one that was asked for")
        except ConsumerProtocolError as error:
            if is_command:
                error.checkpoint_outcome = UNKNOWN
            raise
        return answer[payload]

    def request(self, method: str, path: str, body: Optional[bytes], *, is_command: bool = False) -> Any:
        """Prove the identity, send one request, and return the JSON of its success."""
        self._prove_identity()
        try:
            response = self.transport.exchange(method, path, body)
            document = _success(response)
        except (ConsumerTransportError, ConsumerProtocolError) as error:
            if is_command:
                error.checkpoint_outcome = UNKNOWN
            raise
        except ConsumerAPIError as error:
            if is_command:
                is_refusal = error.status is not None and 400 <= error.status < 500
                error.checkpoint_outcome = REJECTED if is_refusal else UNKNOWN
            raise
        return document

    def _prove_identity(self) -> None:
        answer = _success(self.transport.exchange("GET", IDENTITY_PATH))
        mismatch = check_credential(answer, tenant_id=self.tenant_id, subject_id=self.subject_id)
        if mismatch is not None:
            raise ReconciliationRequired(mismatch)


def _success(response: Response) -> Any:
    if response.status == 200:
        return response.document
    _ENVELOPE(response.document)
    code = response.document["error"]["code"]
    if not isinstance(code, str) or not _CODE.fullmatch(code):
        refuse()
    error = ConsumerAPIError(code, status=response.status)
    message = response.document["error"]["message"]
    if isinstance(message, str):
        error.detail = "".join(filter(str.isprintable, message[:_DETAIL_CHARACTERS_MAX]))
    raise error
