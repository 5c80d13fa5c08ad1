"""Path templates and request paths."""

from __future__ import annotations

import pytest

from services.gateway.http_rule import BadTemplate, parse_template, split_path


def test_a_literal_template_matches_itself_only() -> None:
    """Segments are compared whole and in case."""
    template = parse_template("/api/v1/identity")
    assert template.match(["api", "v1", "identity"]) == {}
    for segments in (["api", "v1"], ["api", "v1", "Identity"], ["api", "v1", "identity", ""], ["", "api", "v1"]):
        assert template.match(segments) is None


def test_variables_take_one_segment() -> None:
    """A variable takes exactly one segment that is not empty."""
    template = parse_template("/credentials/{credential_id}/rotate")
    assert template.match(["credentials", "abc", "rotate"]) == {"credential_id": "abc"}
    assert template.match(["credentials", "", "rotate"]) is None
    assert template.match(["credentials", "a", "b", "rotate"]) is None


def test_the_star_form_and_verbs_are_read() -> None:
    """{field=*} is {field}; a verb stands after a colon."""
    assert parse_template("/a/{b=*}") == parse_template("/a/{b}")
    template = parse_template("/jobs/{job}:cancel")
    assert template.verb == "cancel"
    assert template.match(["jobs", "j1"], "cancel") == {"job": "j1"}
    assert template.match(["jobs", "j1"]) is None


@pytest.mark.parametrize(
    "template", ["", "a/b", "/a/{b", "/a/{b=**}", "/a/{b.c}", "/a/{b}/{b}", "/a b", "/{B}", "/a//b"]
)
def test_other_templates_are_refused(template: str) -> None:
    """What cannot be served is found when the routes are compiled."""
    with pytest.raises(BadTemplate):
        parse_template(template)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (b"/a/b", ["a", "b"]),
        (b"/", [""]),
        (b"/a%2Fb/c", ["a/b", "c"]),
        (b"/%C3%A9", ["é"]),
        (b"/a%25", ["a%"]),
        (b"/a/../b", ["a", "..", "b"]),
        (b"*", None),
        (b"", None),
        (b"/a%", None),
        (b"/a%zz", None),
        (b"/%ff", None),
        (b"/\xc3\xa9", None),
    ],
)
def test_paths_are_split_before_they_are_decoded(path: bytes, expected: list[str] | None) -> None:
    """An escaped slash stays inside its segment; dots are not resolved; broken escapes are no path."""
    assert split_path(path) == expected
