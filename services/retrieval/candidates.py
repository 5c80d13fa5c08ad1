"""Candidate selection `current_records_v1`: which candidates one search examines, and which of them it may rank.

Candidates are the records that are neither deleted nor directly rejected and pass the filter, in ascending record id,
after the cursor. They are examined until a limit is met. An examined candidate that has expired, or whose sources do
not hold, counts as examined but is in no statistic and never a hit.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from services.domain.eligibility import DependencyCache, is_eligible
from services.domain.errors import InvalidRequest
from services.retrieval.corpus import Corpus
from services.retrieval.examination import Examination, Selection
from services.retrieval.partition import Partition
from services.retrieval.record_columns import BoolArray


def examine_candidates(partition: Partition, selection: Selection, now_ms: int) -> Examination:
    """Examine candidates, or find that the same was done since the partition last changed.

    Raises:
        InvalidRequest: The first candidate alone is larger than the byte limit.
    """
    # An unknown space holds no bindings, so it selects as none does; and it must not fill the cache.
    if selection.space is not None and selection.space not in partition.spaces:
        selection = replace(selection, space=None)
    found = partition.examinations.find(selection, now_ms)
    if found is None:
        found = _examine(partition, selection, now_ms)
        partition.examinations.keep(selection, found)
    return found


def _examine(partition: Partition, selection: Selection, now_ms: int) -> Examination:
    records = partition.records
    examined = records.candidates(selection.narrowing)
    sizes = records.size_bytes.living
    if selection.space is not None:
        sizes = sizes.copy()
        vectors = partition.spaces[selection.space]
        sizes[vectors.slot_row.living] += vectors.size_bytes.living
    if selection.after is not None:
        examined &= records.id_rank >= records.rank_after(selection.after)
    count = int(np.count_nonzero(examined))
    scanned_bytes = int(sizes[examined].sum())
    byte_limit = selection.scan_bytes_limit
    next_after = None
    if count > selection.scan_limit or (byte_limit is not None and scanned_bytes > byte_limit):
        ordered = records.order[examined[records.order]]
        totals = np.cumsum(sizes[ordered[: selection.scan_limit]])
        count = len(totals) if byte_limit is None else int(np.searchsorted(totals, byte_limit, side="right"))
        if not count:
            raise InvalidRequest("is smaller than the first candidate", member="query.scan_bytes_limit")
        scanned_bytes = int(totals[count - 1])
        next_after = records.ids[ordered[count - 1]]
        examined = np.zeros(len(examined), np.bool_)
        examined[ordered[:count]] = True
    servable: BoolArray = examined & (records.valid_until_ms.living > now_ms)
    derived = servable & records.is_derived.living
    return Examination(
        scanned_records=count,
        scanned_bytes=scanned_bytes,
        next_after=next_after,
        exhaustive=selection.after is None and next_after is None,
        servable=servable,
        derived_rows=records.order[derived[records.order]] if derived.any() else np.empty(0, np.int32),
        since_ms=now_ms,
        until_ms=records.next_expiry_ms(now_ms),
    )


def eligible_corpus(partition: Partition, examination: Examination, cache: DependencyCache, now_ms: int) -> Corpus:
    """The examined candidates that may be ranked, each derived one judged through its sources.

    Raises:
        InvalidRequest: The request's dependency work is spent.
    """
    if examination.corpus is None:
        examination.corpus = _corpus(partition, examination.servable)
    if not len(examination.derived_rows):
        return examination.corpus
    # Judging depends on the partition and the clock alone, and the examination is kept for as long as neither matters.
    if cache.records_examined == 0 and examination.judged is not None:
        corpus, known = examination.judged
        cache.adopt(known)
        return corpus
    is_fresh = cache.records_examined == 0
    records = partition.records
    failed = [row for row in examination.derived_rows.tolist() if not is_eligible(records.state(row), cache, now_ms)]
    corpus = examination.corpus
    if failed:
        eligible = examination.servable.copy()
        eligible[failed] = False
        corpus = _corpus(partition, eligible)
    if is_fresh:
        examination.judged = (corpus, cache.lookups)
    return corpus


def _corpus(partition: Partition, eligible: BoolArray) -> Corpus:
    return Corpus(partition.records, partition.texts, partition.spaces, eligible)
