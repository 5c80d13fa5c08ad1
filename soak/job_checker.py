"""Judges jobs: each was published at most once, by the attempt that its relations name, and nothing told is lost."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping

from soak.history import FinalPlace, JobStep


def check_jobs(steps: Iterable[JobStep], final: Mapping[str, FinalPlace], checks: Counter[str]) -> Iterator[str]:
    """Yield a sentence for each job that was published twice, or otherwise than somebody was told.

    Args:
        steps: Receipts that clients were given.
        final: By marker.
        checks: Counts what was compared.
    """
    told: dict[tuple[str, str], set[JobStep]] = defaultdict(set)
    for step in steps:
        told[step.place, step.job_id].add(step)
    for place, found in final.items():
        for job_id in found.jobs.keys() | {job_id for at, job_id in told if at == place}:
            problems = _check_job(job_id, told[place, job_id], found)
            checks["jobs published at most once"] += 1
            yield from (f"{place} job {job_id}: {problem}" for problem in problems)


def _check_job(job_id: str, told: set[JobStep], final: FinalPlace) -> Iterator[str]:
    stored = {step for step in final.job_steps if step.job_id == job_id}
    if told - stored:
        yield f"{', '.join(sorted(step.action for step in told - stored))} was acknowledged and is lost"
    published = [step for step in stored | told if step.action == "published"]
    if len(published) > 1:
        yield f"was published {len(published)} times"
    job = final.jobs.get(job_id)
    if job is None:
        yield "is lost"
        return
    if (job["status"] == "published") != bool(published):
        yield f"is {job['status']} with {len(published)} publications"
    made = [relation for relation in final.job_relations if relation.job_id == job_id]
    if len({relation.fence for relation in made}) > 1:
        yield "has relations of two attempts"
    named = {receipt["relation_id"] for receipt in job["output_receipts"]}
    if named != {relation.relation_id for relation in made}:
        yield "has other relations than its output names"
