"""How a partition turns stored objects into what answers carry, once, when they are loaded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol


class AnswerEncoder(Protocol):
    """Encodes stored objects; `convert` implements it with protobuf."""

    def encode_record(self, record: Mapping[str, Any]) -> bytes:
        """A MemoryRecord."""

    def encode_receipt(self, receipt: Mapping[str, Any]) -> bytes:
        """An EmbeddingReceipt."""

    def encode_relation(self, relation: Mapping[str, Any]) -> bytes:
        """A MemoryRelation."""
