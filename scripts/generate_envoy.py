"""Write the routes of deploy/envoy/envoy.yaml from the descriptors: paths, methods, body limits, time-outs, services.

python scripts/generate_envoy.py            rewrite the generated parts
python scripts/generate_envoy.py --check    exit 1 when they differ, writing nothing
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from services.gateway.descriptors import Descriptors
from services.gateway.message_shape import MessageShapes
from services.gateway.route_table import DEADLINE_MS, Route, compile_routes
from services.gateway.settings import HttpLimits
from services.runtime.transport import REQUEST_BYTES_MAX

ENVOY_YAML: Final = Path(__file__).resolve().parent.parent / "deploy" / "envoy" / "envoy.yaml"

GATEWAY_DOCUMENTS: Final = ("/openapi.json",)
"""What the gateway serves beside the routes of the descriptors."""

STREAMING_SERVICES: Final = ("waggle.memory.v1.ImportService",)
"""Services for clients that have no JSON route. All others without one are internal, and out of reach at the edge."""

# The edge waits a little longer than the gateway, so that the gateway's own answer to a late service comes first.
_PATIENCE_S = 2
_CALL_S = DEADLINE_MS / 1000
_BODY_S = round(HttpLimits().body_timeout_s)
_GRPC_IDLE_S = 300
_INT64_MAX = (1 << 63) - 1
_BUFFER_TYPE = '"@type": type.googleapis.com/envoy.extensions.filters.http.buffer.v3.BufferPerRoute'


def client_services(descriptors: Descriptors) -> list[str]:
    """Full names of the gRPC services that clients may call, sorted."""
    routed = {
        service.full_name
        for service in descriptors.services()
        if any(descriptors.http_rule(method) is not None for method in service.methods)
    }
    return sorted(routed | set(STREAMING_SERVICES))


def cluster_of(service: str) -> str:
    """The cluster of a service: "waggle.memory.v1.MemoryService" -> "memory"."""
    return service.split(".")[1]


class Anchors:
    """Writes a piece of YAML in full where it first occurs, and as a reference to that place afterwards."""

    def __init__(self) -> None:
        self._names: set[str] = set()

    def share(self, name: str, text: str) -> str:
        """Return the text with its name, or the name alone. A name always stands for the same text."""
        if name in self._names:
            # The blank keeps what follows in a flow from becoming a part of the name.
            return f"*{name} "
        self._names.add(name)
        return f"&{name} {text}"


def edge_routes(routes: Iterable[Route], services: Sequence[str]) -> Iterator[str]:
    """Lines of YAML: the routes of the main listener, one a line, in the order in which Envoy tries them."""
    anchors = Anchors()
    grpc = '{ name: content-type, string_match: { prefix: "application/grpc" } }'
    yield "- { name: connect, match: { connect_matcher: {} }, direct_response: { status: 400 } }"
    yield "# Envoy joins repeated Host fields with a comma; which of them was meant nobody can say."
    hosts = '{ name: ":authority", string_match: { contains: "," } }'
    yield f"- {{ name: two-hosts, match: {{ prefix: /, headers: [{hosts}] }}, direct_response: {{ status: 400 }} }}"
    yield "# gRPC and gRPC-Web go straight to the services, a single request once it is whole: one that stalls would"
    yield "# hold a thread of theirs. A stream may last, but not lie idle."
    for service in services:
        is_stream = service in STREAMING_SERVICES
        bound = f"idle_timeout: {_GRPC_IDLE_S}s" if is_stream else _duration(_CALL_S)
        target = f"{{ cluster: {cluster_of(service)}, timeout: 0s, {bound} }}"
        headers = f"[{anchors.share('grpc', grpc)}]"
        buffered = "" if is_stream else f", typed_per_filter_config: {_buffer(anchors, REQUEST_BYTES_MAX)}"
        match = f"{{ prefix: /{service}/, headers: {headers} }}"
        yield f"- {{ name: {service}, match: {match}, route: {target}{buffered} }}"
    headers = f"[{anchors.share('grpc', grpc)}]"
    yield f"- {{ name: no-service, match: {{ prefix: /, headers: {headers} }}, direct_response: {{ status: 404 }} }}"
    yield "# Who asks first whether a body is wanted is answered by the gateway, which has the same limits. Such a"
    yield "# request goes on before it is whole, so they have a few connections of their own: of the other priority."
    anywhere = "prefix: /, headers: [{ name: expect, present_match: true }]"
    waiting = f"{{ cluster: gateway, priority: HIGH, timeout: {_CALL_S + _PATIENCE_S:g}s, {_duration(_CALL_S)} }}"
    yield f"- {{ name: expect, match: {{ {anywhere} }}, route: {waiting} }}"
    yield "# For each path: bodies over the limit by their own word; the documented methods; the rest, which is a 405."
    by_template: dict[str, list[Route]] = {}
    for route in routes:
        by_template.setdefault(route.template, []).append(route)
    # Envoy takes the first that fits: exact paths before those with variables, as the gateway's router does.
    for template in sorted({*by_template, *GATEWAY_DOCUMENTS}, key=lambda text: ("{" in text, text)):
        yield from _path_lines(anchors, template, by_template.get(template, []))
    yield "# Paths that spell a character as %XX are looked up by the gateway, which decodes them as it always does."
    escaped = "safe_regex: { regex: '[^?]*%.*' }"
    most = max(route.body_bytes_max for template in by_template.values() for route in template)
    buffered = f"typed_per_filter_config: {_buffer(anchors, most)}"
    yield f"- {{ name: escaped, match: {{ {escaped} }}, route: {_target(anchors)}, {buffered} }}"
    yield "- { name: unknown, match: { prefix: / }, direct_response: { status: 404 } }"


def transcoded_services(services: Sequence[str]) -> Iterator[str]:
    """Lines of YAML: the services that the transcoder speaks for."""
    return (f"- {service}" for service in services if service not in STREAMING_SERVICES)


def transcoded_routes(services: Sequence[str]) -> Iterator[str]:
    """Lines of YAML: where the transcoder's calls go."""
    deadline_s = DEADLINE_MS // 1000 + _PATIENCE_S
    for service in services:
        if service not in STREAMING_SERVICES:
            target = f"{{ cluster: {cluster_of(service)}, timeout: {deadline_s}s, {_duration(_CALL_S)} }}"
            yield f"- {{ name: {service}, match: {{ prefix: /{service}/ }}, route: {target} }}"
    yield "- { name: unknown, match: { prefix: / }, direct_response: { status: 404 } }"


def _path_lines(anchors: Anchors, template: str, routes: Iterable[Route]) -> Iterator[str]:
    path = _path_match(template)
    for route in sorted(routes, key=lambda route: route.method):
        method = anchors.share(route.method, f'{{ name: ":method", string_match: {{ exact: {route.method} }} }}')
        buffered = ""
        if route.takes_body:
            most = route.body_bytes_max
            over = anchors.share(
                f"over_{most}", f"{{ name: content-length, range_match: {{ start: {most + 1}, end: {_INT64_MAX} }} }}"
            )
            match = f"{{ {path}, headers: [{method}, {over}] }}"
            yield f'- {{ name: "{template}", match: {match}, direct_response: {{ status: 413 }} }}'
            method = anchors.share(route.method, "")
            buffered = f", typed_per_filter_config: {_buffer(anchors, most)}"
        target = _target(anchors, route.deadline_s, is_read=route.method == "GET")
        yield f'- {{ name: "{template}", match: {{ {path}, headers: [{method}] }}, route: {target}{buffered} }}'
    yield f'- {{ name: "{template}", match: {{ {path} }}, route: {_target(anchors)} }}'


def _path_match(template: str) -> str:
    if "{" not in template:
        return f'path: "{template}"'
    pattern = "[^/]+".join(re.escape(part).replace(r"\-", "-") for part in re.split(r"\{[^}]*\}", template))
    return f"safe_regex: {{ regex: '{pattern}' }}"


def _buffer(anchors: Anchors, most: int) -> str:
    return anchors.share(
        f"body_{most}",
        f"{{ envoy.filters.http.buffer: {{ {_BUFFER_TYPE}, buffer: {{ max_request_bytes: {most} }} }} }}",
    )


def _duration(deadline_s: float) -> str:
    """The longest that a request may take to arrive and to be answered."""
    return f"max_stream_duration: {{ max_stream_duration: {_BODY_S + deadline_s + 2 * _PATIENCE_S:g}s }}"


def _target(anchors: Anchors, deadline_s: float = _CALL_S, *, is_read: bool = False) -> str:
    timeout_s = deadline_s + _PATIENCE_S
    bounds = f"timeout: {timeout_s:g}s, {_duration(deadline_s)}"
    if not is_read:
        return anchors.share(f"gateway_{timeout_s:g}s", f"{{ cluster: gateway, {bounds} }}")
    retry = anchors.share(
        "retry_read",
        '{ retry_on: "connect-failure,refused-stream,reset", num_retries: 4, '
        "retry_back_off: { base_interval: 0.1s, max_interval: 1s }, "
        "retry_host_predicate: *elsewhere, host_selection_retry_max_attempts: 3 }",
    )
    return anchors.share(f"read_{timeout_s:g}s", f"{{ cluster: gateway, {bounds}, retry_policy: {retry} }}")


def fill(text: str) -> str:
    """Return the configuration with its generated parts made anew.

    Args:
        text: The whole file.
    """
    descriptors = Descriptors.load()
    routes = compile_routes(descriptors, MessageShapes(descriptors))
    services = client_services(descriptors)
    parts = {
        "generated": edge_routes(routes, services),
        "generated services": transcoded_services(services),
        "generated transcoded routes": transcoded_routes(services),
    }
    for mark, lines in parts.items():
        text = _replace(text, mark, lines)
    return text


def _replace(text: str, mark: str, lines: Iterable[str]) -> str:
    pattern = re.compile(rf"^( *)# {mark}\n.*?^ *# end of {mark}\n", re.DOTALL | re.MULTILINE)
    found = pattern.search(text)
    if found is None:
        raise SystemExit(f"{ENVOY_YAML}: the marks '# {mark}' and '# end of {mark}' are not there")
    indent = found.group(1)
    body = "".join(f"{indent}{line}\n" for line in (f"# {mark}", *lines, f"# end of {mark}"))
    return text[: found.start()] + body + text[found.end() :]


def main() -> int:
    """Write or check; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare with what is there and write nothing")
    arguments = parser.parse_args()
    present = ENVOY_YAML.read_text(encoding="utf-8")
    wanted = fill(present)
    if arguments.check:
        if present != wanted:
            print(f"{ENVOY_YAML} differs from what the descriptors give; run make proto", file=sys.stderr)
        return int(present != wanted)
    if present != wanted:
        ENVOY_YAML.write_text(wanted, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
