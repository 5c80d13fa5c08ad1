"""`waggle verify`: reads everything that a store holds and judges whether it fits together."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from cli.connection import JsonOption
from cli.console import EXIT_DAMAGED, EXIT_FILE_SYSTEM, EXIT_REFUSED, EXIT_USAGE, fail, out, print_json
from cli.progress_bar import ProgressBar
from cli.replica_comparison import Comparison, compare_replica
from cli.serve import DEFAULT_DATA_DIRECTORY, DataDirectory
from cli.store_exports import StorageAddressOption, opened_exporter, running_address
from cli.suite import RETRIEVAL, NotRunning, find_address
from services.audit.findings import Finding
from services.audit.store_audit import AuditResult, StoreAudit
from services.runtime.logging import configure_logging
from services.storage.backup_file import BackupDamaged, BackupReader
from services.storage.exporting import Exporter
from services.storage.store_rows import RowPage


class _Subject(NamedTuple):
    """What was judged."""

    store_id: str
    incarnation: str
    sequence: int


def verify(
    context: typer.Context,
    data_dir: DataDirectory = DEFAULT_DATA_DIRECTORY,
    storage_address: StorageAddressOption = "",
    backup: Annotated[
        Path | None, typer.Option("--backup", metavar="FILE", help="Judge this backup instead of a store.")
    ] = None,
    key: Annotated[
        list[str] | None,
        typer.Option(
            "--key",
            envvar="WAGGLE_ADMIN_KEY",
            help="Key of a company administrator: the replica of its workspaces is compared with storage. Repeatable.",
            show_default=False,
        ),
    ] = None,
    retrieval_address: Annotated[
        str,
        typer.Option(
            "--retrieval-address",
            envvar="WAGGLE_RETRIEVAL_ADDRESS",
            help="gRPC address of the retrieval service; default: that of the suite on --data-dir.",
        ),
    ] = "",
    as_json: JsonOption = False,
) -> None:
    """Read everything and recompute every checksum, digest, receipt, index, history, count and change log entry.

    Of a running suite it reads one snapshot and lets writes go on; a store that nobody runs on is opened for it. Ends
    with 0 when all is well, with 1 when something is not; whatever is not is named. Nothing is ever repaired.
    """
    configure_logging("verify")
    if backup is not None:
        # Variables are for every command of a pod or a shell, and say nothing about this one.
        if _is_on_command_line(context, "storage_address", "key"):
            fail("--backup judges a file: leave --storage-address and --key out", EXIT_USAGE)
        subject, result = _judge_backup(backup)
        _tell(subject, result, None, as_json=as_json)
        return
    address = storage_address or running_address(data_dir)
    if not address and _is_on_command_line(context, "key"):
        fail("--key compares the replica of a running suite: leave it out, or start the suite", EXIT_USAGE)
    with opened_exporter(data_dir, address) as exporter:
        subject, result = _judge(exporter)
    comparison = None
    if key and address:
        comparison = compare_replica(address, retrieval_address or _retrieval(data_dir), key, sorted(result.workspaces))
    _tell(subject, result, comparison, as_json=as_json)


def _is_on_command_line(context: typer.Context, *names: str) -> bool:
    sources = [context.get_parameter_source(name) for name in names]
    return any(source is not None and source.name == "COMMANDLINE" for source in sources)


def _judge(exporter: Exporter) -> tuple[_Subject, AuditResult]:
    export = exporter.export()
    opening = export.opening
    audit = StoreAudit(opening.sequence)
    with ProgressBar("verifying", opening.key_count) as bar:
        for page in export.pages:
            audit.take_page(page)
            bar.set(audit.value_count)
        result = audit.finish()
    return _Subject(opening.store_id, opening.incarnation, opening.sequence), result


def _judge_backup(path: Path) -> tuple[_Subject, AuditResult]:
    try:
        with path.open("rb") as file:
            reader = BackupReader(file)
            header = reader.header
            audit = StoreAudit(header.sequence)
            with ProgressBar("verifying", header.key_count) as bar:
                for rows in reader.pages():
                    audit.take_page(RowPage(rows, []))
                    bar.set(audit.value_count)
            return _Subject(header.store_id, header.incarnation, header.sequence), audit.finish()
    except BackupDamaged as error:
        fail(f"{path} is not a good backup: {error}", EXIT_DAMAGED)
    except OSError as error:
        fail(f"cannot read {path}: {error.strerror or error}", EXIT_FILE_SYSTEM)


def _retrieval(data_dir: Path) -> str:
    try:
        return find_address(data_dir, RETRIEVAL.name)
    except NotRunning:
        fail("--key compares the replica: name the retrieval service with --retrieval-address", EXIT_USAGE)


def _tell(subject: _Subject, result: AuditResult, comparison: Comparison | None, *, as_json: bool) -> None:
    findings: list[Finding] = [*result.findings, *(comparison.findings if comparison else ())]
    if as_json:
        print_json(_report(subject, result, comparison, findings))
    else:
        for finding in findings:
            out.print(str(finding), markup=False)
        out.print(
            f"Store {subject.store_id} as of commit {subject.sequence}: {result.value_count:,} keys in "
            f"{result.partition_count:,} partitions, {_counted(len(findings), 'inconsistency', 'inconsistencies')}",
            markup=False,
        )
        out.print(_replica_words(comparison), markup=False)
    if findings:
        raise typer.Exit(EXIT_REFUSED)


def _report(
    subject: _Subject, result: AuditResult, comparison: Comparison | None, findings: list[Finding]
) -> dict[str, Any]:
    return {
        **subject._asdict(),
        "partition_count": result.partition_count,
        "key_count": result.value_count,
        "consistent": not findings,
        "findings": [finding.as_json() for finding in findings],
        "replica": None
        if comparison is None
        else {"compared": len(comparison.compared), "left_out": dict(comparison.left_out)},
    }


def _replica_words(comparison: Comparison | None) -> str:
    if comparison is None:
        return "The replica was not compared: that takes a running suite and --key of a company administrator"
    words = f"Replica: {_counted(len(comparison.compared), 'workspace', 'workspaces')} compared"
    return words + "".join(f"; {workspace_id} left out: {why}" for workspace_id, why in comparison.left_out)


def _counted(count: int, one: str, many: str) -> str:
    return f"{count:,} {one if count == 1 else many}" if count else f"no {many}"
