"""How many imports run at once: each holds a thread for as long as its caller likes, so no company may take all."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from services.domain.errors import RetrievalBusy

COMPANY_IMPORTS_MAX: Final = 8
"""At once in one process; `services.runtime.handlers` has threads for four such companies."""


class ImportAdmission:
    """Counts the imports of each company. Safe to use from many threads."""

    def __init__(self, company_imports_max: int = COMPANY_IMPORTS_MAX) -> None:
        self._company_imports_max = company_imports_max
        self._lock = threading.Lock()
        self._running: Counter[str] = Counter()

    @contextmanager
    def admit(self, company_id: str) -> Iterator[None]:
        """Let the block be one of the company's imports.

        Raises:
            RetrievalBusy: As many as may run do already.
        """
        with self._lock:
            if self._running[company_id] >= self._company_imports_max:
                raise RetrievalBusy(f"{self._company_imports_max} imports of this company run already")
            self._running[company_id] += 1
        try:
            yield
        finally:
            with self._lock:
                self._running[company_id] -= 1
                if not self._running[company_id]:
                    del self._running[company_id]
