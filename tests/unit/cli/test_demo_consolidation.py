"""Which memories the demonstration gives to a job."""

from __future__ import annotations

from typing import Any

from cli.demo_consolidation import SOURCES_MAX, choose_sources


def record(number: int, text: str, at: int = 0) -> dict[str, Any]:
    return {
        "record_id": f"00000000-0000-4000-8000-{number:012}",
        "revision": 1,
        "payload": {"content": {"primary": text}, "event_time_millis": at},
    }


def test_a_hit_and_what_was_missed() -> None:
    """The best hit that shares something with a memory outside of the answer, then those, most shared first."""
    records = [
        record(1, "BEE-1"),
        record(2, "BEE-1 and BEE-2"),
        record(3, "BEE-2", 1),
        record(4, "BEE-2 and BEE-3", 2),
        record(5, "BEE-2 and BEE-3", 3),
        record(6, "BEE-4"),
    ]
    found = [records[0]["record_id"], records[1]["record_id"], records[3]["record_id"]]
    assert [records[1], records[2], records[4]] == choose_sources(records, found)
    assert [] == choose_sources(records, found, starts_max=1)
    assert [] == choose_sources(records, [records[5]["record_id"]])
    assert [] == choose_sources(records, [one["record_id"] for one in records])


def test_a_job_stays_small() -> None:
    """At most so many sources, also when everything records the same."""
    records = [record(number, "BEE-1", number) for number in range(40)]
    sources = choose_sources(records, [records[0]["record_id"]])
    assert (SOURCES_MAX, records[0]) == (len(sources), sources[0])
