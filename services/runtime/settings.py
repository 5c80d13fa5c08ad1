"""Settings of a process: frozen dataclasses whose members say which environment variable they come from.

    @dataclass(frozen=True, slots=True)
    class Settings:
        storage_address: Annotated[str, TextVariable("WAGGLE_STORAGE_ADDRESS")]
        slot_count: Annotated[int, IntegerVariable("WAGGLE_SLOTS", least=1, greatest=64)] = 2

    settings = read_settings(Settings, os.environ)

A member without a default must be set. A value out of its bounds keeps the process from starting; it is never mended.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, get_type_hints, runtime_checkable

from services.runtime.start_failure import CannotStart

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_INTEGER_DIGITS_MAX = 20

T = TypeVar("T", bound="DataclassInstance")


@runtime_checkable
class Variable(Protocol):
    """Where a member comes from: the name of its environment variable, and how its text is read."""

    @property
    def name(self) -> str:
        """The variable's name."""
        ...

    def parse(self, text: str) -> Any:
        """Read the value; CannotStart, naming the variable, when it is none."""
        ...


@dataclass(frozen=True, slots=True)
class TextVariable:
    """Text that is not empty."""

    name: str

    def parse(self, text: str) -> str:
        """Return the text itself."""
        if not text:
            raise CannotStart(f"{self.name} must be set")
        return text


@dataclass(frozen=True, slots=True)
class PathVariable:
    """Path of a file or directory."""

    name: str

    def parse(self, text: str) -> Path:
        """Return the path; whether something is there is not looked at."""
        return Path(TextVariable(self.name).parse(text))


@dataclass(frozen=True, slots=True)
class IntegerVariable:
    """Decimal digits, from `least` to `greatest`, both of them allowed."""

    name: str
    least: int
    greatest: int

    def parse(self, text: str) -> int:
        """Return the number."""
        is_number = text.isascii() and text.isdigit() and len(text) <= _INTEGER_DIGITS_MAX
        if not (is_number and self.least <= int(text) <= self.greatest):
            raise CannotStart(f"{self.name} must be an integer from {self.least} to {self.greatest}")
        return int(text)


@dataclass(frozen=True, slots=True)
class DurationVariable:
    """Seconds: a decimal number above zero, to `greatest_s`."""

    name: str
    greatest_s: float = 86_400.0

    def parse(self, text: str) -> float:
        """Return the seconds."""
        try:
            value = float(text)
        except ValueError:
            value = 0.0
        # Put so that what is no number at all fails as well.
        if not 0.0 < value <= self.greatest_s:
            raise CannotStart(f"{self.name} must be a number of seconds above 0, at most {self.greatest_s:.0f}")
        return value


def read_settings(kind: type[T], environment: Mapping[str, str]) -> T:
    """Read a dataclass of settings.

    Args:
        kind: A dataclass of which every member is `Annotated` with its variable.
        environment: Variables by name, `os.environ` as a rule.

    Raises:
        CannotStart: A variable is missing or its value cannot be taken; the message names it.
    """
    hints = get_type_hints(kind, include_extras=True)
    values: dict[str, Any] = {}
    for field in fields(kind):
        variable = next(note for note in hints[field.name].__metadata__ if isinstance(note, Variable))
        text = environment.get(variable.name)
        if text is not None:
            values[field.name] = variable.parse(text)
        elif field.default is MISSING:
            raise CannotStart(f"{variable.name} must be set")
    return kind(**values)
