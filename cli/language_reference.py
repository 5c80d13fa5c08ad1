"""The language reference that ships with the Python interpreter, as memories and relations.

For a machine without a git history to look at. One memory a topic; relations only where the documentation itself refers
from one topic to another:

* `pydoc_related`: the help system lists the target as a related topic of the source;
* `pydoc_section`: the source's text says "see section" or "section" and the target's title.
"""

from __future__ import annotations

import pydoc
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from waggle.common.v1 import records_pb2, relations_pb2
from waggle.memory.v1 import commands_pb2, import_service_pb2

RULES_REVISION: Final = "1"
RELATED: Final = "pydoc_related"
SECTION: Final = "pydoc_section"

TEXT_BYTES_MAX = 24 * 1024
# The topics carry no dates; this says so more plainly than an invented one.
EVENT_TIME_MILLIS = 0


@dataclass(frozen=True, slots=True)
class TopicReference:
    """One topic refers to another.

    Attributes:
        rule: One of the rules above.
        source, target: Names of topics.
    """

    rule: str
    source: str
    target: str


def read_topics() -> dict[str, str]:
    """Return the topics of this interpreter, name to text, in the order of their names.

    Raises:
        ImportError: The interpreter was installed without them.
    """
    from pydoc_data.topics import topics

    return {name: str(topics[name]).strip() for name in sorted(topics)}


def title_of_topic(text: str) -> str:
    """Return the heading, which is the first line."""
    return text.splitlines()[0].strip() if text else ""


def derive_references(topics: Mapping[str, str]) -> list[TopicReference]:
    """Apply both rules; each pair of topics is related at most once by each."""
    found: dict[TopicReference, None] = {}
    for source, target in _related(topics):
        found.setdefault(TopicReference(RELATED, source, target))
    titles = {title_of_topic(text): name for name, text in topics.items()}
    # Longest first, so that "Class definitions" is not found inside a longer title.
    alternatives = "|".join(re.escape(title) for title in sorted(titles, key=len, reverse=True) if title)
    mention = re.compile(rf"\b[Ss]ections? \*?({alternatives})\b") if alternatives else None
    for source, text in topics.items():
        for match in mention.finditer(" ".join(text.split())) if mention else ():
            if titles[match.group(1)] != source:
                found.setdefault(TopicReference(SECTION, source, titles[match.group(1)]))
    return list(found)


def _related(topics: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    table: Mapping[str, str | tuple[str, ...]] = pydoc.Helper.topics
    for entry in table.values():
        if isinstance(entry, tuple) and entry[0] in topics:
            for word in entry[1].split():
                other = table.get(word)
                target = other[0] if isinstance(other, tuple) else None
                if target in topics and target is not None and target != entry[0]:
                    yield entry[0], target


def topic_key(name: str) -> str:
    """Return the idempotency key of the memory of a topic."""
    return f"pydoc/{RULES_REVISION}/topic/{name}"


def commands_from_topics(
    topics: Mapping[str, str], references: list[TopicReference]
) -> Iterator[import_service_pb2.ImportCommand]:
    """Yield the commands: all memories first, then the relations between them."""
    for name, text in topics.items():
        record = records_pb2.RecordInput(
            episode_type=records_pb2.EpisodeType(custom="reference_topic"),
            content=records_pb2.EpisodeContent(
                primary=text.encode("utf-8")[:TEXT_BYTES_MAX].decode("utf-8", "ignore"), secondary=f"Topic {name}"
            ),
            event_time_millis=EVENT_TIME_MILLIS,
            tags=["python", "language-reference"],
        )
        yield import_service_pb2.ImportCommand(
            idempotency_key=topic_key(name), create_record=commands_pb2.CreateRecord(record=record)
        )
    for reference in references:
        yield import_service_pb2.ImportCommand(
            idempotency_key=f"pydoc/{RULES_REVISION}/{reference.rule}/{reference.source}/{reference.target}",
            assert_relation=import_service_pb2.ImportAssertion(
                source=import_service_pb2.ImportRef(created_by=topic_key(reference.source)),
                target=import_service_pb2.ImportRef(created_by=topic_key(reference.target)),
                kind=relations_pb2.RELATION_KIND_SEMANTIC_RELATED,
                provenance=relations_pb2.RelationProvenance(
                    origin=relations_pb2.RELATION_ORIGIN_IMPORTED_ASSERTION,
                    method=reference.rule,
                    method_revision=RULES_REVISION,
                    evidence_ref=f"pydoc:{reference.source}",
                ),
            ),
        )
