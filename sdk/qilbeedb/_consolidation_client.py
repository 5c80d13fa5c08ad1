"""The owner routes of consolidation as a client."""

from __future__ import annotations

from typing import Any, Optional

from qilbeedb._checks import NAME, REVISION, any_object, integer, nullable, uuid
from qilbeedb._contexts import check_context
from qilbeedb._errors import refuse
from qilbeedb._identities import binding_digest
from qilbeedb._job_pages import check_page
from qilbeedb._jobs import STATUS, check_history, check_inspection, check_receipt
from qilbeedb._session import REQUEST_BYTES_MAX, Session
from qilbeedb._strict_json import JsonObject, compact_json
from qilbeedb._transport import ApiKey

_ROUTES = "/api/v1/memory/consolidation"
_RESPONSE_BYTES_MAX = 16 * 1024 * 1024


class ConsolidationClient:
    """Jobs of one subject in one scope.

    Each method first asks the server whom the credential belongs to, then sends one request. Nothing is repeated, and
    one operation runs at a time. Answers are validated member by member before they are returned.

    Args:
        base_url: http or https URL of the server; a path is put before every route.
        api_key: The credential, or a function without arguments that returns it, asked before each request.
        tenant_id: The company that the credential must belong to.
        subject_id: The subject that it must belong to.
        scope: `project_id`, `agent_id`, `visibility`, and perhaps `mission_id`.
        timeout: Bound of each operation of the socket, seconds.

    Attributes:
        binding_id: Names server, company, subject and scope in a journal. Survives rotation of the credential.

    Raises:
        ConsumerProtocolError: `invalid_response`, when an identity or the scope is not as documented.
        TypeError: The credential is neither text nor a function.
        ValueError: The URL or the timeout is out of its bounds.
    """

    def __init__(
        self, base_url: str, api_key: ApiKey, *, tenant_id: str, subject_id: str, scope: Any, timeout: float = 10.0
    ) -> None:
        self._session = Session(
            base_url,
            api_key,
            tenant_id=tenant_id,
            subject_id=subject_id,
            scope=scope,
            timeout_s=timeout,
            response_bytes_max=_RESPONSE_BYTES_MAX,
        )
        self.binding_id = binding_digest(
            "qilbee.consolidation.client.v1",
            self._session.transport.endpoint.url,
            tenant_id,
            subject_id,
            self._session.scope,
        )

    def command(self, operation: JsonObject, *, idempotency_key: str) -> JsonObject:
        """Send a command and return its receipt.

        Args:
            operation: One of the documented operations with its `type`; the server judges its members.
            idempotency_key: Repeating the same operation with the same key returns the first receipt.

        Raises:
            ConsumerError: Its `checkpoint_outcome` says what became of the command.
        """
        with self._session.operation():
            NAME(idempotency_key)
            any_object(operation)
            if len(compact_json(operation)) > REQUEST_BYTES_MAX:
                refuse("consolidation_value_too_large")
            receipt: JsonObject = self._session.post(
                f"{_ROUTES}/commands",
                {"idempotency_key": idempotency_key, "operation": operation},
                "receipt",
                is_command=True,
                echoes_scope=False,
            )
            check_receipt(
                receipt,
                idempotency_key=idempotency_key,
                operation=operation,
                subject_id=self._session.subject_id,
            )
            return receipt

    def inspect(self, job_id: str) -> JsonObject:
        """Return the current job, its lease and whether its sources are still what they were."""
        with self._session.operation():
            uuid(job_id)
            inspection: JsonObject = self._session.post(f"{_ROUTES}/inspect", {"job_id": job_id}, "inspection")
            check_inspection(inspection, job_id=job_id, subject_id=self._session.subject_id)
            return inspection

    def context(self, job_id: str, expected_revision: int, fence: str) -> JsonObject:
        """Return the records that the attempt with this fence may work on."""
        with self._session.operation():
            uuid(job_id)
            REVISION(expected_revision)
            uuid(fence)
            members = {"job_id": job_id, "expected_revision": expected_revision, "fence": fence}
            context: JsonObject = self._session.post(f"{_ROUTES}/context", members, "context")
            check_context(context, job_id=job_id, job_revision=expected_revision, fence=fence)
            return context

    def query(
        self, *, limit: int = 25, scan_limit: int = 100, after: Optional[str] = None, status: Optional[str] = None
    ) -> JsonObject:
        """Return a page of summaries in the order of job ids; only a null `next_after` ends the list.

        Args:
            limit: Most jobs in the page, 1 to 100.
            scan_limit: Most jobs examined for it, 1 to 1000.
            after: `next_after` of the page before.
            status: Only jobs with this status.
        """
        with self._session.operation():
            integer(1, 100)(limit)
            integer(1, 1000)(scan_limit)
            nullable(uuid)(after)
            nullable(STATUS)(status)
            query = {"limit": limit, "scan_limit": scan_limit, "after": after, "status": status}
            page: JsonObject = self._session.post(f"{_ROUTES}/query", {"query": query}, "page")
            check_page(page, limit=limit, scan_limit=scan_limit, after=after, status=status)
            return page

    def revision(self, job_id: str, revision: int) -> JsonObject:
        """Return the job exactly as of one revision, and the receipt of the command that made it."""
        with self._session.operation():
            uuid(job_id)
            REVISION(revision)
            members = {"job_id": job_id, "revision": revision}
            history: JsonObject = self._session.post(f"{_ROUTES}/revision", members, "history")
            check_history(history, job_id=job_id, revision=revision, subject_id=self._session.subject_id)
            return history
