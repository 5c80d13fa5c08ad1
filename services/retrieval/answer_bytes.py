"""How much one answer may carry: what a search has found must also arrive."""

from __future__ import annotations

from collections.abc import Iterable

from services.domain.errors import InvalidRequest
from services.retrieval.partition import Partition

HIT_BYTES_MAX = 56 * 1024 * 1024
"""Records of one page. A message carries 64 MiB; the rest is for receipts, relations and paths."""


def check_hits_fit(partition: Partition, rows: Iterable[int]) -> None:
    """Refuse a page whose records would not fit into one message.

    Only records of up to 1 MiB, as gRPC callers can make them, ever come near the bound: a hundred that came as JSON do
    not. The greater of both forms counts, since the numbers of one are shorter or longer than those of the other.

    Args:
        rows: Of the hits.

    Raises:
        InvalidRequest: The records are together larger than HIT_BYTES_MAX; fewer may be asked for.
    """
    sizes, answers = partition.records.size_bytes.living, partition.records.answers
    if sum(max(int(sizes[row]), len(answers[row])) for row in rows) > HIT_BYTES_MAX:
        raise InvalidRequest(
            f"the records found have more than {HIT_BYTES_MAX} bytes; ask for fewer", member="query.limit"
        )
