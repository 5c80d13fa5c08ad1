"""Path templates of `google.api.http`: parse and match, pure.

The part of the template language that documented routes use: literal segments, `{field}` and `{field=*}` variables of
one segment each, and a verb after a colon. `**` and nested field paths are refused when the template is parsed.
Source: google/api/http.proto, "Path template syntax".
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import unquote_to_bytes

_LITERAL = re.compile(r"[A-Za-z0-9._~-]+\Z")
_VARIABLE = re.compile(r"\{([a-z][a-z0-9_]*)(?:=\*)?\}\Z")
_VERB = re.compile(r"(.*?)(?::([A-Za-z0-9_-]+))?\Z", re.DOTALL)
_BAD_ESCAPE = re.compile(rb"%(?![0-9A-Fa-f]{2})")


class BadTemplate(ValueError):
    """The template is not one that the gateway can serve. A fault of the protos, found at start."""


@dataclass(frozen=True, slots=True)
class PathTemplate:
    """A parsed template.

    Attributes:
        segments: For each segment its literal text, or None where a variable stands.
        variables: Field names of the variables, in order.
        verb: Text after the colon, empty when there is none.
    """

    segments: tuple[str | None, ...]
    variables: tuple[str, ...]
    verb: str = ""

    def match(self, segments: Sequence[str], verb: str = "") -> dict[str, str] | None:
        """Match decoded path segments.

        Returns:
            Field name -> value of each variable; None when the path is another one. A variable never matches an empty
            segment.
        """
        if verb != self.verb or len(segments) != len(self.segments):
            return None
        values: list[str] = []
        for expected, found in zip(self.segments, segments, strict=True):
            if expected is None:
                if not found:
                    return None
                values.append(found)
            elif expected != found:
                return None
        return dict(zip(self.variables, values, strict=True))


def parse_template(template: str) -> PathTemplate:
    """Parse a template such as "/api/v1/credentials/{credential_id}/rotate".

    Raises:
        BadTemplate: It does not start with a slash, or uses what the gateway does not serve.
    """
    if not template.startswith("/"):
        raise BadTemplate(f"{template!r} does not start with a slash")
    found = _VERB.match(template[1:])
    path, verb = (found.group(1), found.group(2) or "") if found else (template[1:], "")
    segments: list[str | None] = []
    variables: list[str] = []
    for segment in path.split("/"):
        variable = _VARIABLE.match(segment)
        if variable:
            segments.append(None)
            variables.append(variable.group(1))
        elif _LITERAL.match(segment):
            segments.append(segment)
        else:
            raise BadTemplate(f"{template!r}: {segment!r} is not a segment that can be served")
    if len(set(variables)) != len(variables):
        raise BadTemplate(f"{template!r} names a variable twice")
    return PathTemplate(tuple(segments), tuple(variables), verb)


def split_path(raw_path: bytes) -> list[str] | None:
    """Split the path of a request line into segments and decode each, so that "%2F" never makes a new segment.

    Args:
        raw_path: Bytes up to the question mark, for example b"/api/v1/identity".

    Returns:
        The segments after the leading slash; None when the path is not one: no leading slash, a broken escape, bytes
        that are not UTF-8.
    """
    if not raw_path.startswith(b"/"):
        return None
    if b"%" not in raw_path:
        return raw_path[1:].decode("ascii").split("/") if raw_path.isascii() else None
    if _BAD_ESCAPE.search(raw_path):
        return None
    try:
        return [unquote_to_bytes(segment).decode("utf-8") for segment in raw_path[1:].split(b"/")]
    except UnicodeDecodeError:
        return None
