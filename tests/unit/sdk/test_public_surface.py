"""What a program may import, with which signatures, and what it costs to install."""

from __future__ import annotations

import ast
import inspect
import sys
from pathlib import Path

import pytest

import qilbeedb

PACKAGE = Path(qilbeedb.__file__).parent
MODULES = sorted(PACKAGE.glob("*.py"))

NAMES = {
    "ConsolidationClient",
    "ConsolidationInput",
    "ConsolidationResult",
    "ConsolidationStopped",
    "ConsumerAPIError",
    "ConsumerError",
    "ConsumerProtocolError",
    "ConsumerTransportError",
    "ExternalConsolidationWorker",
    "MemoryClient",
    "ReconciliationRequired",
    "SQLiteConsolidationJournal",
    "__version__",
}

SIGNATURES = {
    "ConsolidationClient": "(base_url, api_key, *, tenant_id, subject_id, scope, timeout=10.0)",
    "ConsolidationClient.command": "(self, operation, *, idempotency_key)",
    "ConsolidationClient.inspect": "(self, job_id)",
    "ConsolidationClient.context": "(self, job_id, expected_revision, fence)",
    "ConsolidationClient.query": "(self, *, limit=25, scan_limit=100, after=None, status=None)",
    "ConsolidationClient.revision": "(self, job_id, revision)",
    "SQLiteConsolidationJournal": "(directory)",
    "ExternalConsolidationWorker": "(client, journal, *, worker_id)",
    "ExternalConsolidationWorker.run_once": "(self, job_id, extractor)",
    "ConsolidationResult": "(assertions, usage, evidence_ref, failed=False)",
    "ConsolidationInput": "(job_id, attempt_id, spec, records, renew)",
    "ConsolidationStopped": "(code)",
    "ConsumerError": "(code, *, status=None, checkpoint_outcome='not_attempted')",
}


def test_exports() -> None:
    """The documented names, and the documented version."""
    assert set(qilbeedb.__all__) == NAMES
    assert qilbeedb.__version__ == "0.2.0"


@pytest.mark.parametrize("name", SIGNATURES)
def test_signatures(name: str) -> None:
    """Parameters have the documented names, order, kinds and defaults."""
    target = qilbeedb
    for part in name.split("."):
        target = getattr(target, part)
    parameters = [
        parameter.replace(annotation=inspect.Parameter.empty)
        for parameter in inspect.signature(target).parameters.values()  # type: ignore[arg-type]
    ]
    assert SIGNATURES[name] == str(inspect.Signature(parameters))


def test_error_hierarchy() -> None:
    """Four kinds of ConsumerError; a stop is none of them."""
    for name in ("ConsumerAPIError", "ConsumerProtocolError", "ConsumerTransportError", "ReconciliationRequired"):
        assert (qilbeedb.ConsumerError,) == getattr(qilbeedb, name).__bases__
    assert (Exception,) == qilbeedb.ConsolidationStopped.__bases__
    error = qilbeedb.ConsumerError("code")
    assert ("code", None, "not_attempted") == (error.code, error.status, error.checkpoint_outcome)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_only_the_standard_library_in_syntax_of_python_3_8(path: Path) -> None:
    """Nothing has to be installed beside it, and an interpreter of 2019 reads it."""
    tree = ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 8))
    imported = {
        name.partition(".")[0]
        for node in ast.walk(tree)
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    assert set() == imported - set(sys.stdlib_module_names) - {"qilbeedb"}


def test_is_typed() -> None:
    """Type checkers of applications see the annotations."""
    assert (PACKAGE / "py.typed").exists()
