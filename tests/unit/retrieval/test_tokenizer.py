"""What counts as a term."""

from __future__ import annotations

import pytest

from services.domain.errors import InvalidRequest
from services.retrieval.tokenizer import query_terms, split_terms


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("Don't stop: re-enter B2B!", ["don", "t", "stop", "re", "enter", "b2b"]),
        ("snake_case", ["snake", "case"]),
        ("Ünïcode Straße ΣΊΣΥΦΟΣ", ["ünïcode", "straße", "σίσυφος"]),
        # Vowel signs of Devanagari and Thai are Alphabetic: they stay inside the word.
        ("हिन्दी", ["हिन", "दी"]),
        ("½ ² Ⅷ ٣", ["½", "²", "ⅷ", "٣"]),
        # Lower-casing makes a combining dot of this letter; split first, it stays one term.
        ("İstanbul", ["i̇stanbul"]),
        ("東京 タワー", ["東京", "タワー"]),
        ("", []),
    ],
)
def test_terms_are_runs_of_letters_and_numbers(text: str, terms: list[str]) -> None:
    """Everything else separates; each term is lower-cased after the split."""
    assert terms == split_terms(text)


@pytest.mark.parametrize("text", ["!!!", "   ", "\u200b\ufe0f", "👩‍👩‍👧", "—…_"])
def test_a_query_without_a_term_is_refused(text: str) -> None:
    """Case C01: punctuation, blanks and emoji are no query."""
    with pytest.raises(InvalidRequest) as refusal:
        query_terms(text, member="query.text")
    assert refusal.value.member == "query.text"


def test_query_terms_are_distinct_in_order_of_first_occurrence() -> None:
    """Repeats, also in another case, count once."""
    assert query_terms("bee Wax bee wax queen", member="query.text") == ("bee", "wax", "queen")


def test_64_distinct_terms_pass_and_65_are_refused() -> None:
    """The bound is on distinct terms."""
    words = [f"t{number}" for number in range(65)]
    assert len(query_terms(" ".join(words[:64] * 2), member="q")) == 64
    with pytest.raises(InvalidRequest):
        query_terms(" ".join(words), member="q")


def test_the_ascii_path_equals_the_general_one() -> None:
    """Every ASCII character is treated alike by both paths."""
    text = "".join(f"a{chr(code)}B" for code in range(128))
    assert split_terms(text + " é")[:-1] == split_terms(text)
