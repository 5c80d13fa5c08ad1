"""Any template and any path: served as the rule says, or refused with the error that says so."""

from __future__ import annotations

import re
from functools import cache
from urllib.parse import quote

from hypothesis import given
from hypothesis import strategies as st

from services.domain.errors import MethodNotAllowed, RouteNotFound
from services.gateway.http_rule import BadTemplate, PathTemplate, parse_template, split_path
from services.gateway.router import Router
from tests.harness.message_caller import documented_routes
from tests.property.mutations import mutate, mutations

METHODS = ("GET", "POST", "DELETE", "HEAD", "get", "")
TEMPLATES = sorted({route.template for route in documented_routes()})

literals = st.from_regex(r"[A-Za-z0-9._~-]{1,8}", fullmatch=True)
names = st.from_regex(r"[a-z][a-z0-9_]{0,5}", fullmatch=True)
segments = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
noise = st.text(st.sampled_from("/{}=*:.%aZ0_- é"), max_size=16)


@cache
def router() -> Router[str]:
    """Of all documented routes; each answers its own template."""
    return Router([(route.method, route.template, route.template) for route in documented_routes()])


def written(template: PathTemplate, values: list[str]) -> bytes:
    """A path as a careful client writes it."""
    left = iter(values)
    parts = [quote(next(left), safe="") if literal is None else literal for literal in template.segments]
    return ("/" + "/".join(parts)).encode("ascii")


@given(template=noise)
def test_any_template_is_parsed_or_refused(template: str) -> None:
    """No other failure; what is parsed has one segment between any two slashes, and names each variable once."""
    try:
        parsed = parse_template(template)
    except BadTemplate:
        return
    assert len(parsed.segments) == template.count("/")
    assert len(parsed.variables) == len(set(parsed.variables)) == parsed.segments.count(None)
    assert None not in [parsed.match([segment or "x" for segment in parsed.segments], parsed.verb)]


@given(parts=st.lists(literals | names.map(lambda name: "{" + name + "}"), min_size=1, max_size=6), data=st.data())
def test_a_template_finds_its_values_again(parts: list[str], data: st.DataObject) -> None:
    """Whatever characters they hold: encoded into a path, split and matched, they come back."""
    try:
        template = parse_template("/" + "/".join(parts))
    except BadTemplate:
        assert len(set(parts)) < len(parts)
        return
    values = [data.draw(segments) for _ in template.variables]
    found = split_path(written(template, values))
    assert found is not None
    assert dict(zip(template.variables, values, strict=True)) == template.match(found)


@given(path=st.binary(max_size=24) | noise.map(str.encode))
def test_any_path_is_split_or_none(path: bytes) -> None:
    """Each slash as it stands parts two segments, and no escape adds one."""
    found = split_path(path)
    if found is not None:
        assert path.startswith(b"/")
        assert len(found) == path.count(b"/")
        assert not re.search(rb"%(?![0-9A-Fa-f]{2})", path)


@given(template=st.sampled_from(TEMPLATES), data=st.data())
def test_every_documented_route_is_found_by_any_values(template: str, data: st.DataObject) -> None:
    """Its own route and no other answers, unless the values spell a route that is documented without variables."""
    parsed = parse_template(template)
    values = [data.draw(segments) for _ in parsed.variables]
    path = written(parsed, values)
    method = next(route.method for route in documented_routes() if route.template == template)
    match = router().find(method, path)
    assert template == match.target
    assert dict(zip(parsed.variables, values, strict=True)) == match.path_values


@given(method=st.sampled_from(METHODS), template=st.sampled_from(TEMPLATES), data=st.data())
def test_any_request_line_is_routed_or_refused(method: str, template: str, data: st.DataObject) -> None:
    """A mutated path answers 404 or 405 and nothing else, or leads to a route that it matches."""
    path = data.draw(mutations.map(lambda changes: mutate(template.encode(), changes)) | st.binary(max_size=40))
    try:
        match = router().find(method, path)
    except (RouteNotFound, MethodNotAllowed):
        return
    found = split_path(path)
    assert found is not None
    assert match.path_values == parse_template(match.target).match(found)
