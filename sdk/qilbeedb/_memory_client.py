"""The memory routes as one client."""

from __future__ import annotations

from qilbeedb._memory_records import RecordRoutes
from qilbeedb._memory_relations import RelationRoutes
from qilbeedb._memory_searches import SearchRoutes


class MemoryClient(RecordRoutes, RelationRoutes, SearchRoutes):
    """Memories, relations and searches of one scope, as one subject of one company.

    Each method first asks the server whom the credential belongs to, then sends its request; answers are validated
    member by member before they are returned. A lost answer, or a server that is busy, makes it try again, at most
    `retries` times: reads change nothing, and commands carry their idempotency key.

    Args:
        base_url: http or https URL of the server; a path is put before every route.
        api_key: The credential, or a function without arguments that returns it, asked before each request.
        tenant_id: The company that the credential must belong to.
        subject_id: The subject that it must belong to.
        scope: `project_id`, `agent_id`, `visibility`, and perhaps `mission_id`.
        timeout: Bound of each operation of the socket, seconds.
        retries: Repetitions of one operation, 0 to 10.
        response_bytes_max: Longest accepted answer, 1 KiB to 64 MiB.

    Raises:
        ConsumerProtocolError: `invalid_response`, when an identity or the scope is not as documented.
        TypeError: The credential is neither text nor a function.
        ValueError: Another argument is out of its bounds.
    """
