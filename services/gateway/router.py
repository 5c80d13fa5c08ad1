"""Which route answers a method and a path."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from services.domain.errors import MethodNotAllowed, RouteNotFound
from services.gateway.http_rule import PathTemplate, parse_template, split_path

Target = TypeVar("Target")
Value = TypeVar("Value")


NO_ROUTE_TEXT = "no such route; GET /openapi.json lists all there are"


class WrongMethod(MethodNotAllowed):
    """The path is known with other methods.

    Attributes:
        allowed: Those methods, sorted.
    """

    def __init__(self, allowed: Iterable[str]) -> None:
        self.allowed = tuple(sorted(allowed))
        super().__init__(f"this route takes {' or '.join(self.allowed)}")


class AmbiguousRoute(Exception):
    """Two routes would answer the same request. A fault of the protos, found at start."""


@dataclass(frozen=True, slots=True)
class Match(Generic[Target]):
    """A found route and the values of its path variables, decoded, by field name."""

    target: Target
    path_values: dict[str, str]


class Router(Generic[Target]):
    """Routes by exact path first, then by template.

    Only the documented method answers: HEAD and OPTIONS on a known path are 405 like any other.
    """

    def __init__(self, routes: Iterable[tuple[str, str, Target]]) -> None:
        """Take (method in capitals, template, target) of every route.

        Raises:
            BadTemplate: A template cannot be served.
            AmbiguousRoute: Two routes share method and template.
        """
        self._exact: dict[bytes, dict[str, Match[Target]]] = {}
        self._templates: list[tuple[PathTemplate, dict[str, Target]]] = []
        for method, template, target in routes:
            parsed = parse_template(template)
            if not parsed.variables:
                targets = self._exact.setdefault(template.encode("ascii"), {})
                _add(targets, method, Match(target, {}), template)
            else:
                _add(self._targets_of(parsed), method, target, template)

    def _targets_of(self, parsed: PathTemplate) -> dict[str, Target]:
        for known, targets in self._templates:
            if known == parsed:
                return targets
        targets = {}
        self._templates.append((parsed, targets))
        return targets

    def find(self, method: str, raw_path: bytes) -> Match[Target]:
        """Find the route of a request.

        Args:
            method: As in the request line.
            raw_path: Path as in the request line, still percent-encoded, without the query string.

        Raises:
            RouteNotFound: No route has this path.
            WrongMethod: The path is known with other methods only.
        """
        exact = self._exact.get(raw_path)
        if exact is not None:
            return self._choose(exact, method)
        segments = split_path(raw_path)
        if segments is None:
            raise RouteNotFound(NO_ROUTE_TEXT)
        canonical = self._exact.get(("/" + "/".join(segments)).encode("utf-8")) if b"%" in raw_path else None
        if canonical is not None and not any("/" in segment for segment in segments):
            return self._choose(canonical, method)
        allowed: set[str] = set()
        for template, targets in self._templates:
            path_values = self._match(template, segments)
            if path_values is not None:
                allowed.update(targets)
                target = targets.get(method)
                if target is not None:
                    return Match(target, path_values)
        if allowed:
            raise WrongMethod(allowed)
        raise RouteNotFound(NO_ROUTE_TEXT)

    @staticmethod
    def _match(template: PathTemplate, segments: list[str]) -> dict[str, str] | None:
        if not template.verb:
            return template.match(segments)
        last, colon, verb = segments[-1].rpartition(":")
        return template.match([*segments[:-1], last], verb) if colon else None

    @staticmethod
    def _choose(targets: dict[str, Match[Target]], method: str) -> Match[Target]:
        match = targets.get(method)
        if match is None:
            raise WrongMethod(targets)
        return match


def _add(targets: dict[str, Value], method: str, value: Value, template: str) -> None:
    if method in targets:
        raise AmbiguousRoute(f"{method} {template} is declared twice")
    targets[method] = value
