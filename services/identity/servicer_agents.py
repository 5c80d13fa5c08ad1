"""AgentService."""

from __future__ import annotations

from typing import Any, Final

import grpc

from services.identity.authority import Principal
from services.identity.convert_administration import agent_message
from services.identity.credentials import CREDENTIAL_ADMIN
from services.identity.directory_page import Page
from services.identity.identity_calls import IdentityCalls, page_limit
from services.identity.list_agents import list_agents
from services.storage.transaction import Transaction
from waggle.identity.v1 import agent_service_pb2 as pb
from waggle.identity.v1 import agent_service_pb2_grpc as pb_grpc

CONTRACT_VERSION: Final = 1


class AgentServicer(pb_grpc.AgentServiceServicer):
    """Serves the directory of agents."""

    def __init__(self, calls: IdentityCalls) -> None:
        self._calls = calls

    def ListAgents(self, request: pb.ListAgentsRequest, context: grpc.ServicerContext) -> pb.ListAgentsResponse:
        """Read one page of the caller's company."""
        limit = page_limit(request)
        after = request.after_agent_id if request.HasField("after_agent_id") else None

        def run(transaction: Transaction, principal: Principal) -> tuple[str, Page[dict[str, Any]]]:
            return principal.company_id, list_agents(transaction, principal, limit=limit, after_agent_id=after)

        company_id, page = self._calls.company(context, run, capabilities=(CREDENTIAL_ADMIN,), pin=True)
        return pb.ListAgentsResponse(
            contract_version=CONTRACT_VERSION,
            company_id=company_id,
            page=pb.AgentPage(
                agents=map(agent_message, page.items),
                next_after_agent_id=None if page.next_after is None else page.next_after.decode(),
            ),
        )
