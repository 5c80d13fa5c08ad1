"""A memory partition read as bytes, by kind, and judged by the audit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from services.audit.workspace_audit import audit_workspace
from services.domain import keys
from services.domain.canonical_json import parse_canonical
from services.domain.embeddings import decode_binding
from services.storage.contract import Store

Json = dict[str, Any]
_ID = slice(1, 17)


class PartitionRows:
    """All living rows of a partition, by kind.

    Attributes:
        partition: Its id.
        records: Record by id, tombstones included.
        relations: Relation by id.
        histories: History value by relation id and revision.
        bindings: Binding by its key: receipt and vector.
        jobs: Job by id.
        receipts: Receipt by the key it is stored under.
    """

    def __init__(self, partition: bytes, rows: Mapping[bytes, bytes]) -> None:
        self.partition = partition
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
        """Return a sentence for each thing that does not fit, as `waggle verify` finds it; empty when all is well."""
        return [str(finding) for finding in audit_workspace(self.partition, sorted(self.rows.items()))]

    def _of(self, kind: bytes) -> Iterator[tuple[bytes, bytes]]:
        return ((key, value) for key, value in self.rows.items() if key[:1] == kind)

    def _parsed(self, kind: bytes) -> Iterator[tuple[bytes, Any]]:
        return ((key, parse_canonical(value)) for key, value in self._of(kind))


def read_rows(store: Store, partition: bytes) -> dict[bytes, bytes]:
    """Read all living rows of a partition in one snapshot, as bytes."""
    return {row.key: row.value for page in store.changed_since(partition, 0) for row in page.rows}


def read_partition(store: Store, partition: bytes) -> PartitionRows:
    """Read all living rows of a partition in one snapshot."""
    return PartitionRows(partition, read_rows(store, partition))
