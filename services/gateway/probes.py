"""What probes are told about the gateway."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from typing import Final

from services.runtime.health_listener import HealthListener, open_health_listener
from services.runtime.health_names import LIVENESS

LOOP_ANSWER_S: Final = 1.5
"""How long the event loop may take to answer. Whatever takes long runs on other threads."""


def open_probes(
    environment: Mapping[str, str], loop: asyncio.AbstractEventLoop, has_reached_services: Callable[[], bool]
) -> HealthListener:
    """Open the listener of the probes: live while the event loop turns, ready once a service has answered as well.

    As for the services, whether others answer now is no part of it: that is the same for every gateway.

    Raises:
        CannotStart: The address cannot be taken.
    """

    def turns() -> bool:
        answered = threading.Event()
        try:
            loop.call_soon_threadsafe(answered.set)
        except RuntimeError:
            return False  # the loop is closed
        return answered.wait(LOOP_ANSWER_S)

    return open_health_listener(environment, {"": lambda: has_reached_services() and turns(), LIVENESS: turns})
