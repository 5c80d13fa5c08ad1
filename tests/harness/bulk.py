"""Many records at once, through the streaming import of a running suite."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from cli.import_stream import run_import
from services.runtime.common_messages import scope_message
from tests.harness import builders
from tests.harness.known_memory import Json
from tests.harness.memory_messages import by, import_create, provenance
from tests.harness.suite import Suite
from waggle.common.v1 import embeddings_pb2, relations_pb2
from waggle.memory.v1 import commands_pb2
from waggle.memory.v1 import import_service_pb2 as pb


def space_json(dimensions: int) -> Json:
    """The test space with as many dimensions."""
    return {**builders.SPACE, "dimensions": dimensions}


def import_records(
    suite: Suite, scope: Json, texts: Sequence[str], *, vectors: NDArray[np.float32] | None = None, prefix: str = "bulk"
) -> list[str]:
    """Create records, each bound to its row of `vectors` where there are any; their ids in order.

    Args:
        prefix: Of their keys; another one for a second import into one scope.
    """
    ids = _run(suite, scope, _records(texts, vectors, prefix))
    return ids if vectors is None else ids[::2]


def import_relations(
    suite: Suite, scope: Json, texts: Sequence[str], links: Iterable[tuple[int, int]], **origin: str
) -> tuple[list[str], list[str]]:
    """Create records and a `supports` between the numbers of each link; record ids and relation ids in order.

    Args:
        origin: Members of the relations' provenance.
    """
    ids = _run(suite, scope, _linked(texts, links, origin))
    return ids[: len(texts)], ids[len(texts) :]


def import_deletions(suite: Suite, scope: Json, record_ids: Sequence[str]) -> None:
    """Delete records that are at their first revision."""
    commands = (
        pb.ImportCommand(
            idempotency_key=f"delete-{record_id}",
            delete_record=commands_pb2.DeleteRecord(record_id=record_id, expected_revision=1),
        )
        for record_id in record_ids
    )
    _run(suite, scope, commands)


def _run(suite: Suite, scope: Json, commands: Iterable[pb.ImportCommand]) -> list[str]:
    result = run_import(
        suite.address("memory"), suite.writer_key, scope_message(scope), commands, on_progress=lambda _: None
    )
    return result.ids


def _records(
    texts: Sequence[str], vectors: NDArray[np.float32] | None, prefix: str = "bulk"
) -> Iterator[pb.ImportCommand]:
    for number, text in enumerate(texts):
        yield import_create(f"{prefix}-{number}", text)
        if vectors is not None:
            space = embeddings_pb2.EmbeddingSpace(**space_json(vectors.shape[1]))
            binding = pb.ImportEmbedding(
                record=by(f"{prefix}-{number}"), space=space, vector=vectors[number].astype("<f4").tobytes()
            )
            yield pb.ImportCommand(idempotency_key=f"{prefix}-{number}", attach_embedding=binding)


def _linked(
    texts: Sequence[str], links: Iterable[tuple[int, int]], origin: dict[str, str]
) -> Iterator[pb.ImportCommand]:
    yield from _records(texts, None)
    for number, (source, target) in enumerate(links):
        assertion = pb.ImportAssertion(
            source=by(f"bulk-{source}"),
            target=by(f"bulk-{target}"),
            kind=relations_pb2.RELATION_KIND_SUPPORTS,
            provenance=provenance(**origin),
        )
        yield pb.ImportCommand(idempotency_key=f"bulk-{number}", assert_relation=assertion)
