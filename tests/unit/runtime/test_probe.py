"""The probe as a command: what it asks, and what its exit code says."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator

import pytest

from services.runtime.health_listener import HealthListener
from services.runtime.health_names import LIVENESS
from services.runtime.probe import main

# Nobody listens here: port 1 is never given out.
NOWHERE = "127.0.0.1:1"


@pytest.fixture
def listener() -> Iterator[HealthListener]:
    """A process that lives and is not ready."""
    listener = HealthListener("127.0.0.1:0", {"": lambda: False})
    yield listener
    listener.close()


@pytest.fixture
def page() -> Iterator[str]:
    """A server that answers GET /ready with 200 and everything else with 503."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path == "/ready" else 503)
            self.end_headers()

        def log_message(self, *_words: object) -> None:
            """Say nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_the_exit_code_is_the_state_of_the_name(listener: HealthListener) -> None:
    """Readiness as it stands, another name when it is given, failure for a name that is not known."""
    address = f"127.0.0.1:{listener.port}"
    assert 1 == main([address])
    assert 0 == main([address, "--name", LIVENESS])
    assert 1 == main([address, "--name", "unknown"])


def test_a_page_is_asked_for_its_status(page: str) -> None:
    """200 and nothing else is health."""
    assert 0 == main([f"{page}/ready"])
    assert 1 == main([f"{page}/other"])


@pytest.mark.parametrize("address", [NOWHERE, f"http://{NOWHERE}/ready"])
def test_who_is_not_there_is_not_healthy(address: str) -> None:
    """Without waiting longer than it is told to."""
    assert 1 == main([address, "--timeout-s", "0.2"])
