"""Registration of agents and workspaces."""

from __future__ import annotations

from services.domain import keys
from services.domain.canonical_json import parse_canonical
from services.domain.scope import IDENTITY_PARTITION, Scope
from services.identity.authority import Authority
from services.identity.directory import (
    command_trigger,
    is_agent_registered,
    register_agent,
    register_workspace,
    request_trigger,
)
from tests.unit.identity.builders import KEY, NOW_MS, SHARED, MemoryReader, issued, open_policy, spec

RECORD_ID = "7d1f7b2e-9c1a-4d55-8d0e-0f3f5a3c9b11"
PRIVATE = Scope("p1", None, "a2", "private")


def signed_in() -> tuple[MemoryReader, Authority]:
    """A store with one credential that reaches everything, and the authority."""
    reader = MemoryReader()
    reader.hold(issued(spec(grants=(), scope_policy=open_policy()))[1])
    return reader, Authority(KEY)


def test_the_first_command_registers_its_agent() -> None:
    """With who, when, where and what; later ones change nothing."""
    reader, authority = signed_in()
    principal = authority.authorize(reader, issued()[0])
    register_agent(reader, principal, SHARED, command_trigger(RECORD_ID, 1, "created"))
    reader.clock_ms += 1
    register_agent(reader, principal, Scope("p9", None, "a1", "private"), request_trigger())
    stored = reader.get(IDENTITY_PARTITION, keys.agent_key("acme", "a1"))
    assert stored is not None
    assert parse_canonical(stored) == {
        "agent_id": "a1",
        "registered_at_millis": NOW_MS,
        "registered_by": principal.author.as_json(),
        "first_scope": SHARED.as_json(),
        "private_subject_id": None,
        "trigger": {"kind": "memory_command", "record_id": RECORD_ID, "revision": 1, "action": "created"},
    }


def test_a_private_first_scope_names_its_subject() -> None:
    """And a request that writes nothing else has its own trigger."""
    reader, authority = signed_in()
    principal = authority.authorize(reader, issued()[0])
    assert not is_agent_registered(reader, principal, PRIVATE)
    register_agent(reader, principal, PRIVATE, request_trigger())
    assert is_agent_registered(reader, principal, PRIVATE)
    stored = parse_canonical(reader.values[IDENTITY_PARTITION, keys.agent_key("acme", "a2")])
    assert (stored["private_subject_id"], stored["trigger"]) == ("svc", {"kind": "successful_resource_request"})


def test_a_workspace_enters_both_directories_once() -> None:
    """The entry in its own partition and the one of the company are the same bytes."""
    reader, authority = signed_in()
    principal = authority.authorize(reader, issued()[0])
    register_workspace(reader, principal, PRIVATE)
    partition = principal.workspace(PRIVATE).partition
    entry = reader.get(partition, keys.WORKSPACE)
    assert entry is not None
    assert reader.get(IDENTITY_PARTITION, keys.company_workspace_key("acme", partition)) == entry
    assert parse_canonical(entry) == {"company_id": "acme", "scope": PRIVATE.as_json(), "private_subject_id": "svc"}
    before = dict(reader.values)
    register_workspace(reader, principal, PRIVATE)
    assert reader.values == before
