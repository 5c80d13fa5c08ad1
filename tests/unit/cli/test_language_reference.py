"""The language reference as memories and relations."""

from __future__ import annotations

import pytest

from cli.language_reference import SECTION, TopicReference, commands_from_topics, derive_references, title_of_topic
from services.runtime.validation import validate

TOPICS = {
    "class": "Class definitions\n*****************\n\nSee section Naming and\nbinding for names.",
    "naming": "Naming and binding\n******************\n\nNames; see section Naming and binding above.",
    "other": "Class\n*****\n\nThe section Class definitions says more than sections of cake.",
}


def test_a_mentioned_section_is_a_reference_whatever_its_line_breaks() -> None:
    """Only a title after the word section counts, the longest that fits, and never the topic's own."""
    sections = [reference for reference in derive_references(TOPICS) if reference.rule == SECTION]
    assert [TopicReference(SECTION, "class", "naming"), TopicReference(SECTION, "other", "class")] == sections


def test_every_command_keeps_the_bounds_of_the_contract() -> None:
    """Whatever the interpreter ships is accepted by request validation."""
    topics = pytest.importorskip("pydoc_data.topics", reason="this Python came without its language reference").topics
    texts = {name: str(text).strip() for name, text in topics.items()}
    references = derive_references(texts)
    assert len(references) > len(texts) / 2
    for command in commands_from_topics(texts, references, event_time_millis=0):
        validate(command)


@pytest.mark.parametrize(("text", "title"), [("One\n***\ntext", "One"), ("", "")])
def test_a_title_is_the_first_line(text: str, title: str) -> None:
    """The heading stands first."""
    assert title == title_of_topic(text)
