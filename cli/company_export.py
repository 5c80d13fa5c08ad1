"""`waggle export`: all that a company's memory retains, as documented JSON lines."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Annotated, Final

import typer

from cli.backups import new_file
from cli.company_lines import EXPORT_FORMAT_VERSION, Json, LineWriter, company_line, workspace_line
from cli.connection import JsonOption
from cli.console import err, fail, out, print_json
from cli.progress_bar import ProgressBar
from cli.serve import DEFAULT_DATA_DIRECTORY, DataDirectory
from cli.store_exports import StorageAddressOption, opened_exporter
from services.domain import keys
from services.domain.canonical_json import parse_canonical
from services.domain.scope import IDENTITY_PARTITION, Workspace, workspace_from_json
from services.runtime.logging import configure_logging
from services.storage.backup import StoreInconsistent
from services.storage.exporting import Export, Exporter
from services.storage.verification import PartitionSink, StoreCheck, ValueSink

_ATTEMPTS: Final = 5

Workspaces = dict[bytes, Workspace]


class WorkspaceMissed(Exception):
    """A workspace was entered between the listing and the snapshot of the export."""


def export(
    company: Annotated[str, typer.Option("--company", metavar="COMPANY", help="Name of the company.")],
    output: Annotated[
        str, typer.Option("--output", metavar="FILE", help="Where to write; - for standard output. Never overwritten.")
    ],
    data_dir: DataDirectory = DEFAULT_DATA_DIRECTORY,
    storage_address: StorageAddressOption = "",
    as_json: JsonOption = False,
) -> None:
    """Write all that a company's memory retains, private memory included, as JSON lines; see docs/company-export.md.

    For reading and for moving to another place with waggle import company. To get the same store back, with its ids,
    times and receipts, use waggle backup. Holds no secrets.
    """
    configure_logging("export")
    os.umask(0o077)
    with opened_exporter(data_dir, storage_address) as exporter, new_file(output) as file:
        try:
            counts = write_export(exporter, company, file.write)
        except WorkspaceMissed:
            fail(f"{company} enters workspaces faster than they can be listed; try again")
        if counts is None:
            fail(f"there is no company {company}")
    if as_json and output != "-":
        print_json({"company_id": company, "file": output, "lines": counts})
    else:
        console = err if output == "-" else out
        words = ", ".join(
            f"{count:,} {kind}" for kind, count in sorted(counts.items()) if kind not in ("export", "end")
        )
        console.print(f"Exported {company} to {output}: {words}", markup=False)


def write_export(exporter: Exporter, company_id: str, write: Callable[[bytes], object]) -> dict[str, int] | None:
    """Write an export of a company, as of one moment.

    Args:
        exporter: Of the store.
        company_id: The company.
        write: Takes the next bytes of the file.

    Returns:
        The number of lines by type; None, and nothing was written, when there is no such company.

    Raises:
        WorkspaceMissed: The company enters workspaces faster than they can be listed; nothing was written.
        StoreInconsistent: What was written is no good export and must be thrown away.
        StorageUnavailable: The store was closed or opened again meanwhile; the same.
        OSError: The file cannot be written.
    """
    for attempt in range(1, _ATTEMPTS + 1):
        workspaces = _workspaces_of(exporter, company_id)
        if workspaces is None:
            return None
        try:
            return _write(exporter, company_id, workspaces, write)
        except WorkspaceMissed:
            if attempt == _ATTEMPTS:
                raise
    raise WorkspaceMissed


def _workspaces_of(exporter: Exporter, company_id: str) -> Workspaces | None:
    """The workspaces of a company, by partition; None when there is no such company."""
    directory = _Directory(company_id)
    _read(exporter.export(partitions=[IDENTITY_PARTITION]), directory.take, None, lambda _done: None)
    return directory.workspaces if directory.is_known else None


class _Directory:
    """What the identity partition tells of a company: its workspaces, and the lines of everything else."""

    def __init__(self, company_id: str) -> None:
        self._company_id = company_id
        self._prefix = keys.COMPANY_WORKSPACE + keys.company_tag(company_id)
        self.is_known = False
        self.workspaces: Workspaces = {}
        self.lines: list[tuple[str, Json]] = []

    def take(self, _partition: bytes, key: bytes, value: bytes) -> None:
        """Take one living key."""
        self.is_known = self.is_known or key == keys.company_key(self._company_id)
        line = company_line(self._company_id, key, value)
        if line is not None:
            self.lines.append(line)
        elif key.startswith(self._prefix):
            workspace = workspace_from_json(parse_canonical(value))
            self.workspaces[workspace.partition] = workspace


def _write(
    exporter: Exporter, company_id: str, workspaces: Workspaces, write: Callable[[bytes], object]
) -> dict[str, int]:
    """Write a whole export and return the number of lines by type.

    Raises:
        WorkspaceMissed: The snapshot has other workspaces; nothing was written.
    """
    export = exporter.export(partitions=[IDENTITY_PARTITION, *workspaces])
    opening = export.opening
    writer = LineWriter(write)
    directory = _Directory(company_id)
    begun: set[bytes] = set()

    def take(partition: bytes, key: bytes, value: bytes) -> None:
        if partition == IDENTITY_PARTITION:
            directory.take(partition, key, value)
            return
        workspace_id = partition.hex()
        if partition not in begun:
            begun.add(partition)
            writer.put("workspace", {"workspace_id": workspace_id, "workspace": workspaces[partition].as_json()})
        line = workspace_line(key, value)
        if line is not None:
            writer.put(line[0], {"workspace_id": workspace_id, **line[1]})

    def begin(partition: bytes) -> None:
        if partition != IDENTITY_PARTITION:
            return
        # The directory is read first, in the same snapshot: nothing is written before it is known to be complete.
        if directory.workspaces != workspaces:
            raise WorkspaceMissed
        writer.put(
            "export",
            {
                "format_version": EXPORT_FORMAT_VERSION,
                "company_id": company_id,
                "store_id": opening.store_id,
                "sequence": opening.sequence,
                "clock_millis": opening.clock_ms,
            },
        )
        for line in directory.lines:
            writer.put(*line)

    with ProgressBar("exporting", opening.key_count) as bar:
        _read(export, take, begin, bar.set)
    writer.finish()
    return writer.counts


def _read(
    export: Export, take: ValueSink, end_partition: PartitionSink | None, on_progress: Callable[[int], None]
) -> None:
    """Read an export to its end, judging checksums, counts and change log.

    Raises:
        StoreInconsistent: Something does not hold.
    """
    check = StoreCheck(export.opening.sequence, on_value=take, on_partition=end_partition)
    for page in export.pages:
        for part in page.unreadable:
            check.miss(part)
        for key, value in page.rows:
            check.take(key, value)
        on_progress(check.value_count)
    problems = check.finish()
    if problems:
        raise StoreInconsistent(problems)
