"""ReplicaService over gRPC: what this process holds in memory, for audits."""

from __future__ import annotations

import grpc

from services.identity.call_token import call_token
from services.retrieval.access import Retrieval
from services.retrieval.company_access import CompanyRetrievalAccess
from services.retrieval.replica_digest import digest_sections
from waggle.retrieval.v1 import replica_service_pb2 as pb
from waggle.retrieval.v1 import replica_service_pb2_grpc


class ReplicaServicer(replica_service_pb2_grpc.ReplicaServiceServicer):
    """Digests of workspaces in memory, for administrators of their company; takes an admission slot."""

    def __init__(self, access: CompanyRetrievalAccess) -> None:
        self._access = access

    def DigestReplica(
        self, request: pb.DigestReplicaRequest, context: grpc.ServicerContext
    ) -> pb.DigestReplicaResponse:
        """Digest what is held of one workspace."""

        def run(retrieval: Retrieval) -> pb.DigestReplicaResponse:
            partition = retrieval.partition
            sections = [pb.ReplicaSection(**section._asdict()) for section in digest_sections(partition)]
            return pb.DigestReplicaResponse(
                contract_version=1, head=partition.head, incarnation=partition.incarnation, sections=sections
            )

        return self._access.run(call_token(context), request.workspace_id, run)[1]
