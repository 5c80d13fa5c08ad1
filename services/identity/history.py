"""What credentials and accounts have in common: revisions from 1, one event for each, and the mark of their change.

`Change.change_id` marks the change that made a revision: a rerun after a lost commit answer recognises its own by it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol, TypeVar

from services.domain.errors import RevisionConflict


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What every transition needs to know of its circumstances.

    Attributes:
        change_id: UUID made before the transaction.
        actor_id: Acting credential.
        at_millis: The store's clock.
    """

    change_id: str
    actor_id: str
    at_millis: int


@dataclass(frozen=True, slots=True)
class Event:
    """One entry of a history.

    Attributes:
        revision: The revision that it made.
        action: The documented word for what was done.
        actor_id: Acting credential.
        at_millis: The store's clock.
    """

    revision: int
    action: str
    actor_id: str
    at_millis: int

    def as_json(self) -> dict[str, Any]:
        """The documented object."""
        return {
            "revision": self.revision,
            "action": self.action,
            "actor_id": self.actor_id,
            "at_millis": self.at_millis,
        }


def event_from_json(value: Mapping[str, Any]) -> Event:
    """Read the documented object.

    Raises:
        KeyError: A member is missing.
    """
    return Event(value["revision"], value["action"], value["actor_id"], value["at_millis"])


def first_event(action: str, change: Change) -> Event:
    """The event of revision 1."""
    return Event(1, action, change.actor_id, change.at_millis)


class Versioned(Protocol):
    """A frozen dataclass with revisions."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def revision(self) -> int:
        """From 1."""
        ...

    @property
    def history(self) -> tuple[Event, ...]:
        """One event for each revision, ascending."""
        ...


VersionedT = TypeVar("VersionedT", bound=Versioned)


def check_revision(versioned: Versioned, expected_revision: int, *, noun: str) -> None:
    """Check that the caller knows the present revision.

    Args:
        versioned: What is about to change.
        expected_revision: As the caller sent it.
        noun: What to call it in the refusal.

    Raises:
        RevisionConflict: It has another one.
    """
    if versioned.revision != expected_revision:
        raise RevisionConflict(f"the {noun} has another revision", member="expected_revision")


def add_revision(versioned: VersionedT, event: Event, change: Change) -> VersionedT:
    """The same, one revision higher, with `event` at the end of its history and the mark of `change`."""
    return replace(versioned, revision=event.revision, history=(*versioned.history, event), change_id=change.change_id)


def next_revision(versioned: VersionedT, action: str, change: Change) -> VersionedT:
    """The same, one revision higher, with an event for `action`."""
    event = Event(versioned.revision + 1, action, change.actor_id, change.at_millis)
    return add_revision(versioned, event, change)
