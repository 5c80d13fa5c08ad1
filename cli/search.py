"""`waggle search`: the four searches, readable or as JSON."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer

from cli.connection import (
    DEFAULT_AGENT,
    DEFAULT_PROJECT,
    DEFAULT_URL,
    AgentOption,
    Gateway,
    JsonOption,
    KeyOption,
    MissionOption,
    ProjectOption,
    Session,
    UrlOption,
    Visibility,
    VisibilityOption,
    scope_json,
)
from cli.console import fail, out, print_json, print_table
from cli.path_words import cuts_in_words, date_of, hit_in_words, records_on_paths, title_of, type_of

app = typer.Typer(no_args_is_help=True, help="Search memory through the gateway.")

TextArgument = Annotated[str, typer.Argument(metavar="TEXT", help="Words to look for.")]
LimitOption = Annotated[int, typer.Option("--limit", "-n", min=1, max=100, help="Greatest number of hits.")]
TagOption = Annotated[str | None, typer.Option(help="Only records with exactly this tag.")]
AfterOption = Annotated[
    str | None,
    typer.Option(metavar="ID", help="Go on behind this memory; a search that examined a part only says from where."),
]
VectorOption = Annotated[
    Path | None, typer.Option("--vector", help="File with the query vector, a JSON array of numbers; - reads stdin.")
]
ProviderOption = Annotated[str, typer.Option(envvar="WAGGLE_SPACE_PROVIDER", help="Provider of the vector's space.")]
ModelOption = Annotated[str, typer.Option(envvar="WAGGLE_SPACE_MODEL", help="Model of the vector's space.")]
RevisionOption = Annotated[
    str, typer.Option("--space-revision", envvar="WAGGLE_SPACE_REVISION", help="Revision of the vector's space.")
]


class SeedMode(StrEnum):
    """How a graph search finds its base."""

    LEXICAL = "lexical"
    SEMANTIC = "semantic"
    HYBRID = "hybrid"


class Direction(StrEnum):
    """Which way relations are walked."""

    OUTGOING = "outgoing"
    INCOMING = "incoming"
    BOTH = "both"


@app.command()
def lexical(
    text: TextArgument,
    limit: LimitOption = 10,
    tag: TagOption = None,
    after: AfterOption = None,
    url: UrlOption = DEFAULT_URL,
    key: KeyOption = "",
    project: ProjectOption = DEFAULT_PROJECT,
    agent: AgentOption = DEFAULT_AGENT,
    mission: MissionOption = "",
    visibility: VisibilityOption = Visibility.SHARED,
    as_json: JsonOption = False,
) -> None:
    """Search by words (BM25)."""
    body = {
        "scope": scope_json(project, agent, mission, visibility),
        "mode": "lexical",
        "query": _without_none(text=text, limit=limit, tag=tag, after=after),
    }
    with Session(url, key) as gateway:
        answer = gateway.post("/api/v1/memory/search/lexical", body)
    _print_page(answer, as_json)


@app.command()
def semantic(
    vector: VectorOption = None,
    limit: LimitOption = 10,
    min_score: Annotated[float, typer.Option(min=-1, max=1, help="Least cosine of a hit.")] = -1.0,
    tag: TagOption = None,
    after: AfterOption = None,
    provider: ProviderOption = "",
    model: ModelOption = "",
    space_revision: RevisionOption = "1",
    url: UrlOption = DEFAULT_URL,
    key: KeyOption = "",
    project: ProjectOption = DEFAULT_PROJECT,
    agent: AgentOption = DEFAULT_AGENT,
    mission: MissionOption = "",
    visibility: VisibilityOption = Visibility.SHARED,
    as_json: JsonOption = False,
) -> None:
    """Search by a vector (exact cosine)."""
    body = {
        "scope": scope_json(project, agent, mission, visibility),
        "query": {
            **_vector_members(vector, provider, model, space_revision),
            **_without_none(limit=limit, min_score=min_score, tag=tag, after=after),
        },
    }
    with Session(url, key) as gateway:
        answer = gateway.post("/api/v1/memory/search", body)
    _print_page(answer, as_json, space=body["query"]["space"])


@app.command()
def hybrid(
    text: TextArgument,
    vector: VectorOption = None,
    limit: LimitOption = 10,
    ranking: Annotated[str, typer.Option(help="weighted_rrf_v1 or weighted_rrf_v2.")] = "weighted_rrf_v2",
    tag: TagOption = None,
    after: AfterOption = None,
    provider: ProviderOption = "",
    model: ModelOption = "",
    space_revision: RevisionOption = "1",
    url: UrlOption = DEFAULT_URL,
    key: KeyOption = "",
    project: ProjectOption = DEFAULT_PROJECT,
    agent: AgentOption = DEFAULT_AGENT,
    mission: MissionOption = "",
    visibility: VisibilityOption = Visibility.SHARED,
    as_json: JsonOption = False,
) -> None:
    """Search by words and a vector, fused by rank."""
    body = {
        "scope": scope_json(project, agent, mission, visibility),
        "mode": "hybrid",
        "query": {
            **_vector_members(vector, provider, model, space_revision),
            **_without_none(text=text, limit=limit, ranking_version=ranking, tag=tag, after=after),
        },
    }
    with Session(url, key) as gateway:
        answer = gateway.post("/api/v1/memory/search/hybrid", body)
    _print_page(answer, as_json)


@app.command()
def graph(
    text: Annotated[str, typer.Argument(metavar="TEXT", help="Words to look for; not used by --mode semantic.")] = "",
    mode: Annotated[SeedMode, typer.Option(help="How the base search finds its hits.")] = SeedMode.LEXICAL,
    profile: Annotated[str, typer.Option(help="How relations count.")] = "typed_path_balanced_v1",
    seed_ranking: Annotated[str, typer.Option(help="Fusion of a hybrid base search.")] = "weighted_rrf_v2",
    depth: Annotated[int, typer.Option(min=0, max=8, help="Greatest number of steps from a base hit.")] = 2,
    direction: Annotated[Direction, typer.Option(help="Which way relations are walked.")] = Direction.BOTH,
    limit: LimitOption = 10,
    tag: TagOption = None,
    vector: VectorOption = None,
    provider: ProviderOption = "",
    model: ModelOption = "",
    space_revision: RevisionOption = "1",
    url: UrlOption = DEFAULT_URL,
    key: KeyOption = "",
    project: ProjectOption = DEFAULT_PROJECT,
    agent: AgentOption = DEFAULT_AGENT,
    mission: MissionOption = "",
    visibility: VisibilityOption = Visibility.SHARED,
    as_json: JsonOption = False,
) -> None:
    """Search, follow typed relations from the best hits, and show the path to each memory."""
    seed: dict[str, Any] = {"mode": mode.value}
    if mode is not SeedMode.SEMANTIC:
        seed["text"] = text
    if mode is not SeedMode.LEXICAL:
        seed.update(_vector_members(vector, provider, model, space_revision))
    if mode is SeedMode.HYBRID:
        seed["ranking_version"] = seed_ranking
    scope = scope_json(project, agent, mission, visibility)
    body = {
        "scope": scope,
        "query": {
            "ranking_version": profile,
            "seed": seed,
            "expansion": expansion_json(direction.value, depth),
            **_without_none(limit=limit, tag=tag),
        },
    }
    with Session(url, key) as gateway:
        answer = gateway.post("/api/v1/memory/search/graph", body)
        titles = {} if as_json else titles_for(gateway, scope, answer)
    if as_json:
        print_json(answer)
    else:
        print_graph_page(answer, titles)


def expansion_json(direction: str, depth: int) -> dict[str, Any]:
    """Return the documented `expansion` with a direction, a depth and the default limits."""
    return {
        "direction": direction,
        "max_depth": depth,
        "node_limit": 128,
        "edge_limit": 256,
        "scan_limit": 1024,
        "embedding_bytes_limit": 8_388_608,
    }


def titles_for(gateway: Gateway, scope: dict[str, Any], answer: dict[str, Any]) -> dict[str, str]:
    """Return titles by record id for a graph answer: its hits, and what their paths pass through, read in one batch."""
    hits = answer["page"]["hits"]
    titles = {hit["record"]["record_id"]: title_of(hit["record"]) for hit in hits}
    others = records_on_paths(hits)
    for start in range(0, len(others), 100):
        batch = gateway.post(
            "/api/v1/memory/records/batch", {"scope": scope, "record_ids": others[start : start + 100]}
        )
        for entry in batch["batch"]["entries"]:
            if entry["record"] is not None:
                titles[entry["record_id"]] = title_of(entry["record"])
    return titles


def print_graph_page(answer: dict[str, Any], titles: dict[str, str]) -> None:
    """Print the hits of a graph answer, each with its path in words."""
    page = answer["page"]
    relations = {relation["relation_id"]: relation for relation in page["relations"]}
    if not page["hits"]:
        out.print("No memory found.")
    for rank, hit in enumerate(page["hits"], start=1):
        record = hit["record"]
        out.print(f"{rank:>3}. {title_of(record)}", style="bold", markup=False)
        out.print(f"     {date_of(record)}  {type_of(record)}  score {hit['score']:.4f}", style="dim", markup=False)
        for line in hit_in_words(hit, relations, titles):
            out.print(f"     {line}", markup=False)
    if cuts := cuts_in_words(page):
        out.print(f"Not looked at: {'; '.join(cuts)}.", style="dim", markup=False)


def _print_page(answer: dict[str, Any], as_json: bool, *, space: dict[str, Any] | None = None) -> None:
    if as_json:
        print_json(answer)
        return
    page = answer["page"]
    hits = page["hits"]
    if hits:
        rows = [
            (
                str(rank),
                f"{hit['score']:.4f}",
                date_of(hit["record"]),
                type_of(hit["record"]),
                title_of(hit["record"]),
                hit["record"]["record_id"],
            )
            for rank, hit in enumerate(hits, start=1)
        ]
        print_table(("#", "score", "when", "kind", "memory", "record"), rows)
    else:
        out.print("No memory found.")
    if page["next_after"] is not None:
        out.print(
            f"{page['scanned_records']:,} memories were examined, and there are more: narrow the search with --tag, "
            f"or go on with --after {page['next_after']}",
            style="dim",
            markup=False,
            soft_wrap=True,
        )
    elif page["exhaustive"] and space is not None and not hits and page["scanned_embeddings"] == 0:
        name = f"{space['provider']}/{space['model']}/{space['revision']}, {space['dimensions']} dimensions"
        out.print(f"No memory in this scope has a vector in the space {name}.", style="dim", markup=False)


def _vector_members(path: Path | None, provider: str, model: str, revision: str) -> dict[str, Any]:
    if path is None:
        fail("this search needs --vector FILE", 2)
    if not provider or not model:
        fail("this search needs --provider and --model, as they were declared when vectors were attached", 2)
    try:
        vector = orjson.loads(sys.stdin.buffer.read() if str(path) == "-" else path.read_bytes())
    except (OSError, ValueError) as error:
        fail(f"cannot read a vector from {path}: {error}", 2)
    if not isinstance(vector, list):
        fail(f"{path} does not hold a JSON array of numbers", 2)
    space = {"provider": provider, "model": model, "revision": revision, "dimensions": len(vector)}
    return {"space": space, "vector": vector}


def _without_none(**members: Any) -> dict[str, Any]:
    return {name: value for name, value in members.items() if value is not None}
