"""The tokenizer of `bm25_v1`: maximal runs of alphanumeric characters, each lower-cased. No stemming, no stop words.

Alphanumeric means Unicode Alphabetic or general category N, so that vowel signs and points stay inside words. The text
is split first and each term lower-cased after, so no character that lower-casing makes can split a term.
"""

from __future__ import annotations

import regex

from services.domain.errors import InvalidRequest

QUERY_TERMS_MAX = 64

_TERM = regex.compile(r"[\p{Alphabetic}\p{N}]+")
# ASCII text, the common case, needs no regular expression: lower-casing it moves no boundary.
_ASCII_BREAKS = {code: " " for code in range(128) if not chr(code).isalnum()}


def split_terms(text: str) -> list[str]:
    """All terms of a text in order, repeats included."""
    if text.isascii():
        return text.lower().translate(_ASCII_BREAKS).split()
    return [term.lower() for term in _TERM.findall(text)]


def query_terms(text: str, *, member: str) -> tuple[str, ...]:
    """The distinct terms of a query in order of first occurrence.

    Args:
        text: The query; its byte bound is checked before.
        member: Path of the request member, for the error.

    Raises:
        InvalidRequest: No term, or more than 64 distinct ones.
    """
    terms = tuple(dict.fromkeys(split_terms(text)))
    if not terms:
        raise InvalidRequest("must hold at least one letter or digit", member=member)
    if len(terms) > QUERY_TERMS_MAX:
        raise InvalidRequest(f"must have at most {QUERY_TERMS_MAX} distinct terms", member=member)
    return terms
