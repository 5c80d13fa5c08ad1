"""The steps of a Dockerfile, as far as deploy/Dockerfile uses the language. What it does not know is refused."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

# The last word of a line that goes on with the next one.
_CONTINUATION: Final = re.compile(r"\\\s*$")
_VARIABLE: Final = re.compile(r"\$\{?(\w+)\}?")
_KNOWN: Final = frozenset({"ARG", "CMD", "COPY", "ENTRYPOINT", "ENV", "EXPOSE", "FROM", "RUN", "USER", "WORKDIR"})


class BadDockerfile(Exception):
    """The file cannot be read. The message names the line."""


@dataclass(frozen=True, slots=True)
class Step:
    """One instruction.

    Attributes:
        instruction: In capitals.
        text: What stands behind it, lines joined.
    """

    instruction: str
    text: str

    def words(self) -> list[str]:
        """Return the text as words: of a JSON list, or as a shell splits it."""
        if self.text.startswith("["):
            words: list[str] = json.loads(self.text)
            return words
        return shlex.split(self.text)

    def commands(self) -> list[str]:
        """Return the commands of a RUN, which follow each other as long as each succeeds."""
        return [command.strip() for command in self.text.split(" && ")]

    def assignments(self) -> dict[str, str]:
        """Return name -> value of an ENV or ARG; variables in values stand as they are."""
        return dict(word.split("=", 1) for word in self.words())


@dataclass(frozen=True, slots=True)
class Copy:
    """A COPY: from the build context, or from another stage when it has a name."""

    sources: tuple[str, ...]
    target: str
    stage: str = ""


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage.

    Attributes:
        name: After AS.
        base: An image, or the name of an earlier stage.
        steps: In order.
    """

    name: str
    base: str
    steps: list[Step] = field(default_factory=list)

    def last(self, instruction: str) -> Step | None:
        """Return the last step of a kind, which is the one that counts for ENTRYPOINT, CMD, USER and WORKDIR."""
        return next((step for step in reversed(self.steps) if step.instruction == instruction), None)


def read_stages(text: str) -> dict[str, Stage]:
    """Read a Dockerfile; stages by name, in order.

    Raises:
        BadDockerfile: An instruction is unknown, or a stage has no name.
    """
    arguments: dict[str, str] = {}
    stages: dict[str, Stage] = {}
    stage: Stage | None = None
    for step in _steps(text):
        if step.instruction == "FROM":
            base, _, name = step.text.partition(" AS ")
            if not name:
                raise BadDockerfile(f"FROM {step.text}: every stage has a name")
            stage = stages[name] = Stage(name, expand(base, arguments))
        elif stage is not None:
            stage.steps.append(step)
        elif step.instruction == "ARG":
            arguments |= step.assignments()
        else:
            raise BadDockerfile(f"{step.instruction} before the first FROM")
    return stages


def lineage(stages: Mapping[str, Stage], name: str) -> list[Stage]:
    """The stages that a stage consists of, itself last: its base, the base of that, and so on."""
    stage = stages[name]
    return [*(lineage(stages, stage.base) if stage.base in stages else []), stage]


def read_copy(step: Step) -> Copy:
    """Read a COPY.

    Raises:
        BadDockerfile: It has a flag other than --from.
    """
    words = step.words()
    stage = ""
    while words[0].startswith("--"):
        flag, _, value = words.pop(0).partition("=")
        if flag != "--from":
            raise BadDockerfile(f"COPY {step.text}: {flag} is not known")
        stage = value
    return Copy(tuple(words[:-1]), words[-1], stage)


def expand(text: str, variables: Mapping[str, str]) -> str:
    """Put in the values of variables; an unknown one is empty."""
    return _VARIABLE.sub(lambda found: variables.get(found[1], ""), text)


def _steps(text: str) -> Iterator[Step]:
    whole = ""
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        whole += line.strip() + " "
        if _CONTINUATION.search(line):
            whole = _CONTINUATION.sub("", whole)
            continue
        instruction, _, rest = whole.strip().partition(" ")
        if instruction not in _KNOWN:
            raise BadDockerfile(f"line {number}: {instruction} is not known")
        yield Step(instruction, re.sub(r"\s+&& ", " && ", rest.strip()))
        whole = ""
