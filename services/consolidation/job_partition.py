"""The jobs of one owner inside a transaction, as jobs and histories instead of keys and bytes."""

from __future__ import annotations

from collections.abc import Callable

from services.domain import keys
from services.domain.canonical_json import parse_canonical
from services.domain.errors import RecordNotFound, StorageInconsistency
from services.domain.job_summaries import summary_of_job
from services.domain.jobs import Job, check_job_bytes, decode_job, encode_job_history, job_digest, job_from_json
from services.domain.lease import Moment
from services.domain.receipts import CONSOLIDATION_FAMILY, JobAction, Receipt, job_receipt
from services.domain.records import Author
from services.workspace.partition import MemoryPartition


class JobPartition:
    """Typed reads and buffered writes of the jobs that one subject owns in a workspace.

    Attributes:
        memory: The workspace.
        owner_id: The owner.
        moment: Clock and incarnation that the request is judged by.
    """

    def __init__(
        self, memory: MemoryPartition, owner_id: str, *, on_job: Callable[[Job], None] = lambda _job: None
    ) -> None:
        """Look at the jobs of an owner through a transaction.

        Args:
            memory: The workspace.
            owner_id: The owner.
            on_job: Told of every job that is read or written.
        """
        self._on_job = on_job
        self.memory = memory
        self.owner_id = owner_id
        self.moment = Moment(memory.now_ms, memory.transaction.incarnation)

    def receipt_key(self, idempotency_key: str) -> bytes:
        """Key of the receipt of a command on the owner's jobs."""
        return keys.receipt_key(CONSOLIDATION_FAMILY, self.owner_id, idempotency_key)

    def job(self, job_id: str) -> Job:
        """The job at its current revision.

        Raises:
            RecordNotFound: The owner has no such job.
        """
        value = self.memory.transaction.get(self.memory.id, keys.job_key(self.owner_id, job_id))
        if value is None:
            raise RecordNotFound("no such job", member="job_id")
        job = decode_job(value)
        if (job.job_id, job.owner_id) != (job_id, self.owner_id):
            raise StorageInconsistency("a job does not belong to its key")
        self._on_job(job)
        return job

    def history(self, job_id: str, revision: int) -> tuple[Job, Receipt]:
        """The job as it was at a revision, with the receipt of the command that made it.

        Raises:
            RecordNotFound: The owner has no such job, or it never had that revision.
        """
        key = keys.job_history_key(self.owner_id, job_id, revision)
        value = self.memory.transaction.get(self.memory.id, key)
        if value is None:
            raise RecordNotFound("no such job revision", member="revision")
        history = parse_canonical(value)
        job = job_from_json(history["job"])
        if (job.job_id, job.revision, job.owner_id) != (job_id, revision, self.owner_id):
            raise StorageInconsistency("a history value does not belong to its key")
        return job, history["receipt"]

    def put_step(self, job: Job, *, action: JobAction, author: Author, idempotency_key: str, digest: str) -> Receipt:
        """Buffer a job's new revision with summary and history, and return the receipt, which is kept under its key.

        Args:
            job: The new revision.
            action: What the command did.
            author: Who executed it.
            idempotency_key: The command's key.
            digest: Digest of the command.

        Raises:
            InvalidRequest: The job is larger than 512 KiB or its history value than 1 MiB.
        """
        encoded = job.encode()
        receipt = job_receipt(
            partition=self.memory.id,
            idempotency_key=idempotency_key,
            job_id=job.job_id,
            revision=job.revision,
            action=action,
            author=author,
            now_ms=self.moment.now_ms,
            job_digest=job_digest(encoded),
            command_digest=digest,
        )
        history = encode_job_history(job, receipt)
        check_job_bytes(encoded, history)
        self._on_job(job)
        transaction, partition = self.memory.transaction, self.memory.id
        transaction.put(partition, keys.job_key(self.owner_id, job.job_id), encoded)
        summary = summary_of_job(job, job_bytes=len(encoded))
        transaction.put(partition, keys.job_summary_key(self.owner_id, job.job_id), summary.encode())
        transaction.put(partition, keys.job_history_key(self.owner_id, job.job_id, job.revision), history)
        self.memory.put_receipt(self.receipt_key(idempotency_key), digest, receipt)
        return receipt
