"""A clock that stands still until a test moves it."""

from __future__ import annotations


class FakeClock:
    """A `services.runtime.clock.Clock` under the test's control.

    Attributes:
        at_ms: The present time, milliseconds since the Unix epoch.
    """

    def __init__(self, at_ms: int = 1_700_000_000_000) -> None:
        self.at_ms = at_ms

    def now_ms(self) -> int:
        """Return the time that the test has set."""
        return self.at_ms

    def advance(self, by_ms: int) -> None:
        """Move the clock; a negative number moves it back."""
        self.at_ms += by_ms
