"""Client of an auditable graph memory: consolidation by external extractors, and memories, relations and searches.

Standard library only. Answers are validated member by member before anything is done with them.
"""

from __future__ import annotations

from qilbeedb._consolidation_client import ConsolidationClient
from qilbeedb._errors import (
    ConsolidationStopped,
    ConsumerAPIError,
    ConsumerError,
    ConsumerProtocolError,
    ConsumerTransportError,
    ReconciliationRequired,
)
from qilbeedb._journal import SQLiteConsolidationJournal
from qilbeedb._memory_client import MemoryClient
from qilbeedb._worker import ConsolidationInput, ConsolidationResult, ExternalConsolidationWorker

__version__ = "0.2.0"

__all__ = [
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
]
