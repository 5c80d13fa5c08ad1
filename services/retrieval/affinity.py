"""Affinity of the records of a walked graph to the query vector, and the binding work that it takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from services.domain.embeddings import Float32Vector, Space
from services.domain.errors import InvalidRequest
from services.retrieval.profiles import GraphRankingProfile
from services.retrieval.view import PartitionView

EMBEDDING_BYTES_MAX = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class AffinityWork:
    """Binding work of one graph search; all zero for a lexical query.

    Attributes:
        reused_scores: Cosines taken over from base selection.
        lookups: Bindings looked up afresh; reused_scores + lookups is the number of included records.
        current_bindings: Records with a current binding, reused ones included; missing and stale ones are the rest.
        bytes_read: Stored bytes of the bindings looked up, stale ones included.
    """

    requested: bool
    byte_limit: int
    reused_scores: int = 0
    lookups: int = 0
    current_bindings: int = 0
    missing_bindings: int = 0
    stale_bindings: int = 0
    bytes_read: int = 0


@dataclass(frozen=True, slots=True)
class Affinities:
    """Measured affinities.

    Attributes:
        cosine_of: Row to cosine, of the records that have a current binding.
        affinity_of: Row to affinity, of every record; None when every affinity is 1.
    """

    cosine_of: dict[int, float]
    affinity_of: dict[int, float] | None
    work: AffinityWork


def measure_affinities(
    view: PartitionView,
    space: Space,
    query: Float32Vector,
    rows: Sequence[int],
    known_cosines: Mapping[int, float],
    profile: GraphRankingProfile,
    *,
    byte_limit: int,
) -> Affinities:
    """Affinity of each row: floor + weight * max(cosine, 0), or the profile's value without a current binding.

    Args:
        query: (space.dimensions,) float32, finite and not zero.
        known_cosines: Row to cosine of current bindings that need not be read again.
        byte_limit: Bytes of bindings that may be looked up, 1 to 8 MiB.

    Raises:
        InvalidRequest: A further binding does not fit in `byte_limit`.
    """
    unread = [row for row in rows if row not in known_cosines]
    fresh = []
    missing = stale = bytes_read = 0
    for row, binding in zip(unread, view.bindings(space, unread), strict=True):
        if binding is None:
            missing += 1
            continue
        bytes_read += binding.size_bytes
        if bytes_read > byte_limit:
            raise InvalidRequest(
                f"needs more than {byte_limit} bytes of embeddings", member="query.expansion.embedding_bytes_limit"
            )
        if binding.record_revision == view.revision(row):
            fresh.append(row)
        else:
            stale += 1
    cosine_of = {row: known_cosines[row] for row in rows if row in known_cosines}
    reused = len(cosine_of)
    if fresh:
        cosine_of.update(zip(fresh, view.cosines(space, query, fresh).tolist(), strict=True))
    affinity_of = dict.fromkeys(rows, profile.missing_embedding_affinity)
    floor, weight = profile.cosine_affinity_floor, profile.cosine_affinity_weight
    for row, cosine in cosine_of.items():
        affinity_of[row] = floor + weight * cosine if cosine > 0 else floor
    work = AffinityWork(
        requested=True,
        byte_limit=byte_limit,
        reused_scores=reused,
        lookups=len(unread),
        current_bindings=reused + len(fresh),
        missing_bindings=missing,
        stale_bindings=stale,
        bytes_read=bytes_read,
    )
    return Affinities(cosine_of, affinity_of, work)


def lexical_affinities(byte_limit: int) -> Affinities:
    """A query without a vector: every affinity is 1 and nothing is read."""
    return Affinities({}, None, AffinityWork(requested=False, byte_limit=byte_limit))
