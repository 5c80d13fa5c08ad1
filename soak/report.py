"""What a run has done and found, as text for docs/soak.md and the terminal."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

Rows = Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True)
class Report:
    """Counts of one run.

    Attributes:
        seed: Of every choice.
        duration_s: Of the load, without what was judged afterwards.
        requests: By (transport, route, status or what happened instead).
        refusals: By (status, code).
        deeds: By (process, what was done to it).
        longest_recovery_s: After one of them.
        attacks: By name.
        load: What was made, by kind.
        checks: What was compared, and how often.
        problems: What does not hold.
    """

    seed: int
    duration_s: float
    requests: Counter[tuple[str, str, str]]
    refusals: Counter[tuple[str, str]]
    deeds: Counter[tuple[str, str]]
    longest_recovery_s: float
    attacks: Counter[str]
    load: Mapping[str, int]
    checks: Counter[str]
    problems: Sequence[str] = field(default=())

    def markdown(self) -> str:
        """The whole report."""
        parts = [
            "# Soak",
            "",
            "Written by `make soak`; see [the decision](decisions/0075-soak.md) for what is checked and how.",
            "",
            f"**{self._verdict()}**: {len(self.problems):,} problems, {sum(self.checks.values()):,} checks.",
            "",
            *_table("Run", ("", ""), [
                ("seed", str(self.seed)),
                ("load", f"{self.duration_s:,.0f} s"),
                ("requests", f"{sum(self.requests.values()):,}"),
                ("kills, hangs and halts", f"{sum(self.deeds.values()):,}"),
                ("longest recovery", f"{self.longest_recovery_s:.1f} s"),
                ("load average at the end, processors", f"{os.getloadavg()[0]:.0f}, {os.cpu_count()}"),
                *((name, f"{count:,}") for name, count in self.load.items()),
            ]),
            *_table("Checks", ("what", "times"), _counted(self.checks)),
            *_table("Deeds by process", ("process", "deed", "times"), _counted(self.deeds)),
            *_table("Attacks", ("attack", "times"), _counted(self.attacks)),
            *_table("Refusals", ("status", "code", "times"), _counted(self.refusals)),
            *_table("Requests", ("by", "route", "status", "times"), _counted(self.requests)),
        ]  # fmt: skip
        if self.problems:
            parts += ["## Problems", "", *(f"- {problem}" for problem in self.problems), ""]
        return "\n".join(parts)

    def _verdict(self) -> str:
        return "Red" if self.problems else "Green"


def _counted(counter: Counter[str] | Counter[tuple[str, str]] | Counter[tuple[str, str, str]]) -> Rows:
    rows = []
    for name, count in sorted(counter.items(), key=str):
        names = (name,) if isinstance(name, str) else name
        rows.append((*(f"`{part}`" if part.startswith(("GET", "POST", "/")) else part for part in names), f"{count:,}"))
    return rows


def _table(title: str, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    lines = [f"| {' | '.join(row)} |" for row in rows]
    if not lines:
        return []
    aligned = " | ".join(["---"] * (len(heads) - 1) + ["---:"])
    return [f"## {title}", "", f"| {' | '.join(heads)} |", f"| {aligned} |", *lines, ""]
