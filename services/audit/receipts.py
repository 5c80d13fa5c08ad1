"""Idempotency receipts: each under its own key, its digests right, and one for every step of what it is about."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import Any, Final, NamedTuple

from services.audit.command_digests import check_embedding_command, check_review_command
from services.audit.findings import Findings
from services.audit.stored_values import Unsound, fingerprint, read_json, read_value, require
from services.domain import keys
from services.domain.embeddings import embedding_receipt_from_json
from services.domain.receipts import (
    CONSOLIDATION_FAMILY,
    Receipt,
    job_receipt,
    record_receipt,
    relation_receipt,
    review_receipt,
)
from services.domain.records import Author, author_from_json, review_from_json

_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_MEMBERS: Final = {"command_digest", "receipt"}

StepKey = tuple[str, int]
"""Id and revision of what a command made."""


class RecordStep(NamedTuple):
    """What made one revision of a record."""

    action: str
    at_millis: int
    author: Author
    command_digest: str


class ReceiptLedger:
    """All receipts of a workspace.

    Attributes:
        record_steps: By record id and revision; a decision has the action "reviewed".
        reviews, relations, jobs: Fingerprint of the receipt by id and revision.
        bindings: (revision, fingerprint) of the receipts for each binding, by its key.
        authors: Whoever has made any of them.
    """

    def __init__(self, partition: bytes) -> None:
        self._partition = partition
        self.record_steps: dict[StepKey, RecordStep] = {}
        self.revisions: defaultdict[str, list[int]] = defaultdict(list)
        self.reviews: dict[StepKey, bytes] = {}
        self.relations: dict[StepKey, bytes] = {}
        self.jobs: dict[StepKey, bytes] = {}
        self.bindings: defaultdict[bytes, list[tuple[int, bytes]]] = defaultdict(list)
        self.authors: set[Author] = set()
        self._job_keys: list[tuple[bytes, str, str]] = []

    def take(self, key: bytes, value: bytes) -> None:
        """Take one stored receipt. Raises Unsound."""
        stored = read_json(value)
        require(isinstance(stored, dict) and stored.keys() == _MEMBERS, "cannot be read")
        digest, receipt = stored["command_digest"], stored["receipt"]
        require(isinstance(digest, str) and _DIGEST.fullmatch(digest) is not None, "has no command digest")
        family = key[1:2]
        match family:
            case b"m":
                author = self._take_memory(receipt, digest)
            case b"v":
                author = self._take_review(receipt, digest)
            case b"e":
                author = self._take_embedding(receipt, digest)
            case b"r":
                author = self._take_relation(receipt, digest)
            case b"j":
                self._take_job(key, receipt, digest)
                return
            case _:
                raise Unsound("is of no known family")
        self.authors.add(author)
        self._check_key(key, family, author.subject_id, receipt)

    def content_step(self, record_id: str, revision: int) -> tuple[int, RecordStep] | None:
        """Revision and step, at or before this one, that last wrote a record's payload; None when it is not told."""
        for made in range(revision, 0, -1):
            step = self.record_steps.get((record_id, made))
            if step is None or step.action != "reviewed":
                return None if step is None else (made, step)
        return None

    def judge_job_keys(self, owners: dict[str, str], findings: Findings) -> None:
        """Check that receipts of jobs lie in the key spaces of the jobs' owners.

        Args:
            owners: Owner by job id.
            findings: Where to note what does not hold.
        """
        for key, job_id, idempotency_key in self._job_keys:
            owner_id = owners.get(job_id)
            if owner_id is None:
                findings.add("receipt", f"of job {job_id}", "is of a job that is not there")
            elif key != keys.receipt_key(CONSOLIDATION_FAMILY, owner_id, idempotency_key):
                findings.add("receipt", f"of job {job_id}", "lies under the key of another")

    def _take_memory(self, receipt: Receipt, digest: str) -> Author:
        author = read_value(lambda: author_from_json(receipt["author"]))
        _check_rebuilt(
            receipt,
            lambda: record_receipt(
                idempotency_key=receipt["idempotency_key"],
                record_id=receipt["record_id"],
                revision=receipt["revision"],
                action=receipt["action"],
                author=author,
                now_ms=receipt["committed_at_millis"],
            ),
        )
        self._note_step(receipt, RecordStep(receipt["action"], receipt["committed_at_millis"], author, digest))
        return author

    def _take_review(self, receipt: Receipt, digest: str) -> Author:
        check_review_receipt(self._partition, receipt)
        review = read_value(lambda: review_from_json(receipt["review"]))
        if review is None:
            raise Unsound("holds no decision")
        self.reviews[receipt["record_id"], receipt["revision"]] = fingerprint(receipt)
        self._note_step(receipt, RecordStep("reviewed", review.reviewed_at_millis, review.author, digest))
        check_review_command(receipt, digest)
        return review.author

    def _note_step(self, receipt: Receipt, step: RecordStep) -> None:
        where = (receipt["record_id"], receipt["revision"])
        self.record_steps[where] = step
        self.revisions[where[0]].append(where[1])

    def _take_embedding(self, receipt: Receipt, digest: str) -> Author:
        found = read_value(lambda: embedding_receipt_from_json(receipt))
        require(found.as_json() == receipt, "is not the documented object")
        self.bindings[keys.binding_key(found.record_id, found.space.tag)].append(
            (found.record_revision, fingerprint(receipt))
        )
        check_embedding_command(receipt, digest)
        return found.author

    def _take_relation(self, receipt: Receipt, digest: str) -> Author:
        check_relation_receipt(self._partition, receipt)
        require(receipt["command_digest"] == digest, "names another command digest than it stands with")
        self.relations[receipt["relation_id"], receipt["revision"]] = fingerprint(receipt)
        return read_value(lambda: author_from_json(receipt["author"]))

    def _take_job(self, key: bytes, receipt: Receipt, digest: str) -> None:
        check_job_receipt(self._partition, receipt)
        require(receipt["command_digest"] == digest, "names another command digest than it stands with")
        self.jobs[receipt["job_id"], receipt["revision"]] = fingerprint(receipt)
        self.authors.add(author_from_json(receipt["author"]))
        self._job_keys.append((key, receipt["job_id"], receipt["idempotency_key"]))

    def _check_key(self, key: bytes, family: bytes, subject_id: str, receipt: Receipt) -> None:
        own = read_value(lambda: keys.receipt_key(family, subject_id, receipt["idempotency_key"]))
        require(key == own, "lies under the key of another")


def check_review_receipt(partition: bytes, receipt: Receipt) -> None:
    """Check that a review receipt is the documented object with the right digest. Raises Unsound."""

    def build() -> Receipt:
        review = review_from_json(receipt["review"])
        if review is None:
            raise Unsound("holds no decision")
        return review_receipt(
            partition=partition,
            idempotency_key=receipt["idempotency_key"],
            record_id=receipt["record_id"],
            revision=receipt["revision"],
            review=review,
        )

    _check_rebuilt(receipt, build)


def check_relation_receipt(partition: bytes, receipt: Receipt) -> None:
    """The same for a relation's receipt."""
    _check_rebuilt(
        receipt,
        lambda: relation_receipt(
            partition=partition,
            relation_id=receipt["relation_id"],
            evidence_ref=receipt["evidence_ref"],
            relation_digest=receipt["relation_digest"],
            **_common(receipt),
        ),
    )


def check_job_receipt(partition: bytes, receipt: Receipt) -> None:
    """The same for a job's receipt."""
    _check_rebuilt(
        receipt,
        lambda: job_receipt(
            partition=partition, job_id=receipt["job_id"], job_digest=receipt["job_digest"], **_common(receipt)
        ),
    )


def _common(receipt: Receipt) -> dict[str, Any]:
    return {
        "idempotency_key": receipt["idempotency_key"],
        "revision": receipt["revision"],
        "action": receipt["action"],
        "author": author_from_json(receipt["author"]),
        "now_ms": receipt["committed_at_millis"],
        "command_digest": receipt["command_digest"],
    }


def _check_rebuilt(receipt: Receipt, build: Any) -> None:
    rebuilt = read_value(build)
    if rebuilt == receipt:
        return
    shown = dict(receipt) if isinstance(receipt, dict) else {}
    is_digest = shown.keys() == rebuilt.keys() and {**shown, "receipt_digest": None} == {
        **rebuilt,
        "receipt_digest": None,
    }
    raise Unsound("does not agree with its digest" if is_digest else "is not the documented object")
