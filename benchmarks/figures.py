"""Figures, budgets and the table that shows them side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from rich.console import Console
from rich.table import Table


@dataclass(frozen=True)
class Figure:
    """One measured number.

    Attributes:
        budget: The bound of the architecture; None when the figure has none.
        better: Whether the figure must stay below or above its budget.
    """

    work: str
    measure: str
    value: float
    unit: str
    budget: float | None = None
    better: Literal["below", "above"] = "below"

    @property
    def holds(self) -> bool | None:
        """The budget is kept; None without a budget."""
        if self.budget is None:
            return None
        return self.value < self.budget if self.better == "below" else self.value > self.budget


def latency_figures(
    work: str, seconds: Sequence[float], *, p50_ms: float | None = None, p99_ms: float | None = None
) -> list[Figure]:
    """p50, p95 and p99 in milliseconds of one kind of work.

    Args:
        seconds: One duration for each call.
        p50_ms: Budget of the median.
        p99_ms: Budget of the 99th percentile.
    """
    p50, p95, p99 = (float(value) * 1000 for value in np.percentile(seconds, (50, 95, 99)))
    return [
        Figure(work, "p50", p50, "ms", p50_ms),
        Figure(work, "p95", p95, "ms"),
        Figure(work, "p99", p99, "ms", p99_ms),
    ]


def print_figures(title: str, figures: Sequence[Figure]) -> None:
    """Print the table, the verdict in its last column."""
    table = Table(title=title, title_justify="left")
    for heading in ("work", "measure", "figure", "budget", ""):
        table.add_column(heading, justify="right" if heading in ("figure", "budget") else "left")
    previous = None
    for figure in figures:
        sign = "<" if figure.better == "below" else ">"
        table.add_row(
            figure.work if figure.work != previous else "",
            figure.measure,
            f"{figure.value:,.2f} {figure.unit}",
            "" if figure.budget is None else f"{sign} {figure.budget:,g} {figure.unit}",
            {None: "", True: "[green]holds[/green]", False: "[red]missed[/red]"}[figure.holds],
        )
        previous = figure.work
    Console(width=120).print(table)


def figures_as_json(figures: Sequence[Figure]) -> list[dict[str, Any]]:
    """The figures as plain objects, for keeping."""
    return [asdict(figure) | {"holds": figure.holds} for figure in figures]
