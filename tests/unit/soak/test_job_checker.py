"""Doctored histories of jobs: a second publication, and whatever else does not fit, is told."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

from soak.history import FinalPlace, JobRelation, JobStep
from soak.job_checker import check_jobs

PLACE, JOB = "mk0000000001", "j1"
PUBLISHED = JobStep(PLACE, JOB, "published", 3, "worker-result-f1")
STEPS = (JobStep(PLACE, JOB, "created", 1, "a"), JobStep(PLACE, JOB, "claimed", 2, "b"), PUBLISHED)
RELATION = JobRelation(JOB, "f1", "relation 1")


def final(**members: Any) -> FinalPlace:
    job = {"status": "published", "output_receipts": [{"relation_id": "relation 1"}]}
    return FinalPlace(**{"jobs": {JOB: job}, "job_relations": (RELATION,), "job_steps": STEPS, **members})


def problems(told: list[JobStep], found: FinalPlace) -> list[str]:
    return [problem.partition(": ")[2] for problem in check_jobs(told, {PLACE: found}, Counter())]


def test_one_publication_passes() -> None:
    """However often its receipt was given."""
    assert [] == problems([PUBLISHED, PUBLISHED], final())


def test_a_job_that_is_not_finished_passes() -> None:
    """It has no publication and no relation."""
    job = {"status": "running", "output_receipts": []}
    assert [] == problems([], final(jobs={JOB: job}, job_relations=(), job_steps=STEPS[:2]))


def test_a_double_publication_is_found() -> None:
    """Two receipts, whether both lie there or somebody was told of one that does not."""
    second = replace(PUBLISHED, revision=4, key="worker-result-f2")
    assert "was published 2 times" in problems([], final(job_steps=(*STEPS, second)))
    assert "was published 2 times" in problems([second], final())


def test_relations_of_two_attempts_are_found() -> None:
    """One attempt publishes, and only what it found is there."""
    both = (RELATION, JobRelation(JOB, "f2", "relation 2"))
    assert "has relations of two attempts" in problems([], final(job_relations=both))
    assert ["has other relations than its output names"] == problems([], final(job_relations=()))


def test_a_lost_publication_is_found() -> None:
    """Somebody was told of it, and the job knows nothing of it."""
    job = {"status": "running", "output_receipts": []}
    lost = problems([PUBLISHED], final(jobs={JOB: job}, job_relations=(), job_steps=STEPS[:2]))
    assert "published was acknowledged and is lost" in lost
    assert "is lost" in problems([PUBLISHED], FinalPlace())
