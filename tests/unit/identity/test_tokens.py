"""Keys and sessions: exact spelling, keyed verifier."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.domain.errors import Unauthorized
from services.identity.tokens import (
    Token,
    is_verified,
    parse_authorization,
    parse_token,
    token_from_random,
    verifier_of,
)
from tests.unit.identity.builders import KEY

ID = "7d1f7b2e-9c1a-4d55-8d0e-0f3f5a3c9b11"
TEXT = token_from_random(ID, b"\x07" * 32).text

ids = st.uuids().map(str)
secrets = st.binary(min_size=32, max_size=32)


PATTERNS = {
    "company": r"qdb1_[0-9a-f]{32}_[A-Za-z0-9_-]{43}",
    "global": r"qdbg1_[0-9a-f]{32}_[A-Za-z0-9_-]{43}",
    "company_session": r"qdbst1_[0-9a-f]{32}_[0-9a-f]{32}_[A-Za-z0-9_-]{43}",
    "global_session": r"qdbsg1_[0-9a-f]{32}_[0-9a-f]{32}_[A-Za-z0-9_-]{43}",
}
tokens = st.builds(token_from_random, ids, secrets, is_global=st.booleans(), session_id=st.none() | ids)


@given(tokens)
def test_a_token_round_trips_in_the_documented_pattern(token: Token) -> None:
    """What is issued is spelled as documented, and reading it gives the same token, which verifies."""
    assert re.fullmatch(PATTERNS[token.kind], token.text)
    assert parse_token(token.text) == token
    assert is_verified(KEY, token, verifier_of(KEY, token))


@given(tokens, st.data(), st.characters(codec="ascii"))
def test_a_token_with_any_character_changed_does_not_verify(token: Token, data: st.DataObject, character: str) -> None:
    """Each character counts, the spare bits of the last one too."""
    index = data.draw(st.integers(0, len(token.text) - 1))
    verifier = verifier_of(KEY, token)
    changed = token.text[:index] + character + token.text[index + 1 :]
    if changed == token.text:
        return
    try:
        other = parse_token(changed)
    except Unauthorized:
        return
    assert not is_verified(KEY, other, verifier)


@pytest.mark.parametrize(
    "text",
    [
        "",
        TEXT[:-1],
        TEXT + "A",
        TEXT + "\n",
        " " + TEXT,
        TEXT.replace("qdb1", "QDB1"),
        TEXT.replace("qdb1", "qdb2"),
        TEXT.replace("qdb1", "qdbst1"),
        TEXT.replace("7d1f", "7D1F"),
        TEXT[:-1] + "=",
        TEXT[:-1] + "+",
        TEXT[:-1] + "é",
        TEXT[:-1] + "\u0660",
        f"qdb1_{'0' * 32}_{'0' * 32}_{'A' * 43}",
        f"qdbst1_{'0' * 32}_{'0' * 31}_{'A' * 43}",
        f"qdbsg1_{'0' * 32}_{'A' * 43}",
        ID,
    ],
)
def test_another_spelling_is_unauthorized(text: str) -> None:
    """Nothing but the exact spelling of a token is read."""
    with pytest.raises(Unauthorized):
        parse_token(text)


@pytest.mark.parametrize("value", [f"Bearer {TEXT}", f"bearer {TEXT}", f"BEARER {TEXT}"])
def test_the_scheme_is_bearer_in_any_case(value: str) -> None:
    """RFC 9110: schemes are case-insensitive."""
    assert parse_authorization(value).text == TEXT


@pytest.mark.parametrize(
    "value",
    [None, "", "Bearer", "Bearer ", TEXT, f"Basic {TEXT}", f"Bearer  {TEXT}", f"Bearer {TEXT} ", f"Bearer {TEXT}, x"],
)
def test_any_other_authorization_is_unauthorized(value: str | None) -> None:
    """Absent and malformed headers are refused alike."""
    with pytest.raises(Unauthorized):
        parse_authorization(value)


def test_verifiers_depend_on_key_kind_credential_and_secret() -> None:
    """Changing any one of them gives another verifier."""
    token = Token(ID, "A" * 43)
    others = {
        verifier_of(bytes(32), token),
        verifier_of(KEY, Token(ID.replace("7d", "8d"), token.secret)),
        verifier_of(KEY, Token(ID, "B" * 43)),
        verifier_of(KEY, Token(ID, "A" * 43, is_global=True)),
        verifier_of(KEY, Token(ID, "A" * 43, session_id=ID)),
        verifier_of(KEY, Token(ID, "A" * 43, is_global=True, session_id=ID)),
    }
    assert len(others | {verifier_of(KEY, token)}) == 7


def test_representations_hide_the_secret() -> None:
    """A token that lands in a log or a traceback shows no secret."""
    assert "AAAA" not in repr(Token(ID, "A" * 43))


def test_a_secret_of_another_length_is_refused() -> None:
    """256 bits, no fewer."""
    with pytest.raises(ValueError, match="32 bytes"):
        token_from_random(ID, b"short")
