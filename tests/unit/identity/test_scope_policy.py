"""company_scopes_v1."""

from __future__ import annotations

from typing import Any

import pytest

from services.domain.scope import Scope
from services.identity.scope_policy import ScopePolicy, Selector, policy_from_json
from tests.unit.identity.builders import open_policy

SCOPE = Scope("p1", "m1", "a1", "shared")
MISSIONLESS = Scope("p1", None, "a1", "private")


@pytest.mark.parametrize(
    ("members", "scope", "accepted"),
    [
        ({}, SCOPE, True),
        ({}, MISSIONLESS, True),
        ({"projects": Selector(("p1",))}, SCOPE, True),
        ({"projects": Selector(("P1", "p1 ", "p"))}, SCOPE, False),
        ({"projects": Selector(())}, SCOPE, False),
        ({"agents": Selector(("a2",))}, SCOPE, False),
        ({"agents": Selector(("a2", "a1"))}, SCOPE, True),
        ({"missions": Selector(("m1",))}, SCOPE, True),
        ({"missions": Selector(("m2",))}, SCOPE, False),
        ({"missions": Selector(())}, MISSIONLESS, True),
        ({"allow_unassigned_mission": False}, MISSIONLESS, False),
        ({"allow_unassigned_mission": False}, SCOPE, True),
        ({"visibilities": ("private",)}, SCOPE, False),
        ({"visibilities": ("private",)}, MISSIONLESS, True),
        ({"visibilities": ("shared",)}, MISSIONLESS, False),
    ],
)
def test_every_selector_and_the_visibilities_must_accept(members: dict[str, Any], scope: Scope, accepted: bool) -> None:
    """Ids compare exactly, an empty list accepts none, and missionless scopes have a rule of their own."""
    assert open_policy(**members).accepts(scope) is accepted


@pytest.mark.parametrize(
    "policy",
    [
        open_policy(),
        ScopePolicy(
            Selector(("b", "a")), Selector(()), Selector(None), allow_unassigned_mission=False, visibilities=("shared",)
        ),
    ],
)
def test_the_documented_object_round_trips(policy: ScopePolicy) -> None:
    """Order of ids and visibilities is kept; only a selector of mode "only" has ids."""
    value = policy.as_json()
    assert policy_from_json(value) == policy
    assert value["version"] == "company_scopes_v1"
    assert ("ids" in value["projects"]) == (value["projects"]["mode"] == "only")
