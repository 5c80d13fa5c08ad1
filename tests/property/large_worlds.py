"""Large, mostly sound worlds from a seed: full pools, four anchors, deep paths, many ties."""

from __future__ import annotations

import random

import numpy as np

from services.domain.embeddings import Binding, EmbeddingReceipt, vector_digest
from services.domain.records import Content, Record, RecordInput, SourceRef
from services.domain.relations import RELATION_KINDS, Provenance, Relation, RelationInput
from services.retrieval.graph_search import GraphQuery
from services.retrieval.profiles import GRAPH_PROFILES, HYBRID_PROFILES
from services.retrieval.seed import HybridSeed, LexicalSeed, Seed, SemanticSeed
from services.retrieval.traversal import Expansion
from tests.property.world_strategies import AUTHOR, DEEP, NOW_MS, record_id, relation_id
from tests.reference.world import World

TEXTS = ("alder", "birch", "alder birch", "birch birch alder", "cedar", "cedar fir", "fir", "oak")


def large_world(seed: int) -> World:
    """100 to 220 records and about twice as many relations; a few hubs take most of them.

    One in twenty records has expired, one in twenty relations names a revision that is gone.
    """
    generator = random.Random(seed)
    world = World(NOW_MS)
    count = generator.randint(100, 220)
    for number in range(count):
        until_ms = NOW_MS if generator.random() < 0.05 else None
        payload = RecordInput("Decision", Content(generator.choice(TEXTS)), NOW_MS - 10, until_ms)
        world.records[record_id(number)] = Record(record_id(number), 1, NOW_MS - 20, NOW_MS - 10, AUTHOR, payload)
        if generator.random() < 0.9:
            vector = np.array([generator.randint(-2, 2), generator.randint(-2, 2), 1], np.float32)
            receipt = EmbeddingReceipt("key", record_id(number), 1, DEEP, vector_digest(vector), AUTHOR, NOW_MS - 9)
            world.bindings[record_id(number), DEEP] = Binding(receipt, vector)
    hubs = generator.sample(range(count), 12)
    for number in range(generator.randint(count, 3 * count)):
        ends = [generator.choice(hubs) if generator.random() < 0.4 else generator.randrange(count) for _ in range(2)]
        if ends[0] == ends[1]:
            continue
        source, target = (SourceRef(record_id(end), 2 if generator.random() < 0.025 else 1) for end in ends)
        stated = RelationInput(
            source,
            target,
            generator.choice(RELATION_KINDS),
            Provenance("tool_observation", "rule", "1", "why"),
        )
        world.relations[relation_id(number)] = Relation(
            relation_id(number), 1, stated, AUTHOR, NOW_MS - 8, NOW_MS - 8, "active"
        )
    return world


def large_query(generator: random.Random) -> GraphQuery:
    """Any seed, profile and direction, default bounds or small ones."""
    vector = np.array([generator.randint(-2, 2), generator.randint(-2, 2), 1], np.float32)
    terms = tuple(generator.sample(("alder", "birch", "cedar", "fir", "oak"), generator.randint(1, 3)))
    seeds: list[Seed] = [
        LexicalSeed(terms),
        SemanticSeed(DEEP, vector, generator.choice((-1.0, 0.5))),
        HybridSeed(terms, DEEP, vector, generator.choice(HYBRID_PROFILES), generator.choice((-1.0, 0.5))),
    ]
    expansion = Expansion(
        generator.choice(("both", "both", "outgoing", "incoming")),
        generator.choice((1, 2, 2, 3, 5, 8)),
        generator.choice((128, 256, 30)),
        generator.choice((256, 1024, 40)),
        generator.choice((1024, 4096, 100)),
    )
    return GraphQuery(
        generator.choice(GRAPH_PROFILES),
        generator.choice(seeds),
        generator.choice((10, 100)),
        expansion=expansion,
    )
