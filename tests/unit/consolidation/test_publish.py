"""What a publication writes, what its assertions must keep, and that it is all or nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from services.consolidation.commands import PublishJob
from services.consolidation.publish_job import output_key
from services.domain import keys
from services.domain.canonical_json import parse_canonical
from services.domain.jobs import Assertion
from services.domain.records import SourceRef
from services.domain.relations import Model, Provenance, RelationInput, relation_digest
from services.memory.inspect_relation import inspect_relation
from services.memory.read_relation_revision import read_relation_revision
from tests.harness.job_world import ABSENT, USAGE, JobWorld, assertion, member_of, reason_of
from tests.harness.memory_world import START_MS


def published(world: JobWorld, *assertions: Assertion, **members: Any) -> tuple[str, list[dict[str, Any]]]:
    """Publish on a new job and return its id and its output receipts."""
    job_id, fence = world.running_job(**members)
    world.publish(job_id, fence, *assertions, key="publication")
    return job_id, list(world.job(job_id).output_receipts)


def counts(world: JobWorld, kind: bytes) -> int:
    return sum(key.startswith(kind) for key in world.rows())


def test_relation_of_an_assertion(world: JobWorld) -> None:
    """The relation has the extractor's provenance and the assertion's evidence, and rests on every other source."""
    sources = world.more_sources(4)
    model = Model("p", "m", "r")
    extractor = Provenance("model_inference", "linker", "7", "extractor:1", model)
    found = assertion(
        sources[2], sources[0], "supports", evidence_ref="seen:1", valid_from_millis=5, valid_until_millis=6
    )
    _, (receipt,) = published(world, found, sources=sources, extractor=extractor)
    relation = world.read(lambda partition: inspect_relation(partition, receipt["relation_id"])).relation
    assert relation.input == RelationInput(
        sources[2],
        sources[0],
        "supports",
        Provenance("model_inference", "linker", "7", "seen:1", model),
        5,
        6,
        (sources[1], sources[3]),
    )
    assert (relation.revision, relation.state, relation.review) == (1, "active", None)
    assert relation.reported_by.credential_id == world.token.credential_id
    assert (relation.created_at_millis, relation.modified_at_millis) == (START_MS, START_MS)


def test_no_evidence_beyond_the_endpoints(world: JobWorld) -> None:
    """With two sources there is no further evidence, and the member is left out of the relation."""
    _, (receipt,) = published(world, assertion(*world.sources))
    stored = parse_canonical(world.rows()[keys.relation_key(receipt["relation_id"])])
    assert "evidence_sources" not in stored["input"]


def test_output_receipts(world: JobWorld) -> None:
    """Receipts come in the order of the assertions, are those of the relations' histories, and name the publication."""
    first, second = world.sources
    job_id, receipts = published(
        world, assertion(first, second, evidence_ref="a"), assertion(second, first, evidence_ref="b")
    )
    assert ["publication#0", "publication#1"] == [receipt["idempotency_key"] for receipt in receipts]
    assert ["a", "b"] == [receipt["evidence_ref"] for receipt in receipts]
    command_digest = world.history(job_id, 3)[1]["command_digest"]
    for receipt in receipts:
        relation, kept = world.read(
            lambda partition, relation_id=receipt["relation_id"]: read_relation_revision(partition, relation_id, 1)
        )
        assert kept == receipt
        assert (receipt["action"], receipt["revision"]) == ("asserted", 1)
        assert receipt["relation_digest"] == relation_digest(relation.encode())
        assert receipt["command_digest"] == command_digest
        assert receipt["author"]["subject_id"] == world.job(job_id).owner_id


@pytest.mark.parametrize(
    ("key", "expected_length"), [("k" * 254, 256), ("k" * 255, 66), ("\N{HONEYBEE}" * 64, 66), ("k", 3)]
)
def test_output_key_is_bounded(key: str, expected_length: int) -> None:
    """A key that would pass 256 bytes with its index stands as a digest."""
    assert len(output_key(key, 9).encode()) == expected_length
    assert output_key(key, 9).endswith("#9")
    assert output_key(key, 0) != output_key(key, 1)


def test_adjacency_in_both_directions(world: JobWorld) -> None:
    """Each relation stands at its source and at its target, and the completeness counts agree."""
    first, second = world.sources
    published(world, assertion(first, second), assertion(first, second, "causal_claim"), assertion(second, first))
    rows = world.rows()
    for kind, number in (
        (keys.adjacency_count_key(keys.OUTGOING, first.record_id, 1), 2),
        (keys.adjacency_count_key(keys.INCOMING, second.record_id, 1), 2),
        (keys.adjacency_count_key(keys.OUTGOING, second.record_id, 1), 1),
        (keys.adjacency_count_key(keys.INCOMING, first.record_id, 1), 1),
    ):
        assert int.from_bytes(rows[kind], "big") == number
    assert counts(world, keys.OUTGOING) == counts(world, keys.INCOMING) == 3


def test_equal_assertions_make_two_relations(world: JobWorld) -> None:
    """Nothing is de-duplicated by content."""
    same = assertion(*world.sources)
    _, receipts = published(world, same, same)
    assert len({receipt["relation_id"] for receipt in receipts}) == 2


def test_sixteen_assertions_over_sixteen_sources_in_one_commit(world: JobWorld) -> None:
    """The largest publication is one commit: relations, adjacency, histories, job, history and receipt together."""
    sources = world.more_sources(16)
    job_id, fence = world.running_job(sources=sources, max_relations=16)
    assertions = [assertion(source, sources[index - 1]) for index, source in enumerate(sources)]
    revision = world.job(job_id).revision
    reads, commits = world.traffic.read_count, world.traffic.commit_count
    world.run(PublishJob(job_id, revision, fence, tuple(assertions), USAGE, "e"))
    assert (world.traffic.read_count - reads, world.traffic.commit_count - commits) == (1, 1)
    relation = world.read(
        lambda partition: inspect_relation(partition, world.job(job_id).output_receipts[0]["relation_id"])
    ).relation
    assert len(relation.input.evidence_sources) == 14
    assert counts(world, keys.RELATION) == counts(world, keys.RELATION_HISTORY) == 16


Break = Callable[[tuple[SourceRef, ...]], Assertion]

BREACHES: dict[str, tuple[Break, str]] = {
    "not in the manifest": (lambda refs: assertion(refs[0], SourceRef(ABSENT, 1)), "target"),
    "another revision": (lambda refs: assertion(SourceRef(refs[0].record_id, 2), refs[1]), "source"),
    "self": (lambda refs: assertion(refs[0], refs[0]), "target.record_id"),
    "empty interval": (
        lambda refs: assertion(refs[0], refs[1], valid_from_millis=5, valid_until_millis=5),
        "valid_until_millis",
    ),
    "wrong temporal order": (lambda refs: assertion(refs[1], refs[0], "temporal_before"), "kind"),
}


@pytest.mark.parametrize("breach", BREACHES)
def test_bad_assertion_publishes_nothing(world: JobWorld, breach: str) -> None:
    """One bad assertion behind a good one is 400, names its place, and nothing at all is written."""
    job_id, fence = world.running_job()
    make, member = BREACHES[breach]
    before = world.rows()
    command = PublishJob(job_id, 2, fence, (assertion(*world.sources), make(world.sources)), USAGE, "e")
    assert reason_of(lambda: world.run(command, "key")) == "invalid_request"
    assert member_of(lambda: world.run(command, "key")) == f"operation.assertions[1].{member}"
    assert world.rows() == before
    # The refused command did not use its key up.
    corrected = PublishJob(job_id, 2, fence, (assertion(*world.sources),), USAGE, "e")
    assert world.run(corrected, "key")["action"] == "published"


def test_equal_event_times_are_no_order(world: JobWorld) -> None:
    """`temporal_before` needs a strictly earlier source."""
    sources = (world.create("a"), world.create("b"))
    job_id, fence = world.running_job(sources=sources)
    assert reason_of(lambda: world.publish(job_id, fence, assertion(*sources, "temporal_before"))) == "invalid_request"


def test_temporal_order_that_holds(world: JobWorld) -> None:
    """The right order is published."""
    _, receipts = published(world, assertion(*world.sources, "temporal_before"))
    assert len(receipts) == 1


def test_more_assertions_than_the_job_allows(world: JobWorld) -> None:
    """max_relations bounds the publication: 400, before sources are looked at."""
    job_id, fence = world.running_job(max_relations=1)
    pair = (assertion(*world.sources), assertion(*world.sources))
    assert member_of(lambda: world.publish(job_id, fence, *pair)) == "operation.assertions"
    assert reason_of(lambda: world.publish(job_id, fence, *pair)) == "invalid_request"


def test_lease_is_judged_before_the_output(world: JobWorld) -> None:
    """Whoever does not hold the lease learns nothing of what is wrong with the output."""
    job_id, _ = world.running_job()
    bad = assertion(world.sources[0], world.sources[0])
    assert reason_of(lambda: world.publish(job_id, ABSENT, bad)) == "revision_conflict"


def test_publication_is_accepted_once(world: JobWorld) -> None:
    """After the first publication every other one is refused, by the same or a later fence."""
    job_id, fence = world.running_job()
    world.publish(job_id, fence, assertion(*world.sources))
    assert reason_of(lambda: world.publish(job_id, fence, assertion(*world.sources))) == "invalid_request"
    stale = PublishJob(job_id, 2, fence, (), None, "e")
    assert reason_of(lambda: world.run(stale)) == "revision_conflict"
    assert counts(world, keys.RELATION) == 1


def test_longest_members_fit(world: JobWorld) -> None:
    """The longest provenance that a job and an assertion can have still fits into 16 KiB, with its history."""
    long_name = "\\" * 256
    extractor = Provenance("model_inference", long_name, long_name, "e", Model(long_name, long_name, long_name))
    sources = world.more_sources(16)
    _, (receipt,) = published(
        world, assertion(sources[0], sources[1], evidence_ref='"' * 2048), sources=sources, extractor=extractor
    )
    history = world.rows()[keys.relation_history_key(receipt["relation_id"], 1)]
    assert 8 * 1024 < len(history) <= 16 * 1024
