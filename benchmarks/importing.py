"""Bulk import of a corpus over gRPC, as the figures of durable import measure it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

from benchmarks.corpus import Corpus
from services.runtime.channel import open_channel
from waggle.common.v1 import embeddings_pb2, records_pb2, relations_pb2, scope_pb2
from waggle.memory.v1 import commands_pb2, import_service_pb2, import_service_pb2_grpc

SCOPE: dict[str, Any] = {"project_id": "benchmark", "mission_id": None, "agent_id": "corpus", "visibility": "shared"}

_COMMANDS_A_MESSAGE = 256
_EVENT_TIME = 1_700_000_000_000


def embedding_space(corpus: Corpus) -> dict[str, object]:
    """The documented object of the corpus' own embedding space."""
    return {"provider": "benchmark", "model": corpus.name, "revision": "1", "dimensions": corpus.dimensions}


def import_corpus(address: str, key: str, corpus: Corpus) -> tuple[int, float]:
    """Import every passage, vector and relation.

    Args:
        address: gRPC address of the memory service.

    Returns:
        Commands carried out (none replayed) and the seconds they took until the last one was durable.

    Raises:
        RuntimeError: A command was refused.
    """
    with open_channel(address) as channel:
        stub = import_service_pb2_grpc.ImportServiceStub(channel)
        messages = list(_messages(corpus))
        begin = time.perf_counter()
        committed = 0
        reports = stub.ImportCommands(iter(messages), metadata=(("authorization", f"Bearer {key}"),))
        for report in reports:
            if report.WhichOneof("report") == "refusal":
                raise RuntimeError(f"command {report.refusal.index}: {report.refusal.message}")
            committed = report.progress.committed
        return committed, time.perf_counter() - begin


def record_body(number: int) -> bytes:
    """JSON of one create command with its own key, for the figures of durable commands."""
    return json.dumps(
        {
            "contract_version": 1,
            "idempotency_key": f"durable-{number}",
            "scope": SCOPE | {"agent_id": "writer"},
            "operation": {
                "type": "create",
                "record": {
                    "episode_type": "Observation",
                    "content": {"primary": f"Observation {number}: the build of the main branch passed its tests."},
                    "event_time_millis": _EVENT_TIME + number,
                    "tags": ["build"],
                },
            },
        }
    ).encode()


def _messages(corpus: Corpus) -> Iterator[import_service_pb2.ImportCommandsRequest]:
    scope = scope_pb2.Scope(
        project_id=SCOPE["project_id"], agent_id=SCOPE["agent_id"], visibility=scope_pb2.VISIBILITY_SHARED
    )
    yield import_service_pb2.ImportCommandsRequest(
        opening=import_service_pb2.ImportOpening(contract_version=1, scope=scope)
    )
    commands: list[import_service_pb2.ImportCommand] = []
    for command in _commands(corpus):
        commands.append(command)
        if len(commands) == _COMMANDS_A_MESSAGE:
            yield import_service_pb2.ImportCommandsRequest(commands=commands)
            commands = []
    if commands:
        yield import_service_pb2.ImportCommandsRequest(commands=commands)


def _commands(corpus: Corpus) -> Iterator[import_service_pb2.ImportCommand]:
    space = embeddings_pb2.EmbeddingSpace(
        provider="benchmark", model=corpus.name, revision="1", dimensions=corpus.dimensions
    )
    for row, passage in enumerate(corpus.passages):
        record = records_pb2.RecordInput(
            episode_type=records_pb2.EpisodeType(standard=records_pb2.STANDARD_EPISODE_TYPE_OBSERVATION),
            content=records_pb2.EpisodeContent(primary=passage.text, secondary=passage.title),
            event_time_millis=_EVENT_TIME + row,
            metadata=json.dumps({"name": passage.name}),
        )
        yield import_service_pb2.ImportCommand(
            idempotency_key=passage.name, create_record=commands_pb2.CreateRecord(record=record)
        )
        yield import_service_pb2.ImportCommand(
            idempotency_key=passage.name,
            attach_embedding=import_service_pb2.ImportEmbedding(
                record=import_service_pb2.ImportRef(created_by=passage.name),
                space=space,
                vector=corpus.vectors[row].astype("<f4").tobytes(),
            ),
        )
    provenance = relations_pb2.RelationProvenance(
        origin=relations_pb2.RELATION_ORIGIN_IMPORTED_ASSERTION,
        method="benchmark-corpus",
        method_revision="1",
        evidence_ref=f"corpus:{corpus.name}",
    )
    for number, link in enumerate(corpus.links):
        yield import_service_pb2.ImportCommand(
            idempotency_key=f"link-{number}",
            assert_relation=import_service_pb2.ImportAssertion(
                source=import_service_pb2.ImportRef(created_by=link.source),
                target=import_service_pb2.ImportRef(created_by=link.target),
                kind=relations_pb2.RelationKind.Value(f"RELATION_KIND_{link.kind.upper()}"),
                provenance=provenance,
            ),
        )
