"""gRPC callers who leave a required member out are refused as JSON callers are."""

from __future__ import annotations

import pytest
from google.protobuf.message import Message

from services.domain.errors import EmbeddingDimensionLimit, InvalidRequest, RetrievalScanLimit, WaggleError
from services.runtime.validation import validate
from waggle.common.v1 import embeddings_pb2, records_pb2, scope_pb2
from waggle.memory.v1 import commands_pb2, import_service_pb2, memory_service_pb2
from waggle.retrieval.v1 import graph_search_pb2, retrieval_service_pb2, searches_pb2, traversal_pb2

SCOPE = scope_pb2.Scope(project_id="p", agent_id="a", visibility=scope_pb2.VISIBILITY_SHARED)
SPACE = embeddings_pb2.EmbeddingSpace(provider="p", model="m", revision="r", dimensions=1)
RECORD_ID = "11111111-2222-4333-8444-555555555501"


def _record(**changes: object) -> records_pb2.RecordInput:
    record = records_pb2.RecordInput(
        episode_type=records_pb2.EpisodeType(standard=records_pb2.STANDARD_EPISODE_TYPE_ERROR),
        content=records_pb2.EpisodeContent(primary=""),
        event_time_millis=0,
    )
    for name in changes:
        record.ClearField(name)
    return record


def _refusal(message: Message) -> WaggleError:
    with pytest.raises(WaggleError) as caught:
        validate(message)
    return caught.value


def test_zero_is_a_value_where_it_is_legal() -> None:
    """A record of the year 1970 with an empty text is as good as any other."""
    validate(_record())


@pytest.mark.parametrize("name", ["episode_type", "content", "event_time_millis"])
def test_required_member_of_a_record(name: str) -> None:
    """A record without one of its required members is refused, and the member is named."""
    refusal = _refusal(commands_pb2.CreateRecord(record=_record(**{name: None})))
    assert isinstance(refusal, InvalidRequest)
    assert refusal.member == f"record.{name}"


def test_required_text_that_may_be_empty() -> None:
    """An empty primary text is accepted, none at all is not."""
    refusal = _refusal(records_pb2.EpisodeContent())
    assert refusal.member == "primary"


@pytest.mark.parametrize("mode", [searches_pb2.SEARCH_MODE_UNSPECIFIED, searches_pb2.SEARCH_MODE_HYBRID])
def test_mode_must_be_that_of_the_method(mode: searches_pb2.SearchMode) -> None:
    """A lexical search whose mode is not `lexical` is refused."""
    request = retrieval_service_pb2.SearchLexicalRequest(
        contract_version=1, scope=SCOPE, mode=mode, query=searches_pb2.LexicalQuery(text="x", limit=1)
    )
    assert _refusal(request).member == "mode"


def test_bounds_with_a_code_of_their_own() -> None:
    """No dimension at all is a missing member; zero dimensions and a scan of no bytes have their own codes."""
    space = embeddings_pb2.EmbeddingSpace(provider="p", model="m", revision="r")
    assert type(_refusal(space)) is InvalidRequest
    space.dimensions = 0
    assert type(_refusal(space)) is EmbeddingDimensionLimit
    query = searches_pb2.LexicalQuery(text="x", limit=1, scan_bytes_limit=2**40)
    assert type(_refusal(query)) is RetrievalScanLimit


def test_choice_of_no_relation_kind() -> None:
    """Leaving relation_kinds out means all kinds; an empty list is refused."""
    query = traversal_pb2.TypedGraphQuery(root_record_ids=[RECORD_ID])
    validate(query)
    query.relation_kinds.SetInParent()
    assert _refusal(query).member == "relation_kinds"


def test_expansion_needs_all_of_its_members() -> None:
    """A graph search without limits is complete; limits with one missing are not, though zero steps are legal."""
    expansion = graph_search_pb2.GraphExpansion(
        direction=traversal_pb2.TRAVERSAL_DIRECTION_BOTH,
        max_depth=0,
        node_limit=1,
        edge_limit=1,
        scan_limit=1,
        embedding_bytes_limit=1,
    )
    validate(expansion)
    for name in ("direction", "max_depth", "node_limit", "edge_limit", "scan_limit", "embedding_bytes_limit"):
        incomplete = graph_search_pb2.GraphExpansion()
        incomplete.CopyFrom(expansion)
        incomplete.ClearField(name)
        assert _refusal(incomplete).member == name


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 3.5e38])
def test_vector_outside_float32(value: float) -> None:
    """A component that float32 cannot hold is refused by its place."""
    request = memory_service_pb2.AttachEmbeddingRequest(
        contract_version=1,
        scope=SCOPE,
        idempotency_key="k",
        record_id=RECORD_ID,
        record_revision=1,
        space=SPACE,
        vector=[1.0, value],
    )
    assert _refusal(request).member == "vector[1]"


def test_imported_vector_has_a_length() -> None:
    """An imported vector that cannot be one is refused before anything looks at its bytes."""
    vector = import_service_pb2.ImportEmbedding(
        record=import_service_pb2.ImportRef(created_by="k"), space=SPACE, vector=b"\0\0"
    )
    assert _refusal(vector).member == "vector"
