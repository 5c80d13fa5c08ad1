"""`waggle import`: many commands at once, durable, with a progress bar; running it again changes nothing."""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from cli.company_import import ExportedWorkspace, group_by_workspace, plan_import, without
from cli.company_lines import ExportDamaged, Json, read_lines
from cli.connection import (
    DEFAULT_AGENT,
    DEFAULT_PROJECT,
    AgentOption,
    JsonOption,
    KeyOption,
    MissionOption,
    ProjectOption,
    Visibility,
    VisibilityOption,
    scope_in_words,
    scope_json,
)
from cli.console import EXIT_INTERRUPTED, err, fail, out, print_json
from cli.git_commands import commands_from_history, name_history_command
from cli.git_history import NoHistory, read_history
from cli.git_rules import derive_relations
from cli.import_lines import command_from_line, line_member
from cli.import_stream import ImportRefused, ImportResult, run_import
from cli.serve import DEFAULT_DATA_DIRECTORY, DataDirectory
from cli.suite import MEMORY, NotRunning, find_address
from services.domain.canonical_json import canonical_bytes
from services.domain.errors import InvalidRequest
from waggle.common.v1 import scope_pb2
from waggle.memory.v1.import_service_pb2 import ImportCommand

app = typer.Typer(no_args_is_help=True, help="Import memories and relations in bulk, over gRPC.")

MemoryAddressOption = Annotated[
    str,
    typer.Option(
        "--memory-address",
        envvar="WAGGLE_MEMORY_ADDRESS",
        help="gRPC address of the memory service; default: that of the suite on --data-dir.",
    ),
]


NameCommand = Callable[[int], tuple[str, Callable[[str], str]]]
"""Zero-based position of a command -> where it comes from, and how a member of it is spelled there."""


def _name_by_position(index: int) -> tuple[str, Callable[[str], str]]:
    return f"command {index + 1}", str


class _BadLine(Exception):
    """A line of the file is not a command."""


@app.command()
def git(
    path: Annotated[
        Path, typer.Argument(metavar="PATH", help="A git repository; everything that leads to its HEAD is imported.")
    ],
    data_dir: DataDirectory = DEFAULT_DATA_DIRECTORY,
    memory_address: MemoryAddressOption = "",
    key: KeyOption = "",
    project: ProjectOption = DEFAULT_PROJECT,
    agent: AgentOption = DEFAULT_AGENT,
    mission: MissionOption = "",
    visibility: VisibilityOption = Visibility.SHARED,
    as_json: JsonOption = False,
) -> None:
    """Import a git history: one memory a commit, relations from recorded evidence only.

    Says how many commands were committed, that is carried out now, and
    how many were replayed: they had been carried out before.
    """
    try:
        commits = read_history(path)
    except NoHistory as error:
        fail(str(error))
    relations = derive_relations(commits)
    result = import_commands(
        _address(memory_address, data_dir),
        key,
        scope_message(project, agent, mission, visibility),
        commands_from_history(commits, relations),
        total=len(commits) + len(relations),
        name_command=lambda index: (name_history_command(index, commits, relations), str),
    )
    counts = {"commits": len(commits), "relations": len(relations)}
    _print_result(result, as_json, counts)


@app.command()
def file(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="JSON Lines, one command a line.")],
    data_dir: DataDirectory = DEFAULT_DATA_DIRECTORY,
    memory_address: MemoryAddressOption = "",
    key: KeyOption = "",
    project: ProjectOption = DEFAULT_PROJECT,
    agent: AgentOption = DEFAULT_AGENT,
    mission: MissionOption = "",
    visibility: VisibilityOption = Visibility.SHARED,
    as_json: JsonOption = False,
) -> None:
    """Import commands from a file, for example one that another system exported.

    A line is the body of one of the routes memory/commands,
    memory/relations/commands and memory/embeddings, without
    contract_version and scope. "created_by": KEY stands for the record
    that an earlier line with that idempotency key created.

    Says how many commands were committed, that is carried out now, and
    how many were replayed: they had been carried out before.
    """
    try:
        with path.open("rb") as stream:
            total = sum(1 for line in stream if line.strip())
        # Every line is judged before the first is sent: a typing error on line 9,000 shall not leave 8,999 behind.
        for _ in _commands_from_file(path):
            pass
        result = import_commands(
            _address(memory_address, data_dir),
            key,
            scope_message(project, agent, mission, visibility),
            _commands_from_file(path),
            total=total,
            name_command=lambda index: (f"{path}:{_line_number(path, index)}", line_member),
        )
    except _BadLine as error:
        fail(str(error))
    except OSError as error:
        fail(f"cannot read {path}: {error.strerror or error}")
    _print_result(result, as_json, {})


@app.command()
def company(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="An export made by waggle export.")],
    data_dir: DataDirectory = DEFAULT_DATA_DIRECTORY,
    memory_address: MemoryAddressOption = "",
    key: KeyOption = "",
    private_of: Annotated[
        str,
        typer.Option(
            "--private-of",
            metavar="SUBJECT",
            help="Also re-create the private memory of this subject, as private memory of the key's own subject.",
        ),
    ] = "",
    as_json: JsonOption = False,
) -> None:
    """Re-create the served memory of an exported company, workspace by workspace.

    Records, vectors and relations are made anew, under the key's own
    company and subject and with new ids and times; each record says in
    its metadata where it came from. docs/company-export.md tells what is
    left out. Running it again changes nothing.
    """
    if not key:
        fail("no credential: set WAGGLE_KEY or pass --key", 2)
    try:
        with path.open("rb") as stream:
            # The whole file is judged before the first command is sent.
            for _ in read_lines(stream):
                pass
        with path.open("rb") as stream:
            report = import_company(
                _address(memory_address, data_dir), key, group_by_workspace(read_lines(stream)), private_of
            )
    except ExportDamaged as error:
        fail(f"{path} is not a good export: {error}")
    except OSError as error:
        fail(f"cannot read {path}: {error.strerror or error}")
    if as_json:
        print_json(report)
        return
    for reason, count in sorted(report["left_out"].items()):
        out.print(f"{count} {reason}: left out", markup=False)
    count = report["workspaces"]
    done = counts_in_words(report["committed"], report["replayed"])
    out.print(f"{count} {'workspace' if count == 1 else 'workspaces'}: {done}", markup=False)


def import_company(
    address: str, key: str, workspaces: Iterable[tuple[Json, ExportedWorkspace]], private_of: str
) -> dict[str, Any]:
    """Re-create workspaces one after another, and return what was done and left out."""
    report: dict[str, Any] = {"workspaces": 0, "committed": 0, "replayed": 0}
    left_out: Counter[str] = Counter()
    for header, workspace in workspaces:
        owner, scope = workspace.address["private_subject_id"], workspace.address["scope"]
        if owner is not None and owner != private_of:
            left_out["workspaces, private memory of a subject that --private-of does not name"] += 1
            continue
        plan = plan_import(header, workspace, time.time_ns() // 1_000_000)
        left_out.update(plan.left_out)
        target = scope_message(
            scope["project_id"], scope["agent_id"], scope["mission_id"] or "", Visibility(scope["visibility"])
        )
        committed, replayed, changed = _import_plan(address, key, target, plan.commands, report)
        left_out["copies that have changed here, and what refers to them"] += changed
        report["workspaces"] += 1
        report["committed"] += committed
        report["replayed"] += replayed
    return {**report, "left_out": dict(+left_out)}


def _import_plan(
    address: str, key: str, scope: scope_pb2.Scope, lines: Sequence[Json], before: dict[str, Any]
) -> tuple[int, int, int]:
    """Carry out a plan: how many commands were committed, were replayed, and were left out.

    A copy of an earlier import that was edited, reviewed or deleted here stays as it is, and so what refers to it is
    refused: it is left out, and the rest carried out once more, of which all but that is replayed.
    """
    committed, whole = 0, len(lines)
    while True:
        try:
            result = import_commands(
                address,
                key,
                scope,
                _commands_of(lines),
                total=len(lines),
                name_command=_name_by_key(lines),
                before=(before["committed"] + committed, before["replayed"]),
                passes_over=_is_of_a_changed_copy,
            )
        except ImportRefused as refused:
            if refused.index is None:
                raise
            committed += refused.committed
            lines = without(lines, lines[refused.index]["idempotency_key"])
        else:
            return committed + result.committed, result.replayed - committed, whole - len(lines)


def _is_of_a_changed_copy(refused: ImportRefused) -> bool:
    return refused.index is not None and refused.reason in ("revision_conflict", "record_not_found")


def _commands_of(lines: Sequence[Json]) -> list[ImportCommand]:
    # All before the first is sent: an error in a stream of gRPC's would end it without a word of what and where.
    commands = []
    for line in lines:
        try:
            commands.append(command_from_line(canonical_bytes(line)))
        except InvalidRequest as error:
            fail(f"{line['idempotency_key']}: {error}; it cannot be re-created, and the import ended before it")
    return commands


def _name_by_key(lines: Sequence[Json]) -> NameCommand:
    return lambda index: (lines[index]["idempotency_key"], line_member)


def scope_message(project: str, agent: str, mission: str, visibility: Visibility) -> scope_pb2.Scope:
    """Return the scope as a message; an empty mission means the scope without one."""
    return scope_pb2.Scope(
        project_id=project,
        mission_id=mission or None,
        agent_id=agent,
        visibility=scope_pb2.VISIBILITY_PRIVATE if visibility is Visibility.PRIVATE else scope_pb2.VISIBILITY_SHARED,
    )


def import_commands(
    address: str,
    key: str,
    scope: scope_pb2.Scope,
    commands: Iterable[ImportCommand],
    *,
    total: int,
    name_command: NameCommand = _name_by_position,
    before: tuple[int, int] = (0, 0),
    passes_over: Callable[[ImportRefused], bool] = lambda _refused: False,
) -> ImportResult:
    """Import with a progress bar on standard error; a refusal ends the command with the place and the reason.

    Args:
        address, key, scope, commands: See `run_import`.
        total: Number of commands, for the progress bar.
        name_command: Says where a command came from.
        before: What the same import has committed and replayed in other scopes before.
        passes_over: Which refusals are raised instead, for a caller that goes on without the command.
    """
    if not key:
        fail("no credential: set WAGGLE_KEY or pass --key", 2)
    columns = (TextColumn("importing"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as progress:
        task = progress.add_task("", total=total)
        try:
            return run_import(
                address, key, scope, commands, on_progress=lambda done: progress.update(task, completed=done)
            )
        except KeyboardInterrupt:
            progress.stop()
            done = int(progress.tasks[task].completed)
            fail(f"interrupted; {done} of {total} are durable; running it again continues from there", EXIT_INTERRUPTED)
        except ImportRefused as error:
            progress.stop()
            if passes_over(error):
                raise
            where, member = "", error.member
            if error.index is not None:
                place, spell = name_command(error.index)
                where, member = f"{place}: ", spell(error.member)
            where += f"{member}: " if member else ""
            asked = f"; asked for the scope {_scope_in_words(scope)}" if error.reason == "forbidden" else ""
            passing = error.index is None and error.reason not in ("forbidden", "unauthorized")
            what_next = "running it again continues from there" if passing else "run it again when that is mended"
            fail(
                f"{where}{error.message} ({error.reason}){asked}; "
                f"{counts_in_words(before[0] + error.committed, before[1] + error.replayed)}; {what_next}"
            )


def counts_in_words(committed: int, replayed: int) -> str:
    """Say what `--json` says with the same two words."""
    return f"{committed} committed, {replayed} replayed"


def _scope_in_words(scope: scope_pb2.Scope) -> str:
    visibility = Visibility.PRIVATE if scope.visibility == scope_pb2.VISIBILITY_PRIVATE else Visibility.SHARED
    return scope_in_words(scope_json(scope.project_id, scope.agent_id, scope.mission_id, visibility))


def _commands_from_file(path: Path) -> Iterator[ImportCommand]:
    with path.open("rb") as stream:
        for number, line in enumerate(stream, start=1):
            if line.strip():
                try:
                    yield command_from_line(line)
                except InvalidRequest as error:
                    raise _BadLine(f"{path}:{number}: {error}") from error


def _line_number(path: Path, index: int) -> int:
    """Number of the line that holds a command, from 1; blank lines hold none."""
    with path.open("rb") as stream:
        numbers = (number for number, line in enumerate(stream, start=1) if line.strip())
        return next(itertools.islice(numbers, index, None))


def _address(given: str, data_directory: Path) -> str:
    if given:
        return given
    try:
        return find_address(data_directory, MEMORY.name)
    except NotRunning as error:
        fail(str(error))


def _print_result(result: ImportResult, as_json: bool, counts: dict[str, int]) -> None:
    if as_json:
        print_json({**counts, "committed": result.committed, "replayed": result.replayed})
        return
    found = ", ".join(f"{count} {name}" for name, count in counts.items())
    prefix = f"{found}: " if found else ""
    out.print(f"{prefix}{counts_in_words(result.committed, result.replayed)}")
