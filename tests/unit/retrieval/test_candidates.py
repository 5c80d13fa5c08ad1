"""Which candidates are examined, which are judged, and how long a finding is kept."""

from __future__ import annotations

from typing import Any

import pytest

from services.domain.eligibility import DependencyCache
from services.domain.errors import InvalidRequest, StorageInconsistency
from services.retrieval.candidates import eligible_corpus, examine_candidates
from services.retrieval.examination import Selection
from services.retrieval.partition import Partition
from services.retrieval.view import Filter
from services.storage.contract import Row
from tests.unit.retrieval.partitions import NOW_MS, apply, load, record, record_row, uuid_text


def selection(**members: Any) -> Selection:
    """Everything, but for the given members."""
    asked: dict[str, Any] = {
        "narrowing": Filter(),
        "scan_limit": 10_000,
        "scan_bytes_limit": None,
        "after": None,
        "space": None,
    }
    return Selection(**(asked | members))


def corpus_ids(partition: Partition, cache: DependencyCache, now_ms: int = NOW_MS, **members: Any) -> list[str]:
    """Ids of the records that may be ranked, in order."""
    examination = examine_candidates(partition, selection(**members), now_ms)
    corpus = eligible_corpus(partition, examination, cache, now_ms)
    return sorted(partition.record_id(row) for row in corpus.eligible.nonzero()[0].tolist())


def test_an_unchanged_selection_is_not_examined_again_until_the_partition_or_the_clock_asks_for_it() -> None:
    """The same finding serves until a record changes or expires."""
    partition = load([record_row(record(1)), record_row(record(2, valid_until_millis=NOW_MS + 5))])
    first = examine_candidates(partition, selection(), NOW_MS)
    assert examine_candidates(partition, selection(), NOW_MS + 4) is first
    expired = examine_candidates(partition, selection(), NOW_MS + 5)
    assert (first.servable.sum(), expired.servable.sum(), expired.scanned_records) == (2, 1, 2)
    apply(partition, record_row(record(3)))
    assert examine_candidates(partition, selection(), NOW_MS + 5).scanned_records == 3


def test_judging_derived_records_costs_the_same_work_when_it_is_remembered() -> None:
    """Counters and outcome of the second request equal those of the first."""
    partition = load(
        [record_row(record(1)), record_row(record(2, sources=(1, 9))), record_row(record(3, sources=(1,)))]
    )
    outcomes = []
    for _ in range(2):
        cache = DependencyCache(partition)
        outcomes.append((corpus_ids(partition, cache), cache.work))
    assert outcomes[0] == outcomes[1]
    assert outcomes[0][0] == [uuid_text(1), uuid_text(3)]
    assert outcomes[0][1].records_examined == 2


def test_work_done_before_counts_on() -> None:
    """A cache that has looked something up already is not replaced by what was remembered."""
    partition = load([record_row(record(1)), record_row(record(2)), record_row(record(3, sources=(1,)))])
    corpus_ids(partition, DependencyCache(partition))
    cache = DependencyCache(partition)
    cache.look_up(uuid_text(2))
    corpus_ids(partition, cache)
    assert cache.work.records_examined == 2


def test_the_cursor_need_not_exist() -> None:
    """Any id is a position."""
    partition = load([record_row(record(number)) for number in (10, 20, 30)])
    examined = [
        examine_candidates(partition, selection(after=uuid_text(after)), NOW_MS).scanned_records
        for after in (0, 10, 15, 29, 30, 31)
    ]
    assert examined == [3, 2, 2, 1, 0, 0]


def test_a_byte_limit_below_the_first_candidate_is_refused() -> None:
    """Also behind a cursor: a page must advance."""
    partition = load([record_row(record(1)), record_row(record(2, "x" * 100))])
    small, large = sorted(partition.size_bytes(row) for row in range(2))
    assert examine_candidates(partition, selection(scan_bytes_limit=small), NOW_MS).next_after == uuid_text(1)
    with pytest.raises(InvalidRequest):
        examine_candidates(partition, selection(scan_bytes_limit=large - 1, after=uuid_text(1)), NOW_MS)


@pytest.mark.parametrize("difference", [-1, 1])
def test_a_partition_with_other_counts_than_its_header_is_inconsistent(difference: int) -> None:
    """Rows that are missing are damage, not an answer."""
    with pytest.raises(StorageInconsistency):
        load([record_row(record(1))], {ord("R"): 1 + difference})


def test_what_names_an_absent_record_is_inconsistent() -> None:
    """A count of an endpoint that never was."""
    stray = Row(b"o" + b"\x07" * 16 + (1).to_bytes(8, "big"), (1).to_bytes(8, "big"), 1)
    with pytest.raises(StorageInconsistency):
        load([record_row(record(1)), stray])


def test_an_adjacency_list_that_is_short_is_inconsistent_where_it_is_read() -> None:
    """Other endpoints are served; the incomplete one fails the request."""
    endpoint = bytes.fromhex(uuid_text(1).replace("-", "")) + (1).to_bytes(8, "big")
    partition = load([record_row(record(1)), record_row(record(2)), Row(b"o" + endpoint, (1).to_bytes(8, "big"), 1)])
    assert partition.outgoing(partition.row_of(uuid_text(2)) or 0) == ()
    with pytest.raises(StorageInconsistency):
        partition.outgoing(partition.row_of(uuid_text(1)) or 0)
