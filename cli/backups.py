"""`waggle backup` and `waggle restore`."""

from __future__ import annotations

import fcntl
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, BinaryIO

import typer
from rich.progress import DownloadColumn

from cli.connection import JsonOption
from cli.console import EXIT_DAMAGED, EXIT_FILE_SYSTEM, err, fail, out, print_json
from cli.progress_bar import ProgressBar
from cli.serve import DEFAULT_DATA_DIRECTORY, DataDirectory
from cli.store_exports import StorageAddressOption, opened_exporter
from cli.suite import verifier_key_file
from services.audit.store_audit import finding_of
from services.runtime.logging import configure_logging
from services.storage.backup import StoreInconsistent, restore_store, write_backup
from services.storage.backup_file import BackupDamaged, BackupHeader, BackupReader
from services.storage.directory_errors import DirectoryError

EXIT_EXISTS = 73

_STANDARD = "-"
_NAMED_MAX = 20


def backup(
    output: Annotated[
        str, typer.Option("--output", metavar="FILE", help="Where to write; - for standard output. Never overwritten.")
    ],
    data_dir: DataDirectory = DEFAULT_DATA_DIRECTORY,
    storage_address: StorageAddressOption = "",
    as_json: JsonOption = False,
) -> None:
    """Write a consistent backup of a running suite, or of a store that nobody has open.

    The backup holds everything as it was at one moment, whatever is written meanwhile. The verifier key is not in it:
    keep a copy of that file apart.
    """
    configure_logging("backup")
    # It holds private memory of everybody.
    os.umask(0o077)
    with opened_exporter(data_dir, storage_address) as exporter:
        export = exporter.export()
        with new_file(output) as file, ProgressBar("backing up", export.opening.key_count) as bar:
            header = write_backup(export, file.write, on_progress=bar.set)
    key_file = None if storage_address else verifier_key_file(data_dir)
    _tell_backup(header, output, key_file, as_json=as_json)


def restore(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A backup; - for standard input.")],
    data_dir: Annotated[
        Path, typer.Option("--data-dir", envvar="WAGGLE_DATA_DIR", help="A directory that is missing or empty.")
    ],
    engine: Annotated[str, typer.Option(help="Storage engine.")] = "leveldb",
    as_json: JsonOption = False,
) -> None:
    """Make a store out of a backup, in a directory that is missing or empty.

    Every checksum is judged, and everything read back from the disk, before there is a store. It keeps its id, jobs,
    receipts and change log; its first opening is a new incarnation, so that leases of before are over.
    """
    configure_logging("restore")
    os.umask(0o077)
    try:
        with _opened(file) as stream:
            reader = BackupReader(stream)
            size = os.fstat(stream.fileno()).st_size
            with ProgressBar("restoring", size or None, DownloadColumn()) as bar:
                restore_store(data_dir, reader, engine=engine, on_progress=bar.set)
    except BackupDamaged as error:
        fail(f"{file} is not a good backup: {error}. Nothing was restored", EXIT_DAMAGED)
    except DirectoryError as error:
        fail(str(error), error.exit_code)
    except OSError as error:
        fail(f"cannot read {file}: {error.strerror or error}", EXIT_FILE_SYSTEM)
    _tell_restored(reader.header, data_dir, as_json=as_json)


def _tell_backup(header: BackupHeader, output: str, key_file: Path | None, *, as_json: bool) -> None:
    # Where that of another machine's suite lies is not known here.
    named = "" if key_file is None else f" {key_file}"
    kept_apart = f"The verifier key{named} is not in it: keep a copy of that file in another place. "
    kept_apart += "Without it no key of any credential works on the restored store."
    if output == _STANDARD:
        err.print(kept_apart, markup=False)
        return
    if as_json:
        print_json({**header._asdict(), "file": output, "file_bytes": Path(output).stat().st_size})
        return
    out.print(
        f"Backed up {header.key_count:,} keys in {header.partition_count:,} partitions as of commit {header.sequence} "
        f"to {output} ({Path(output).stat().st_size:,} bytes)",
        markup=False,
    )
    out.print(kept_apart, markup=False)


def _tell_restored(header: BackupHeader, data_dir: Path, *, as_json: bool) -> None:
    if as_json:
        print_json({**header._asdict(), "data_dir": str(data_dir)})
        return
    out.print(
        f"Restored store {header.store_id} as of commit {header.sequence} into {data_dir}: {header.key_count:,} keys "
        f"in {header.partition_count:,} partitions",
        markup=False,
    )
    out.print(
        f"Next: put the verifier key of that store at {verifier_key_file(data_dir)} (mode 0600), then: waggle verify "
        f"--data-dir {data_dir}",
        markup=False,
    )


@contextmanager
def _opened(file: Path) -> Iterator[BinaryIO]:
    if str(file) == _STANDARD:
        yield sys.stdin.buffer
    else:
        with file.open("rb") as stream:
            yield stream


@contextmanager
def new_file(output: str) -> Iterator[BinaryIO]:
    """A file that takes its name only when it is whole and durable. A block that fails leaves nothing."""
    try:
        if output == _STANDARD:
            yield sys.stdout.buffer
            sys.stdout.buffer.flush()
        else:
            with _named_file(Path(output)) as file:
                yield file
    except StoreInconsistent as error:
        for problem in error.problems[:_NAMED_MAX]:
            err.print(f"  {finding_of(problem)}", markup=False)
        fail(f"{error}: nothing was written; waggle verify names all", EXIT_DAMAGED)
    except FileExistsError:
        fail(f"{output} is there already, and is not overwritten", EXIT_EXISTS)
    except OSError as error:
        fail(f"{output} cannot be written: {error.strerror or error}", EXIT_FILE_SYSTEM)


@contextmanager
def _named_file(path: Path) -> Iterator[BinaryIO]:
    if path.exists():
        raise FileExistsError
    part = path.with_name(path.name + ".part")
    with part.open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            fail(f"{part} is being written by another backup", EXIT_EXISTS)
        try:
            # What a backup that was killed has left is of no use.
            file.truncate(0)
            yield file
            # 1. Everything on the disk. 2. The name, unless somebody took it meanwhile. 3. The name on the disk.
            file.flush()
            os.fsync(file.fileno())
            os.link(part, path)
        finally:
            with suppress(FileNotFoundError):
                part.unlink()
    descriptor = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
