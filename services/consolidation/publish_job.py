"""Publish what an attempt has found."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from services.consolidation.commands import PublishJob
from services.consolidation.held_lease import hold_until_commit
from services.consolidation.job_partition import JobPartition
from services.consolidation.manifest import Manifest, current_manifest
from services.domain import job_transitions
from services.domain.job_transitions import Closing
from services.domain.jobs import Job
from services.domain.lease import LeaseClaim
from services.domain.records import Author
from services.domain.relations import Relation, RelationInput, check_temporal_order
from services.workspace.relation_writes import write_relation

IDEMPOTENCY_KEY_BYTES_MAX = 256


def publish_job(
    jobs: JobPartition,
    author: Author,
    command: PublishJob,
    *,
    relation_ids: Sequence[str],
    idempotency_key: str,
    digest: str,
) -> Job:
    """Buffer a new relation for each assertion, all of them or none, and return the job as published.

    Lease, sources and ancestry are judged on the snapshot that the commit stands on: whatever of them changes before
    the commit, this runs again and looks again.

    Args:
        relation_ids: A new id for each assertion.
        idempotency_key: The command's key.
        digest: Digest of the command.

    Raises:
        RecordNotFound: No such job.
        RevisionConflict: It has another revision, the lease is not the caller's to use, or a source or its ancestry is
            no longer current and eligible.
        InvalidRequest: The job is not running, an assertion breaks a rule, or a bound is passed.
    """
    job, now_ms = jobs.job(command.job_id), jobs.moment.now_ms
    claim = LeaseClaim(author.credential_id, command.fence)
    held = job_transitions.leased_attempt(job, command.expected_revision, claim, jobs.moment)
    relations = job_transitions.relations_to_publish(job, command.assertions)
    manifest = current_manifest(jobs.memory, job.spec.sources, member="job_id")
    _check_event_times(relations, manifest)
    hold_until_commit(jobs.memory.transaction, held.lease)
    receipts = [
        write_relation(
            jobs.memory,
            author,
            None,
            Relation(relation_ids[index], 1, relation, author, now_ms, now_ms, "active"),
            action="asserted",
            idempotency_key=output_key(idempotency_key, index),
            evidence_ref=relation.provenance.evidence_ref,
            digest=digest,
        )
        for index, relation in enumerate(relations)
    ]
    return job_transitions.publish_job(job, Closing(command.usage, command.evidence_ref), receipts, now_ms)


def output_key(idempotency_key: str, index: int) -> str:
    """The key that stands in the receipt of a published relation: that of the command, `#` and the assertion's index.

    A command key that would make it longer than 256 bytes stands as its SHA-256.
    """
    key = f"{idempotency_key}#{index}"
    if len(key.encode()) <= IDEMPOTENCY_KEY_BYTES_MAX:
        return key
    return f"{hashlib.sha256(idempotency_key.encode()).hexdigest()}#{index}"


def _check_event_times(relations: Sequence[RelationInput], manifest: Manifest) -> None:
    event_times = {record.state.record_id: record.json["payload"]["event_time_millis"] for record in manifest.records}
    for index, relation in enumerate(relations):
        check_temporal_order(
            relation.kind,
            event_times[relation.source.record_id],
            event_times[relation.target.record_id],
            member=f"assertions[{index}].kind",
        )
