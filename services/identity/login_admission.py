"""Which logins are tried at all: not those of a name, or of everybody, that has failed too often lately."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from services.domain.errors import InvalidLogin, LoginRateLimited
from services.identity.attempt_window import AttemptWindow
from services.runtime.clock import Clock


class LoginAdmission:
    """Counts failed logins of this process. Safe to use from many threads.

    Args:
        clock: Must never go backwards.
        window: Bounds of what may fail.
    """

    def __init__(self, clock: Clock, window: AttemptWindow | None = None) -> None:
        self._clock = clock
        self._window = window or AttemptWindow()
        self._lock = threading.Lock()

    @contextmanager
    def attempt(self, name: bytes) -> Iterator[None]:
        """Let the block try a login with a name; it counts as failed exactly when the block raises InvalidLogin.

        The name need not exist: whether it does must not show.

        Raises:
            LoginRateLimited: Too many have failed; the block does not run.
        """
        with self._lock:
            attempt = self._window.begin(name, self._clock.now_ms())
        if attempt is None:
            raise LoginRateLimited("too many failed logins; try again in a minute")
        has_failed = False
        try:
            yield
        except InvalidLogin:
            has_failed = True
            raise
        finally:
            if not has_failed:
                with self._lock:
                    self._window.withdraw(attempt)
