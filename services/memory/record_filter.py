"""Content filters of the direct reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from services.domain.records import EpisodeType


@dataclass(frozen=True, slots=True)
class RecordFilter:
    """All that are not None must hold.

    Attributes:
        text_contains: Must be part of primary, secondary or context, each by itself, whatever the case of its letters.
        episode_type: Exact.
        tag: Exact.
    """

    text_contains: str | None = None
    episode_type: EpisodeType | None = None
    tag: str | None = None
    _folded: str | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        folded = None if self.text_contains is None else self.text_contains.casefold()
        object.__setattr__(self, "_folded", folded)

    def as_json(self) -> dict[str, Any]:
        """The filters as cursors are bound to them."""
        return {"text_contains": self.text_contains, "episode_type": self.episode_type, "tag": self.tag}

    @property
    def is_open(self) -> bool:
        """Nothing is asked for."""
        return self.text_contains is None and self.episode_type is None and self.tag is None

    def matches_retained(self, payload: Mapping[str, Any] | None) -> bool:
        """`matches` for those who see tombstones: one passes when nothing is asked for."""
        return self.is_open or self.matches(payload)

    def matches(self, payload: Mapping[str, Any] | None) -> bool:
        """Whether a stored payload passes. A tombstone's, None, has nothing to match and never does."""
        if payload is None:
            return False
        if self.tag is not None and self.tag not in payload["tags"]:
            return False
        if self.episode_type is not None and self.episode_type != payload["episode_type"]:
            return False
        if self._folded is None:
            return True
        content = payload["content"]
        texts = (content["primary"], content["secondary"], content["context"])
        return any(text is not None and self._folded in text.casefold() for text in texts)
