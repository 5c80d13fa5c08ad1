"""Which route answers, and what is said when none does."""

from __future__ import annotations

import pytest

from services.domain.errors import RouteNotFound
from services.gateway.router import AmbiguousRoute, Match, Router, WrongMethod

ROUTES = [
    ("GET", "/api/v1/credentials", "list"),
    ("POST", "/api/v1/credentials", "issue"),
    ("GET", "/api/v1/credentials/{id}", "get"),
    ("POST", "/api/v1/credentials/{id}/rotate", "rotate"),
    ("POST", "/api/v1/memory/records/batch", "batch"),
    ("GET", "/api/v1/memory/records/{id}", "record"),
]


@pytest.fixture
def router() -> Router[str]:
    """A router over a few routes like the documented ones."""
    return Router(ROUTES)


@pytest.mark.parametrize(
    ("method", "path", "expected"),
    [
        ("GET", b"/api/v1/credentials", Match("list", {})),
        ("POST", b"/api/v1/credentials", Match("issue", {})),
        ("GET", b"/api/v1/credentials/x%20y", Match("get", {"id": "x y"})),
        ("GET", b"/api/v1/credentials/a%2Fb", Match("get", {"id": "a/b"})),
        ("POST", b"/api/v1/credentials/x/rotate", Match("rotate", {"id": "x"})),
        ("GET", b"/api/v1/%63redentials", Match("list", {})),
        ("POST", b"/api/v1/memory/records/batch", Match("batch", {})),
    ],
)
def test_the_documented_request_finds_its_route(
    router: Router[str], method: str, path: bytes, expected: Match[str]
) -> None:
    """Literal paths and variables, plain or percent-encoded."""
    assert router.find(method, path) == expected


@pytest.mark.parametrize(
    "path",
    [
        b"/api/v1/credentials/",
        b"/API/v1/credentials",
        b"/api/v1//credentials",
        b"/api/v1/credentials/a/b",
        b"/api%2Fv1/credentials",
        b"/",
        b"*",
        b"/%ff",
        b"",
    ],
)
def test_an_unknown_path_is_not_found(router: Router[str], path: bytes) -> None:
    """No trailing slash, no other case, no second spelling."""
    with pytest.raises(RouteNotFound):
        router.find("GET", path)


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("PUT", b"/api/v1/credentials", ("GET", "POST")),
        ("HEAD", b"/api/v1/credentials", ("GET", "POST")),
        ("OPTIONS", b"/api/v1/credentials/x", ("GET",)),
        ("get", b"/api/v1/credentials", ("GET", "POST")),
        ("GET", b"/api/v1/credentials/x/rotate", ("POST",)),
    ],
)
def test_a_known_path_with_another_method_is_405(
    router: Router[str], method: str, path: bytes, allowed: tuple[str, ...]
) -> None:
    """HEAD and OPTIONS get no special treatment; the methods that work are named."""
    with pytest.raises(WrongMethod) as refusal:
        router.find(method, path)
    assert refusal.value.allowed == allowed


def test_two_routes_for_one_request_are_a_fault() -> None:
    """Declaring the same route twice is found at start."""
    with pytest.raises(AmbiguousRoute):
        Router([("GET", "/a/{b}", 1), ("GET", "/a/{b}", 2)])
    with pytest.raises(AmbiguousRoute):
        Router([("GET", "/a", 1), ("GET", "/a", 2)])


def test_refusals_say_what_would_be_right(router: Router[str]) -> None:
    """Another method names those that the path has; an unknown path names the document of all routes."""
    with pytest.raises(WrongMethod, match=r"^this route takes GET or POST$"):
        router.find("DELETE", b"/api/v1/credentials")
    with pytest.raises(WrongMethod, match=r"^this route takes POST$"):
        router.find("GET", b"/api/v1/credentials/x/rotate")
    with pytest.raises(RouteNotFound, match=r"GET /openapi\.json"):
        router.find("GET", b"/")
