"""Embedding spaces, vectors and the bindings of vectors to exact record revisions."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from services.domain.canonical_json import canonical_bytes, parse_canonical, vector_bytes
from services.domain.errors import InvalidRequest, StorageInconsistency
from services.domain.keys import space_tag
from services.domain.records import Author, author_from_json

Float32Vector = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Space:
    """An embedding space. All four members are its identity; nothing is compared across spaces."""

    provider: str
    model: str
    revision: str
    dimensions: int

    def as_json(self) -> dict[str, Any]:
        """The documented object."""
        return {
            "provider": self.provider,
            "model": self.model,
            "revision": self.revision,
            "dimensions": self.dimensions,
        }

    @property
    def tag(self) -> bytes:
        """16 bytes that stand for the space in keys."""
        return space_tag(self.as_json())


def space_from_json(value: Mapping[str, Any]) -> Space:
    """Read the documented object."""
    return Space(value["provider"], value["model"], value["revision"], value["dimensions"])


def vector_from_numbers(numbers: Sequence[float], dimensions: int, *, member: str) -> Float32Vector:
    """Round numbers to the float32 vector that is stored and compared.

    Returns:
        (dimensions,) float32, finite, not all zero.

    Raises:
        InvalidRequest: Wrong length, a value that is not finite as float32, or a vector that is zero as float32.
    """
    if len(numbers) != dimensions:
        raise InvalidRequest(f"must have {dimensions} values, as its space says", member=member)
    with np.errstate(over="ignore"):
        vector = np.asarray(numbers, dtype=np.float64).astype(np.float32)
    finite = np.isfinite(vector)
    if not finite.all():
        raise InvalidRequest("must be a finite float32", member=f"{member}[{int(np.argmin(finite))}]")
    if not vector.any():
        raise InvalidRequest("must not be the zero vector", member=member)
    return vector


def vector_from_bytes(raw: bytes, dimensions: int, *, member: str) -> Float32Vector:
    """Read a vector from consecutive little-endian float32 values.

    Returns:
        (dimensions,) float32, finite, not all zero.

    Raises:
        InvalidRequest: Wrong length, a value that is not finite, or the zero vector.
    """
    if len(raw) != 4 * dimensions:
        raise InvalidRequest(f"must have 4 bytes for each of {dimensions} values", member=member)
    vector = np.frombuffer(raw, dtype="<f4")
    finite = np.isfinite(vector)
    if not finite.all():
        raise InvalidRequest(f"must be finite, which value {int(np.argmin(finite))} is not", member=member)
    if not vector.any():
        raise InvalidRequest("must not be the zero vector", member=member)
    return vector


def vector_digest(vector: Float32Vector) -> str:
    """SHA-256 of the compact JSON text of the float32 values, each the shortest decimal that round-trips."""
    return hashlib.sha256(vector_bytes(vector)).hexdigest()


@dataclass(frozen=True, slots=True)
class EmbeddingReceipt:
    """Proof that a vector was bound to a record revision."""

    idempotency_key: str
    record_id: str
    record_revision: int
    space: Space
    vector_digest: str
    author: Author
    committed_at_millis: int

    def as_json(self) -> dict[str, Any]:
        """The documented object."""
        return {
            "contract_version": 1,
            "idempotency_key": self.idempotency_key,
            "record_id": self.record_id,
            "record_revision": self.record_revision,
            "space": self.space.as_json(),
            "vector_digest": self.vector_digest,
            "author": self.author.as_json(),
            "committed_at_millis": self.committed_at_millis,
        }


def embedding_receipt_from_json(value: Mapping[str, Any]) -> EmbeddingReceipt:
    """Read the documented object."""
    return EmbeddingReceipt(
        value["idempotency_key"],
        value["record_id"],
        value["record_revision"],
        space_from_json(value["space"]),
        value["vector_digest"],
        author_from_json(value["author"]),
        value["committed_at_millis"],
    )


@dataclass(frozen=True, slots=True)
class Binding:
    """A vector bound to a record revision in one space, with its original receipt.

    Attributes:
        vector: (dimensions,) float32.
    """

    receipt: EmbeddingReceipt
    vector: Float32Vector

    def encode(self) -> bytes:
        """Stored form; its length is the documented byte count of the binding."""
        header = canonical_bytes(self.receipt.as_json())
        return len(header).to_bytes(4, "big") + header + self.vector.astype("<f4").tobytes()


def split_binding(value: bytes) -> tuple[bytes, Float32Vector]:
    """The receipt's canonical JSON and the (dimensions,) float32 vector of a stored binding.

    Raises:
        StorageInconsistency: The value is no binding.
    """
    header_bytes = int.from_bytes(value[:4], "big")
    if len(value) < 4 + header_bytes or (len(value) - 4 - header_bytes) % 4:
        raise StorageInconsistency("a stored binding is cut short")
    vector = np.frombuffer(value, dtype="<f4", offset=4 + header_bytes)
    return value[4 : 4 + header_bytes], vector


def decode_binding(value: bytes) -> Binding:
    """Read the stored form.

    Raises:
        StorageInconsistency: The value is no binding, or its vector has another length than its space says.
    """
    header, vector = split_binding(value)
    receipt = embedding_receipt_from_json(parse_canonical(header))
    if len(vector) != receipt.space.dimensions:
        raise StorageInconsistency("a stored vector does not fit its space")
    return Binding(receipt, vector)
