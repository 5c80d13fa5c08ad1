"""`waggle worker`: an extractor as a long-lived process, by default the example that needs no model."""

from __future__ import annotations

import importlib
import platform
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from cli.attempt_journals import AttemptJournals
from cli.backoff import RestartBackoff
from cli.connection import (
    DEFAULT_AGENT,
    DEFAULT_PROJECT,
    DEFAULT_URL,
    AgentOption,
    KeyOption,
    MissionOption,
    ProjectOption,
    Session,
    UrlOption,
    Visibility,
    VisibilityOption,
    scope_in_words,
    scope_json,
)
from cli.console import EXIT_REFUSED, EXIT_USAGE, fail, out
from cli.drain_signal import DrainSignal
from cli.job_runner import ExtractorModule, JobRunner, RecoverPolicy, Report
from qilbeedb import ConsolidationClient, ConsolidationStopped, ConsumerError, ConsumerTransportError

DEFAULT_EXTRACTOR = "examples.entity_extractor"
DEFAULT_JOURNAL = Path("worker-journal")
TERMINAL = ("published", "cancelled", "exhausted")

_QUIET = ("working", "renewed")


def worker(
    job: Annotated[str, typer.Option("--job", metavar="ID", help="Work on this job until it has ended.")] = "",
    follow: Annotated[bool, typer.Option("--follow", help="Find ready jobs and work on them until SIGTERM.")] = False,
    extractor: Annotated[
        str, typer.Option(help="Module with EXTRACTOR, the provenance of its jobs, and a function `extract`.")
    ] = DEFAULT_EXTRACTOR,
    worker_id: Annotated[str, typer.Option("--worker-id", help="Label that is kept with each attempt.")] = "",
    journal: Annotated[
        Path,
        typer.Option(
            "--journal",
            envvar="WAGGLE_WORKER_JOURNAL",
            help="Private directory, kept between runs; a relative name is taken from where you stand.",
        ),
    ] = DEFAULT_JOURNAL,
    recover: Annotated[
        RecoverPolicy, typer.Option(help="Whose expired attempts to close, so that their jobs can run again.")
    ] = RecoverPolicy.OWN,
    poll_s: Annotated[float, typer.Option("--poll-s", min=0.01, help="Seconds between two looks for work.")] = 1.0,
    url: UrlOption = DEFAULT_URL,
    key: KeyOption = "",
    project: ProjectOption = DEFAULT_PROJECT,
    agent: AgentOption = DEFAULT_AGENT,
    mission: MissionOption = "",
    visibility: VisibilityOption = Visibility.SHARED,
) -> None:
    """Run an external extractor against durable jobs. SIGTERM lets the job at hand finish."""
    if bool(job) == follow:
        fail("either --job ID or --follow is needed", EXIT_USAGE)
    scope = scope_json(project, agent, mission, visibility)
    try:
        client = _connect(url, key, scope)
        journals = AttemptJournals(journal)
        loaded = load_extractor(extractor)
    except (ValueError, OSError, ConsumerError) as error:
        fail(str(error), EXIT_USAGE)
    drain = DrainSignal()
    drain.install()
    with _progress() as view:
        runner = JobRunner(
            client,
            journals,
            worker_id=worker_id or f"waggle-worker@{platform.node()}",
            extractor=loaded,
            policy=recover,
            report=view.show,
        )
        loop = WorkerLoop(runner, client, drain, view, poll_s=poll_s)
        try:
            status = loop.follow_jobs() if follow else loop.finish_job(job)
        except ConsolidationStopped as stop:
            fail(stop.code)
        except ConsumerError as error:
            asked = f"; asked for the scope {scope_in_words(scope)}" if error.code == "forbidden" else ""
            fail(f"{error}{asked}")
        except sqlite3.Error as error:
            fail(f"the journal below {journal} cannot be used: {error}")
    out.print(view.summary() if follow or not status else f"{view.summary()}; the job is {status}", markup=False)
    if not follow and status != "published":
        raise typer.Exit(EXIT_REFUSED)


def load_extractor(name: str) -> ExtractorModule:
    """Import an extractor's module.

    Raises:
        ValueError: There is no such module, or it lacks EXTRACTOR or `extract`.
    """
    try:
        module = importlib.import_module(name)
        return ExtractorModule(module.extract, module.EXTRACTOR["method"], module.EXTRACTOR["method_revision"])
    except (ImportError, AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"--extractor {name}: {error}") from error


class WorkerView:
    """Shows what happens: a line for each event, and on a terminal the job at hand."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._task = progress.add_task("waiting for jobs")
        self._counts: Counter[str] = Counter()
        self._renewals = 0

    def show(self, report: Report) -> None:
        """Show one event."""
        self._renewals = self._renewals + 1 if report.event == "renewed" else 0
        if report.event in _QUIET:
            renewed = f", renewed {self._renewals} times" if self._renewals else ""
            self._progress.update(self._task, description=f"working on {report.job_id}{renewed}")
            return
        self._counts[report.event] += 1
        self._progress.update(self._task, description="waiting for jobs")
        out.print(f"{report.event:<10}{report.job_id}  {report.detail}".rstrip(), markup=False)

    def note(self, text: str) -> None:
        """Show why nothing happens now."""
        self._progress.update(self._task, description=text)

    def summary(self) -> str:
        """Say what was done in all."""
        return "done: " + (", ".join(f"{count} {event}" for event, count in sorted(self._counts.items())) or "nothing")


class WorkerLoop:
    """Looks for work, again and again.

    Args:
        runner: Does it.
        client: For looking at one job.
        drain: When to end.
        view: What is shown.
        poll_s: Seconds between two looks when there was nothing to do.
    """

    def __init__(
        self, runner: JobRunner, client: ConsolidationClient, drain: DrainSignal, view: WorkerView, *, poll_s: float
    ) -> None:
        self._runner = runner
        self._client = client
        self._drain = drain
        self._view = view
        self._poll_s = poll_s
        self._backoff = RestartBackoff(first_s=0.1, longest_s=10.0)

    def follow_jobs(self) -> str:
        """Work on whatever is ready until a signal comes."""
        while not self._drain.is_set():
            with self._patience():
                self._runner.resume(self._drain.is_set)
                if not self._runner.run_ready(self._drain.is_set) + self._runner.recover_expired():
                    self._drain.wait(self._poll_s)
        return ""

    def finish_job(self, job_id: str) -> str:
        """Work on one job until it has ended or nothing can be done for it; return its status."""
        status = ""
        while not self._drain.is_set() and status not in TERMINAL:
            with self._patience():
                self._runner.resume(self._drain.is_set, job_id)
                inspection = self._client.inspect(job_id)
                status = inspection["job"]["status"]
                if status == "ready" and not self._runner.run_job(inspection):
                    return str(status)
                if status == "running" and inspection["recoverable"]:
                    if not self._runner.recover(inspection):
                        return str(status)
                elif status == "running":
                    self._view.note(f"waiting for the attempt of {inspection['job']['attempts'][-1]['worker_id']}")
                    self._drain.wait(self._poll_s)
        return status

    @contextmanager
    def _patience(self) -> Iterator[None]:
        """Wait after an error that may pass: no connection, a busy or failing server. Refusals pass through."""
        try:
            yield
        except ConsumerError as error:
            if not _is_passing(error):
                raise
            delay_s = self._backoff.next_delay_s(0.0)
            self._view.note(f"{error}, trying again in {delay_s:.1f} s")
            self._drain.wait(delay_s)
        else:
            self._backoff.crash_count = 0


def _is_passing(error: ConsumerError) -> bool:
    is_lost = isinstance(error, ConsumerTransportError) or error.code == "truncated_response"
    return is_lost or (error.status is not None and error.status >= 500)


@contextmanager
def _progress() -> Iterator[WorkerView]:
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=out, transient=True, disable=not out.is_terminal) as progress:
        yield WorkerView(progress)


def _connect(url: str, key: str, scope: dict[str, object]) -> ConsolidationClient:
    with Session(url, key) as gateway:
        credential = gateway.get("/api/v1/identity")["credential"]
    return ConsolidationClient(
        url, key, tenant_id=credential["tenant_id"], subject_id=credential["spec"]["subject_id"], scope=scope
    )
