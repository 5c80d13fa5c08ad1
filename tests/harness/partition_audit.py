"""A memory partition read as bytes and judged as a whole: does all that commands left behind fit together?

Every command writes several keys in one commit. Here each of them is derived again from the others, so that anything
that was written by half, twice or not at all shows, whoever wrote it and whatever became of the answer.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from services.domain import keys
from services.domain.canonical_json import parse_canonical
from services.domain.embeddings import decode_binding
from services.domain.receipts import (
    CONSOLIDATION_FAMILY,
    EMBEDDING_FAMILY,
    MEMORY_FAMILY,
    RELATION_FAMILY,
    REVIEW_FAMILY,
)
from services.storage.contract import Store

Json = dict[str, Any]
_ID = slice(1, 17)


class PartitionRows:
    """All living rows of a partition, by kind.

    Attributes:
        records: Record by id, tombstones included.
        relations: Relation by id.
        histories: History value by relation id and revision.
        bindings: Binding by its key: receipt and vector.
        jobs: Job by id.
        receipts: Receipt by the key it is stored under.
    """

    def __init__(self, rows: Mapping[bytes, bytes]) -> None:
        self.rows = dict(rows)
        self.records: dict[str, Json] = {keys.id_text(key[_ID]): json for key, json in self._parsed(keys.RECORD)}
        self.relations: dict[str, Json] = {keys.id_text(key[_ID]): json for key, json in self._parsed(keys.RELATION)}
        self.histories: dict[tuple[str, int], Json] = {
            (keys.id_text(key[_ID]), int.from_bytes(key[17:], "big")): json
            for key, json in self._parsed(keys.RELATION_HISTORY)
        }
        self.bindings = {key: decode_binding(value) for key, value in self._of(keys.BINDING)}
        self.jobs: dict[str, Json] = {json["job_id"]: json for _, json in self._parsed(keys.JOB)}
        self.receipts: dict[bytes, Json] = {key: json["receipt"] for key, json in self._parsed(keys.RECEIPT)}

    def audit(self) -> list[str]:
        """Return a sentence for each thing that does not fit; empty when all is well."""
        parts = (self._records, self._bindings, self._relations, self._adjacency, self._jobs, self._receipts)
        return [problem for part in parts for problem in part()]

    def _records(self) -> Iterator[str]:
        times = {
            keys.record_time_key(record["created_at_millis"], record_id) for record_id, record in self.records.items()
        }
        if times != {key for key, _ in self._of(keys.RECORD_BY_TIME)}:
            yield "the index by time does not hold exactly the records"
        if bool(self.records) != (keys.WORKSPACE in self.rows):
            yield "the workspace is entered without a record, or not entered with one"
        made = self._made((MEMORY_FAMILY, REVIEW_FAMILY), "record_id")
        for record_id, record in self.records.items():
            if record_id != record["record_id"]:
                yield f"{record_id} lies under another id"
            yield from _revisions(f"record {record_id}", made.pop(record_id, []), record["revision"])
        yield from (f"record {record_id} has receipts only" for record_id in made)
        for key, receipt in self._parsed(keys.REVIEW):
            record = self.records.get(receipt["record_id"], {"revision": 0})
            if key != keys.review_key(receipt["record_id"], receipt["revision"]):
                yield f"a decision on {receipt['record_id']} lies under another key"
            if receipt["revision"] == record["revision"] and receipt["review"] != record["review"]:
                yield f"record {receipt['record_id']} does not carry its latest decision"

    def _bindings(self) -> Iterator[str]:
        for key, binding in self.bindings.items():
            receipt = binding.receipt
            if key != keys.binding_key(receipt.record_id, receipt.space.tag):
                yield f"a binding of {receipt.record_id} lies under another key"
            if receipt.record_revision > self.records.get(receipt.record_id, {"revision": 0})["revision"]:
                yield f"a binding of {receipt.record_id} is ahead of its record"
        for receipt in self._receipts_of(EMBEDDING_FAMILY):
            key = keys.binding_key(receipt["record_id"], keys.space_tag(receipt["space"]))
            bound = self.bindings.get(key)
            if bound is None or bound.receipt.record_revision < receipt["record_revision"]:
                yield f"{receipt['record_id']} has a receipt for a vector that is not there"

    def _relations(self) -> Iterator[str]:
        made = self._made((RELATION_FAMILY,), "relation_id")
        for job_id, job in self.jobs.items():
            for receipt in job["output_receipts"]:
                made[receipt["relation_id"]].append(receipt["revision"])
                history = self.histories.get((receipt["relation_id"], receipt["revision"]), {})
                if history.get("receipt") != receipt:
                    yield f"job {job_id} has published what the relation's history does not say"
        histories: dict[str, list[int]] = defaultdict(list)
        for (relation_id, revision), history in self.histories.items():
            histories[relation_id].append(revision)
            receipt = history["receipt"]
            if (relation_id, revision) != (receipt["relation_id"], receipt["revision"]):
                yield f"a history of relation {relation_id} carries the receipt of another step"
        for relation_id, relation in self.relations.items():
            name, revision = f"relation {relation_id}", relation["revision"]
            yield from _revisions(name, made.pop(relation_id, []), revision)
            yield from _revisions(f"history of {name}", histories.pop(relation_id, []), revision)
            if self.histories.get((relation_id, revision), {}).get("relation") != relation:
                yield f"{name} is not what its history says"
        yield from (f"relation {relation_id} has receipts only" for relation_id in made)
        yield from (f"relation {relation_id} has a history only" for relation_id in histories)

    def _adjacency(self) -> Iterator[str]:
        wanted: dict[bytes, bytes] = {}
        counts: Counter[bytes] = Counter()
        for relation_id, relation in self.relations.items():
            is_rejected = relation["review"] is not None and relation["review"]["disposition"] == "rejected"
            if relation["state"] != "active" or is_rejected:
                continue
            stated = relation["input"]
            for kind, end in ((keys.OUTGOING, stated["source"]), (keys.INCOMING, stated["target"])):
                endpoint = (kind, end["record_id"], end["revision"])
                wanted[keys.adjacency_key(*endpoint, relation_id)] = stated["kind"].encode()
                counts[keys.adjacency_count_key(*endpoint)] += 1
        if wanted != {**dict(self._of(keys.OUTGOING)), **dict(self._of(keys.INCOMING))}:
            yield "the adjacency entries are not those of the served relations"
        stored = {**dict(self._of(keys.OUTGOING_COUNT)), **dict(self._of(keys.INCOMING_COUNT))}
        if counts != Counter({key: int.from_bytes(value, "big", signed=True) for key, value in stored.items()}):
            yield "the adjacency counts are not the numbers of entries"

    def _jobs(self) -> Iterator[str]:
        made = self._made((CONSOLIDATION_FAMILY,), "job_id")
        for key, history in self._parsed(keys.JOB_HISTORY):
            receipt = history["receipt"]
            if int.from_bytes(key[-8:], "big") != receipt["revision"]:
                yield f"a history of job {receipt['job_id']} carries the receipt of another step"
            job = self.jobs.get(receipt["job_id"])
            if job is not None and job["revision"] == receipt["revision"] and job != history["job"]:
                yield f"job {receipt['job_id']} is not what its history says"
        summaries = {keys.id_text(key[-16:]): json for key, json in self._parsed(keys.JOB_SUMMARY)}
        for job_id, job in self.jobs.items():
            yield from _revisions(f"job {job_id}", made.pop(job_id, []), job["revision"])
            if summaries.pop(job_id, [None] * 3)[1:3] != [job["revision"], job["status"]]:
                yield f"job {job_id} is listed otherwise than it is"
        yield from (f"job {job_id} has receipts only" for job_id in made)
        yield from (f"job {job_id} is listed only" for job_id in summaries)

    def _receipts(self) -> Iterator[str]:
        for key, receipt in self.receipts.items():
            author = receipt.get("author") or receipt["review"]["author"]
            if key != keys.receipt_key(key[1:2], author["subject_id"], receipt["idempotency_key"]):
                yield f"the receipt of {receipt['idempotency_key']} lies under another key"

    def _made(self, families: tuple[bytes, ...], id_member: str) -> dict[str, list[int]]:
        """Revisions that receipts say were made, by the id of what has them."""
        made: dict[str, list[int]] = defaultdict(list)
        for family in families:
            for receipt in self._receipts_of(family):
                made[receipt[id_member]].append(receipt["revision"])
        return made

    def _receipts_of(self, family: bytes) -> list[Json]:
        return [receipt for key, receipt in self.receipts.items() if key[1:2] == family]

    def _of(self, kind: bytes) -> Iterator[tuple[bytes, bytes]]:
        return ((key, value) for key, value in self.rows.items() if key[:1] == kind)

    def _parsed(self, kind: bytes) -> Iterator[tuple[bytes, Any]]:
        return ((key, parse_canonical(value)) for key, value in self._of(kind))


def read_rows(store: Store, partition: bytes) -> dict[bytes, bytes]:
    """Read all living rows of a partition in one snapshot, as bytes."""
    return {row.key: row.value for page in store.changed_since(partition, 0) for row in page.rows}


def read_partition(store: Store, partition: bytes) -> PartitionRows:
    """Read all living rows of a partition in one snapshot."""
    return PartitionRows(read_rows(store, partition))


def _revisions(name: str, found: list[int], newest: int) -> Iterator[str]:
    if sorted(found) != list(range(1, newest + 1)):
        yield f"{name} at revision {newest} was made by steps {sorted(found)}"
