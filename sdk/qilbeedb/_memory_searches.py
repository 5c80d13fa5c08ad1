"""The four searches and the profiles that rank them."""

from __future__ import annotations

from typing import Any, Optional, Sequence

from qilbeedb._checks import Check
from qilbeedb._errors import refuse
from qilbeedb._graph_pages import graph_page
from qilbeedb._identities import normalize_scope
from qilbeedb._memory_routes import MemoryRoutes
from qilbeedb._search_pages import (
    CATALOG,
    GRAPH_CATALOG,
    HYBRID_PAGE,
    LEXICAL_PAGE,
    SEMANTIC_PAGE,
    scored_answer,
)
from qilbeedb._session import REQUEST_BYTES_MAX, VECTOR_REQUEST_BYTES_MAX
from qilbeedb._strict_json import JsonObject

_LEXICAL = scored_answer("lexical", LEXICAL_PAGE)
_HYBRID = scored_answer("hybrid", HYBRID_PAGE)


class SearchRoutes(MemoryRoutes):
    """Searches in one scope. Each returns the documented `page`."""

    def search_semantic(
        self, space: JsonObject, vector: Sequence[float], *, limit: int = 10, **query: Any
    ) -> JsonObject:
        """Search by a vector: exact cosine to the vectors of that space.

        Args:
            space: Provider, model, revision and dimensions.
            vector: The query vector.
            limit: Most hits, 1 to 100.
            **query: `min_score`, `after`, `scan_limit`, `episode_type`, `tag`.
        """
        members = {"query": {"space": space, "vector": list(vector), "limit": limit, **query}}
        page: JsonObject = self._read("/api/v1/memory/search", members, "page", bytes_max=VECTOR_REQUEST_BYTES_MAX)
        SEMANTIC_PAGE(page)
        return _bounded(page, limit)

    def search_lexical(self, text: str, *, limit: int = 10, **query: Any) -> JsonObject:
        """Search by words (BM25).

        Args:
            text: At most 64 distinct words.
            limit: Most hits, 1 to 100.
            **query: `scan_limit`, `scan_bytes_limit`, `after`, `episode_type`, `tag`.
        """
        members = {"mode": "lexical", "query": {"text": text, "limit": limit, **query}}
        return _bounded(self._scored("/api/v1/memory/search/lexical", members, _LEXICAL, REQUEST_BYTES_MAX), limit)

    def search_hybrid(
        self,
        text: str,
        space: JsonObject,
        vector: Sequence[float],
        *,
        ranking_version: str,
        limit: int = 10,
        **query: Any,
    ) -> JsonObject:
        """Search by words and a vector, fused by rank.

        Args:
            text: At most 64 distinct words.
            space: Provider, model, revision and dimensions.
            vector: The query vector.
            ranking_version: `weighted_rrf_v1` or `weighted_rrf_v2`.
            limit: Most hits, 1 to 100.
            **query: `min_score` and what the lexical search takes.
        """
        own = {"text": text, "space": space, "vector": list(vector), "ranking_version": ranking_version}
        members = {"mode": "hybrid", "query": {**own, "limit": limit, **query}}
        path = "/api/v1/memory/search/hybrid"
        return _bounded(self._scored(path, members, _HYBRID, VECTOR_REQUEST_BYTES_MAX), limit)

    def search_graph(
        self,
        seed: JsonObject,
        *,
        ranking_version: str = "typed_path_balanced_v1",
        limit: int = 10,
        expansion: Optional[JsonObject] = None,
        **query: Any,
    ) -> JsonObject:
        """Search, and follow typed relations from the best hits; each hit says how it was found.

        Args:
            seed: The documented base search, with its `mode`.
            ranking_version: How relations count.
            limit: Most hits, 1 to 100.
            expansion: Limits of the walk; all six members, or none for the defaults.
            **query: `scan_limit`, `scan_bytes_limit`, `episode_type`, `tag`.
        """
        own: JsonObject = {"ranking_version": ranking_version, "seed": seed, "limit": limit, **query}
        if expansion is not None:
            own["expansion"] = expansion
        page: JsonObject = self._read(
            "/api/v1/memory/search/graph", {"query": own}, "page", bytes_max=VECTOR_REQUEST_BYTES_MAX
        )
        graph_page(page)
        if page["ranking"]["version"] != ranking_version:
            refuse()
        return _bounded(page, limit)

    def ranking_profiles(self) -> JsonObject:
        """Return the catalog of component versions, hybrid profiles and limits of the server."""
        return self._catalog("/api/v1/memory/ranking-profiles", CATALOG)

    def graph_ranking_profiles(self) -> JsonObject:
        """Return the profiles of graph search and the limits of the server."""
        return self._catalog("/api/v1/memory/graph-ranking-profiles", GRAPH_CATALOG)

    def _catalog(self, path: str, check: Check) -> JsonObject:
        with self._session.operation():
            answer: JsonObject = self._repeat(lambda: self._session.request("GET", path, None))
        check(answer)
        return answer

    def _scored(self, path: str, members: JsonObject, check: Check, bytes_max: int) -> JsonObject:
        body = self._session.encode(members, bytes_max)
        with self._session.operation():
            answer: JsonObject = self._repeat(lambda: self._session.request("POST", path, body))
        check(answer)
        if normalize_scope(answer["scope"]) != self._session.scope:
            refuse()
        page: JsonObject = answer["page"]
        return page


def _bounded(page: JsonObject, limit: int) -> JsonObject:
    if len(page["hits"]) > limit:
        refuse()
    return page
