"""Renewing the lease while an extractor works.

The SDK's `renew` belongs to the thread that the extractor was called in, since it writes to the journal that this
thread holds. So the extractor moves to a second thread, and the first one waits for it and renews meanwhile.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotDone

from qilbeedb import ConsolidationInput, ConsolidationResult, ConsumerAPIError, ConsumerError

Extractor = Callable[[ConsolidationInput], ConsolidationResult]

RENEWALS_PER_LEASE = 3


def wait_for(future: Future[ConsolidationResult], timeout_s: float) -> ConsolidationResult:
    """Return the result, or raise TimeoutError after so many seconds."""
    return future.result(timeout_s)


def renewing(
    extractor: Extractor,
    *,
    on_renewal: Callable[[], None] = lambda: None,
    wait: Callable[[Future[ConsolidationResult], float], ConsolidationResult] = wait_for,
) -> Extractor:
    """Return an extractor that keeps its lease, with three renewals in its length.

    A renewal that was refused is not tried again: the attempt has come to its hard deadline, or is over. The extractor
    is let finish all the same, because only the server decides whether its output still counts. A renewal without an
    answer is repeated with the same key at the next turn.

    Args:
        extractor: Called in a thread of its own; its `renew` does nothing.
        on_renewal: Called after each renewal.
        wait: See `wait_for`; another one is for tests.
    """

    def extract(given: ConsolidationInput) -> ConsolidationResult:
        interval_s = given.spec["lease_millis"] / 1000 / RENEWALS_PER_LEASE
        is_renewable = True
        with ThreadPoolExecutor(1, thread_name_prefix="extractor") as pool:
            future = pool.submit(extractor, dataclasses.replace(given, renew=lambda: None))
            while True:
                try:
                    return wait(future, interval_s)
                except NotDone:
                    if future.done():
                        # It ended in this moment, or the error is the extractor's own.
                        return future.result()
                if is_renewable:
                    is_renewable = _renew(given, on_renewal)

    return extract


def _renew(given: ConsolidationInput, on_renewal: Callable[[], None]) -> bool:
    """Renew once; tell whether another renewal can succeed."""
    try:
        given.renew()
    except ConsumerAPIError as error:
        return error.status is not None and error.status >= 500
    except ConsumerError:
        return True
    on_renewal()
    return True
