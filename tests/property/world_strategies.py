"""Generated worlds: small partitions in which everything that can be odd about a record or a relation happens often."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from services.domain.embeddings import Binding, EmbeddingReceipt, Float32Vector, Space, vector_digest
from services.domain.records import Author, Content, Derivation, Record, RecordInput, Review, SourceRef
from services.domain.relations import RELATION_KINDS, Model, Provenance, Relation, RelationInput
from services.retrieval.graph_search import GraphQuery
from services.retrieval.profiles import GRAPH_PROFILES, HYBRID_PROFILES
from services.retrieval.seed import HybridSeed, LexicalSeed, Seed, SemanticSeed
from services.retrieval.traversal import Expansion
from services.retrieval.view import Filter
from tests.reference.world import World

NOW_MS = 1_700_000_000_000
AUTHOR = Author("00000000-0000-4000-8000-00000000000a", "subject")
WORDS = ("alder", "birch", "alder birch", "Birch", "cedar cedar", "été", "!!!", "")
FLAT = Space("local", "flat", "1", 2)
DEEP = Space("local", "deep", "1", 3)
SPACES = (FLAT, DEEP)
TYPES: tuple[Any, ...] = ("Decision", "Observation", {"Custom": "note"})

# Sums of two products are rounded once whatever the order, and sums of small integers not at all: cosines are exact.
ODD_VECTORS = ((1e-45, 0.0), (1e-30, 1e-30), (3e38, 3e38), (-0.0, 2.0), (0.1, 0.3), (-0.3, 0.1), (0.25, -0.5))
SMALL_VECTORS = {
    dimensions: st.tuples(*[st.integers(-2, 2)] * dimensions).filter(any) for dimensions in (FLAT.dimensions, 3)
}


def record_id(number: int) -> str:
    """Ids whose order has nothing to do with their numbers."""
    digits = f"{(number * 0x9E3779B97F4A7C15F39CC0605CEDC835 + 7) % 2**128:032x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def relation_id(number: int) -> str:
    """As `record_id`, apart from records."""
    return record_id(number + 1000)


@st.composite
def vectors(draw: st.DrawFn, space: Space) -> Float32Vector:
    """A vector that may be bound."""
    if space is FLAT and draw(st.booleans()):
        return np.array(draw(st.sampled_from(ODD_VECTORS)), np.float32)
    return np.array(draw(SMALL_VECTORS[space.dimensions]), np.float32)


def _odds(for_it: int) -> st.SearchStrategy[bool]:
    """True mostly: so many to one."""
    return st.sampled_from((True,) * for_it + (False,))


def _reviews() -> st.SearchStrategy[Review | None]:
    dispositions = st.sampled_from((None,) * 20 + ("approved", "unreviewed", "rejected"))
    return dispositions.map(lambda word: None if word is None else Review(word, "why", AUTHOR, NOW_MS - 5))


MIXED_STYLES = ("plain",) * 7 + ("derived", "derived", "chain", "tangle")
DERIVED_STYLES = ("derived", "derived", "chain", "chain", "tangle")


@st.composite
def worlds(draw: st.DrawFn, styles: tuple[str, ...] = MIXED_STYLES) -> World:
    """A partition of up to 14 records, with what may hang on them."""
    world = World(NOW_MS)
    style = draw(st.sampled_from(styles))
    count = draw(st.sampled_from((11, 12) if style == "chain" else (8, 10, 12, 14, 5, 3, 2, 1)))
    revisions = [draw(st.sampled_from((1, 1, 1, 2, 3))) for _ in range(count)]
    for number in range(count):
        derivation = draw(_derivations(style, number, revisions))
        record = draw(_records(number, revisions[number], derivation, is_plain=style == "chain"))
        world.records[record.record_id] = record
    for record in world.records.values():
        for space in SPACES:
            binding = draw(_bindings(record, space))
            if binding is not None:
                world.bindings[record.record_id, space] = binding
    if count > 1 and styles is MIXED_STYLES:
        for relation in draw(_relations(revisions)):
            world.relations[relation.relation_id] = relation
    return world


@st.composite
def _records(draw: st.DrawFn, number: int, revision: int, derivation: Derivation | None, *, is_plain: bool) -> Record:
    texts = st.sampled_from(WORDS)
    expiries = (None,) * 27 + (NOW_MS - 1, NOW_MS, NOW_MS + 1)
    payload = None
    if is_plain or draw(_odds(19)):
        payload = RecordInput(
            draw(st.sampled_from(TYPES)),
            Content(draw(texts), draw(st.none() | texts), draw(st.none() | texts), data={"alder": 1}),
            NOW_MS - 10,
            None if is_plain else draw(st.sampled_from(expiries)),
            draw(st.sampled_from(((), ("red",), ("red", "blue")))),
        )
    review = None if payload is None or is_plain else draw(_reviews())
    return Record(record_id(number), revision, NOW_MS - 20, NOW_MS - 10, AUTHOR, payload, review, derivation)


@st.composite
def _derivations(draw: st.DrawFn, style: str, number: int, revisions: list[int]) -> Derivation | None:
    """Chains go one deeper with each record; tangles may run in circles, name what is not there or an old revision."""
    if style == "chain":
        sources = [number - 1] if number and draw(_odds(15)) else []
    elif style == "tangle":
        sources = draw(st.lists(st.integers(0, len(revisions)), max_size=3, unique=True))
    elif style == "derived" and number:
        sources = draw(st.lists(st.integers(0, number - 1), max_size=3, unique=True))
    else:
        sources = []
    if not sources:
        return None
    refs = []
    for source in sources:
        is_known = source < len(revisions)
        offset = 0 if draw(_odds(15)) else 1
        refs.append(SourceRef(record_id(source), (revisions[source] if is_known else 1) + offset))
    return Derivation(tuple(refs), "summary", "1", "why")


@st.composite
def _bindings(draw: st.DrawFn, record: Record, space: Space) -> Binding | None:
    age = draw(st.sampled_from((None, 0, 0, 0, 1)))
    if age is None or record.revision - age < 1:
        return None
    vector = draw(vectors(space))
    receipt = EmbeddingReceipt(
        "key", record.record_id, record.revision - age, space, vector_digest(vector), AUTHOR, NOW_MS - 9
    )
    return Binding(receipt, vector)


@st.composite
def _relations(draw: st.DrawFn, revisions: list[int]) -> list[Relation]:
    """Sound ones mostly; parallel, reversed, outside their interval, retired, rejected, stale, on bad evidence."""
    relations: list[Relation] = []
    numbers = st.integers(0, len(revisions) - 1)
    for number in range(draw(st.sampled_from((16, 24, 30, 20, 8, 0)))):
        way = draw(st.sampled_from(("new", "new", "new", "parallel", "reversed")))
        if relations and way != "new":
            model = draw(st.sampled_from(relations)).input
            source, target = (model.source, model.target) if way == "parallel" else (model.target, model.source)
            kind = model.kind
        else:
            first = draw(numbers)
            second = draw(numbers.filter(lambda value, first=first: value != first))
            source, target = (SourceRef(record_id(end), draw(_near(revisions[end]))) for end in (first, second))
            kind = draw(st.sampled_from(RELATION_KINDS))
        ends = (source.record_id, target.record_id)
        evidence = [
            SourceRef(record_id(end), draw(_near(revisions[end] if end < len(revisions) else 1)))
            for end in draw(st.lists(st.integers(0, len(revisions)), max_size=2, unique=True))
            if record_id(end) not in ends and not draw(_odds(5))
        ]
        interval = draw(st.sampled_from(INTERVALS))
        relations.append(
            Relation(
                relation_id(number),
                draw(st.sampled_from((1, 2))),
                RelationInput(
                    source,
                    target,
                    kind,
                    Provenance("model_inference", "rule", "1", "why", Model("local", "model", "1")),
                    *interval,
                    tuple(evidence),
                ),
                AUTHOR,
                NOW_MS - 8,
                NOW_MS - 7,
                draw(st.sampled_from(("active",) * 19 + ("retired",))),
                draw(_reviews()),
            )
        )
    return relations


INTERVALS = (
    *((None, None),) * 20,
    (NOW_MS, None),
    (NOW_MS + 1, None),
    (None, NOW_MS),
    (None, NOW_MS + 1),
    (NOW_MS - 1, NOW_MS + 1),
)


def _near(revision: int) -> st.SearchStrategy[int]:
    """The revision itself mostly."""
    return st.sampled_from((revision,) * 15 + (revision + 1,))


def seeds() -> st.SearchStrategy[Seed]:
    """All three modes."""
    terms = st.lists(
        st.sampled_from(("alder", "birch", "cedar", "été", "none")), min_size=1, max_size=3, unique=True
    ).map(tuple)
    floors = st.sampled_from((-1.0, -1.0, 0.0, 0.6, 1.0))
    spaced = st.sampled_from(SPACES).flatmap(lambda space: st.tuples(st.just(space), vectors(space)))
    return st.one_of(
        terms.map(LexicalSeed),
        st.tuples(spaced, floors).map(lambda parts: SemanticSeed(*parts[0], parts[1])),
        st.tuples(terms, spaced, st.sampled_from(HYBRID_PROFILES), floors).map(
            lambda parts: HybridSeed(parts[0], *parts[1], parts[2], parts[3])
        ),
    )


def filters() -> st.SearchStrategy[Filter]:
    """Open mostly."""
    return st.builds(
        Filter,
        st.sampled_from((None,) * 8 + ('"Decision"', '{"Custom":"note"}')),
        st.sampled_from((None,) * 8 + ("red", "blue")),
    )


def expansions() -> st.SearchStrategy[Expansion]:
    """Bounds that cut small worlds, and bounds that do not."""
    return st.builds(
        Expansion,
        st.sampled_from(("both", "both", "outgoing", "incoming")),
        st.sampled_from((2, 3, 4, 8, 2, 1, 0, 5, 6, 7)),
        st.sampled_from((256, 256, 256, 256, 256, 6, 3, 1)),
        st.sampled_from((1024, 1024, 1024, 1024, 4, 1)),
        st.sampled_from((4096, 4096, 4096, 4096, 4096, 12, 5, 1)),
    )


def graph_queries() -> st.SearchStrategy[GraphQuery]:
    """All seeds, profiles, bounds and filters."""
    return st.builds(
        GraphQuery,
        st.sampled_from(GRAPH_PROFILES),
        seeds(),
        st.sampled_from((100, 100, 100, 100, 3, 1)),
        st.sampled_from((10_000, 10_000, 10_000, 10_000, 5, 1)),
        st.sampled_from((8 * 2**20,) * 8 + (5000, 1200, 300)),
        expansions(),
        st.sampled_from((8 * 2**20,) * 6 + (1500, 400)),
        filters(),
    )
