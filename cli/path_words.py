"""Graph paths in words: how a search came from its own hit to a memory that the words alone would not have found.

Pure: documented JSON in, text out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from unicodedata import category

TITLE_LENGTH = 72

# What a step says when it is walked from source to target, and the other way round.
_OUTGOING = {
    "semantic_related": "is related to",
    "same_entity": "is about the same thing as",
    "temporal_before": "came before",
    "causal_claim": "is claimed to have caused",
    "supports": "supports",
    "contradicts": "contradicts",
}
_INCOMING = {
    "semantic_related": "is related to",
    "same_entity": "is about the same thing as",
    "temporal_before": "came after",
    "causal_claim": "is claimed to be an effect of",
    "supports": "is supported by",
    "contradicts": "is contradicted by",
}


def title_of(record: Mapping[str, Any]) -> str:
    """Return the first line of a record's main text, cut to a readable length, safe to show on a terminal."""
    lines = str(record["payload"]["content"]["primary"]).strip().splitlines()
    title = printable(lines[0].strip()) if lines else "(no text)"
    return title if len(title) <= TITLE_LENGTH else title[: TITLE_LENGTH - 1].rstrip() + "\u2026"


def printable(text: str) -> str:
    """Return text without what a terminal would obey: memory text may hold control characters."""
    return "".join("\ufffd" if category(character) == "Cc" else character for character in text)


def date_of(record: Mapping[str, Any]) -> str:
    """Return the day of the remembered event, UTC."""
    moment_s = record["payload"]["event_time_millis"] / 1000
    try:
        return datetime.fromtimestamp(moment_s, UTC).date().isoformat()
    except (OverflowError, ValueError, OSError):
        return "?"


def type_of(record: Mapping[str, Any]) -> str:
    """Return the kind of a record as one word."""
    kind = record["payload"]["episode_type"]
    return kind if isinstance(kind, str) else printable(str(kind["Custom"]))


def base_in_words(base: Mapping[str, Any]) -> str:
    """Say how the base search found a hit, from `hit.base`."""
    retrieval = base["retrieval"]
    match retrieval["mode"]:
        case "lexical":
            return f"found by its words (rank {base['rank']}, BM25 {retrieval['score']:.2f})"
        case "semantic":
            return f"found by its vector (rank {base['rank']}, cosine {retrieval['score']:.3f})"
        case _:
            channels = [
                f"{name} rank {channel['rank']}"
                for name, channel in (("words", retrieval["lexical"]), ("vector", retrieval["semantic"]))
                if channel is not None
            ]
            return f"found by {' and '.join(channels)} (fused rank {base['rank']})"


def step_in_words(step: Mapping[str, Any], relation: Mapping[str, Any], titles: Mapping[str, str]) -> str:
    """Say what one step of a path asserts, and who says so on what evidence."""
    kind = relation["input"]["kind"]
    verbs = _OUTGOING if step["direction"] == "outgoing" else _INCOMING
    provenance = relation["input"]["provenance"]
    start = titles.get(step["from"]["record_id"], step["from"]["record_id"])
    end = titles.get(step["to"]["record_id"], step["to"]["record_id"])
    return (
        f"\u201c{start}\u201d {verbs.get(kind, kind)} \u201c{end}\u201d "
        f"[{provenance['method']} {provenance['method_revision']}: {provenance['evidence_ref']}]"
    )


def hit_in_words(
    hit: Mapping[str, Any], relations: Mapping[str, Mapping[str, Any]], titles: Mapping[str, str]
) -> list[str]:
    """Say in lines why a graph search returned a hit: its base, then each step of its path.

    Args:
        hit: One of `page.hits`.
        relations: The page's relations by id.
        titles: Titles by record id, of the hits and of whatever their paths pass through.
    """
    lines = []
    if hit["base"] is not None:
        lines.append(base_in_words(hit["base"]))
    graph = hit["graph"]
    if graph is not None and graph["steps"]:
        anchor = titles.get(graph["anchor"]["record_id"], graph["anchor"]["record_id"])
        lines.append(f"reached from \u201c{anchor}\u201d, hit {graph['anchor_rank']} of the base search:")
        lines.extend(f"  {step_in_words(step, relations[step['relation_id']], titles)}" for step in graph["steps"])
    if hit["affinity"] is not None:
        lines.append(f"likeness to the query vector: cosine {hit['affinity']['cosine']:.3f}")
    return lines


def cuts_in_words(page: Mapping[str, Any]) -> list[str]:
    """Say what a graph search has not looked at, one entry a cut; nothing when it looked at everything."""
    coverage, expansion = page["coverage"], page["expansion"]
    cuts = []
    if not coverage["source_complete"]:
        cuts.append("memories beyond the limit of the scan")
    if not coverage["candidates_complete"]:
        cuts.append(f"base hits beyond the best {page['ranking']['base_candidate_limit']}")
    reached = {
        "depth_limit": f"paths of more than {expansion['max_depth']} steps",
        "node_limit": f"more than {expansion['node_limit']} memories on paths",
        "edge_limit": f"more than {expansion['edge_limit']} relations",
        "scan_limit": f"more than {expansion['scan_limit']} adjacency entries",
    }
    cuts.extend(reached.get(reason, reason) for reason in page["graph_coverage"]["stop_reasons"])
    if not coverage["embeddings_complete"]:
        cuts.append("memories without a current vector in this space")
    return cuts


def records_on_paths(hits: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the ids of records that paths pass through and that are not hits themselves, each once, in order."""
    known = {hit["record"]["record_id"] for hit in hits}
    ids: dict[str, None] = {}
    for hit in hits:
        graph = hit["graph"]
        if graph is not None:
            for reference in (graph["anchor"], *(step[end] for step in graph["steps"] for end in ("from", "to"))):
                if reference["record_id"] not in known:
                    ids.setdefault(reference["record_id"])
    return list(ids)
