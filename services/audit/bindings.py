"""Embeddings: the vector is the one that its receipt digests, bound to a revision that its record has had."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from services.audit.findings import Findings
from services.audit.receipts import ReceiptLedger
from services.audit.records import RecordFact
from services.audit.stored_values import fingerprint, read_encodable, require
from services.domain import keys
from services.domain.embeddings import decode_binding, vector_digest


class _BindingFact(NamedTuple):
    record_id: str
    revision: int
    receipt: bytes


class BindingsAudit:
    """All bindings of a workspace."""

    def __init__(self, findings: Findings) -> None:
        self._findings = findings
        self._facts: dict[bytes, _BindingFact] = {}

    def take(self, key: bytes, value: bytes) -> None:
        """Take one binding. Raises Unsound."""
        binding = read_encodable(value, decode_binding)
        receipt = binding.receipt
        self._facts[key] = _BindingFact(receipt.record_id, receipt.record_revision, fingerprint(receipt.as_json()))
        require(key == keys.binding_key(receipt.record_id, receipt.space.tag), "lies under the key of another")
        require(bool(np.isfinite(binding.vector).all() and binding.vector.any()), "holds no usable vector")
        require(vector_digest(binding.vector) == receipt.vector_digest, "holds another vector than its digest says")

    def finish(self, ledger: ReceiptLedger, records: Mapping[str, RecordFact]) -> None:
        """Compare with the records and with the receipts."""
        for key, fact in self._facts.items():
            record = records.get(fact.record_id)
            if record is None or not 1 <= fact.revision <= record.revision:
                self._findings.add("embedding", fact.record_id, "is bound to a revision that never was")
            told = ledger.bindings.get(key, [])
            if (fact.revision, fact.receipt) not in told or fact.revision != max(revision for revision, _ in told):
                self._findings.add("embedding", fact.record_id, "is not the latest one that a receipt tells")
        for key in sorted(ledger.bindings.keys() - self._facts.keys()):
            self._findings.add("embedding", keys.id_text(key[1:17]), "is missing, but there are receipts of it")
