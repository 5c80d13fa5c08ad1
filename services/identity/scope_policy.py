"""company_scopes_v1: scopes described by selectors instead of listed one by one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from services.domain.scope import Scope

POLICY_VERSION: Final = "company_scopes_v1"


@dataclass(frozen=True, slots=True)
class Selector:
    """Accepts every id (`ids` None) or only the listed ones, compared exactly. An empty list accepts none."""

    ids: tuple[str, ...] | None

    def accepts(self, value: str) -> bool:
        """Whether the id is selected."""
        return self.ids is None or value in self.ids

    def as_json(self) -> dict[str, Any]:
        """The documented object."""
        return {"mode": "all"} if self.ids is None else {"mode": "only", "ids": list(self.ids)}


def selector_from_json(value: Mapping[str, Any]) -> Selector:
    """Read the documented object."""
    return Selector(None if value["mode"] == "all" else tuple(value["ids"]))


@dataclass(frozen=True, slots=True)
class ScopePolicy:
    """Which scopes of its company a credential may use.

    Attributes:
        projects: Accepted project ids.
        agents: Accepted agent ids.
        missions: Accepted mission ids; says nothing of missionless scopes.
        allow_unassigned_mission: Whether missionless scopes are accepted.
        visibilities: One or two distinct of "private", "shared".
    """

    projects: Selector
    agents: Selector
    missions: Selector
    allow_unassigned_mission: bool
    visibilities: tuple[str, ...]

    def accepts(self, scope: Scope) -> bool:
        """Whether every selector and the visibilities accept the scope."""
        return (
            scope.visibility in self.visibilities
            and (self.allow_unassigned_mission if scope.mission_id is None else self.missions.accepts(scope.mission_id))
            and self.projects.accepts(scope.project_id)
            and self.agents.accepts(scope.agent_id)
        )

    def as_json(self) -> dict[str, Any]:
        """The documented object."""
        return {
            "version": POLICY_VERSION,
            "projects": self.projects.as_json(),
            "agents": self.agents.as_json(),
            "missions": self.missions.as_json(),
            "allow_unassigned_mission": self.allow_unassigned_mission,
            "visibilities": list(self.visibilities),
        }


def policy_from_json(value: Mapping[str, Any]) -> ScopePolicy:
    """Read the documented object."""
    return ScopePolicy(
        selector_from_json(value["projects"]),
        selector_from_json(value["agents"]),
        selector_from_json(value["missions"]),
        value["allow_unassigned_mission"],
        tuple(value["visibilities"]),
    )
