"""The retrieval service on a real socket, over the store of a memory world in this process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc

from services.domain.embeddings import Space
from services.identity.tokens import Token
from services.retrieval.__main__ import register_servicers
from services.retrieval.settings import Settings
from services.runtime.channel import open_channel
from services.runtime.common_messages import scope_message
from services.runtime.server import Registry, RunningServer
from services.runtime.status import error_from_rpc
from services.storage.contract import ChangePage, PartitionRead, ReadResult
from tests.harness.memory_world import SCOPE, SPACE, MemoryWorld
from waggle.common.v1 import embeddings_pb2
from waggle.retrieval.v1 import retrieval_service_pb2 as pb
from waggle.retrieval.v1 import retrieval_service_pb2_grpc, searches_pb2

LEXICAL, HYBRID = searches_pb2.SEARCH_MODE_LEXICAL, searches_pb2.SEARCH_MODE_HYBRID


@dataclass
class CountingStore:
    """A world's store that notes what the service asks of it.

    Attributes:
        reads: Number of `read` calls.
        followed: The `after` of each `changed_since` call.
    """

    world: MemoryWorld
    reads: int = 0
    followed: list[int] = field(default_factory=list)

    def read(self, partitions: Sequence[PartitionRead], **members: Any) -> ReadResult:
        """See `contract.Store`."""
        self.reads += 1
        return self.world.store.read(partitions, **members)

    def changed_since(self, partition: bytes, after: int, **members: Any) -> Iterator[ChangePage]:
        """See `contract.Store`."""
        self.followed.append(after)
        return self.world.store.changed_since(partition, after, **members)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.world.store, name)


class RetrievalClient:
    """The service's methods with bodies in the words of the contract.

    Attributes:
        stub: The raw stub.
        store: What the service reads.
    """

    def __init__(self, world: MemoryWorld, store: CountingStore, channel: grpc.Channel) -> None:
        self.world = world
        self.store = store
        self.stub = retrieval_service_pb2_grpc.RetrievalServiceStub(channel)

    def lexical(self, text: str, *, limit: int = 10, token: Token | None = None, **members: Any) -> Any:
        """Lexical search."""
        query = searches_pb2.LexicalQuery(text=text, limit=limit, **members)
        request = pb.SearchLexicalRequest(
            contract_version=1, scope=scope_message(SCOPE.as_json()), mode=LEXICAL, query=query
        )
        return self.stub.SearchLexical(request, metadata=self.world.authorization(token))

    def semantic(
        self,
        vector: Sequence[float],
        *,
        limit: int = 10,
        space: Space = SPACE,
        token: Token | None = None,
        **members: Any,
    ) -> Any:
        """Semantic search."""
        query = searches_pb2.SemanticQuery(space=space_message(space), vector=vector, limit=limit, **members)
        request = pb.SearchSemanticRequest(contract_version=1, scope=scope_message(SCOPE.as_json()), query=query)
        return self.stub.SearchSemantic(request, metadata=self.world.authorization())

    def hybrid(
        self,
        text: str,
        vector: Sequence[float],
        *,
        limit: int = 10,
        space: Space = SPACE,
        version: int = 2,
        **members: Any,
    ) -> Any:
        """Hybrid search."""
        query = searches_pb2.HybridQuery(
            text=text, space=space_message(SPACE), vector=vector, limit=limit, ranking_version=version, **members
        )
        request = pb.SearchHybridRequest(
            contract_version=1, scope=scope_message(SCOPE.as_json()), mode=HYBRID, query=query
        )
        return self.stub.SearchHybrid(request, metadata=self.world.authorization())

    def headers(self, method: str, request: Any) -> dict[str, str]:
        """Trailing metadata of a call, without what gRPC itself sends."""
        _, call = getattr(self.stub, method).with_call(request, metadata=self.world.authorization())
        return {key: value for key, value in call.trailing_metadata() if key.startswith("x-")}


def space_message(space: Space) -> embeddings_pb2.EmbeddingSpace:
    """An embedding space."""
    return embeddings_pb2.EmbeddingSpace(**space.as_json())


def refused(call: Any, *arguments: Any, **members: Any) -> tuple[str, str | None]:
    """Reason and member of a refused call."""
    try:
        call(*arguments, **members)
    except grpc.RpcError as error:
        found: Any = error_from_rpc(error)
        return found.reason, found.member
    raise AssertionError("the call was not refused")


@contextmanager
def running_retrieval(
    world: MemoryWorld, directory: Path, settings: Settings | None = None
) -> Iterator[RetrievalClient]:
    """Serve a world on a Unix socket in `directory` and connect to it."""
    registry = Registry()
    store = CountingStore(world)
    register_servicers(registry, store, world.authority, settings or Settings())  # type: ignore[arg-type]
    address = f"unix:{directory}/retrieval.sock"
    server = RunningServer(registry, address)
    try:
        with open_channel(address) as channel:
            yield RetrievalClient(world, store, channel)
    finally:
        server.drain(1.0)
