"""Runs the processes of the suite: starts them, restarts what crashes or hangs, drains them in order.

Everything but the question whether a process lives happens in one thread, the main one. It must: the kernel ties a
child's parent-death signal to the thread that started it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from cli.backoff import RestartBackoff
from cli.liveness import INTERVAL_S, MISSES_MAX, LivenessWatch
from cli.readiness import GrpcProbe, HttpProbe
from cli.suite import EDGE, GATEWAY, RUN_DIRECTORY, STORAGE, ServiceProcess, SuiteLayout
from services.runtime.logging import get_logger
from services.runtime.process import SUPERVISOR_VARIABLE
from services.runtime.server import DRAIN_S
from services.runtime.start_failure import START_REPORT_VARIABLE

POLL_S = 0.03
START_S = 60.0
STORAGE_VERDICT_S = 10.0
# A drained process ends by itself; this is for one that hangs.
KILL_AFTER_S = DRAIN_S + 4.0

log = get_logger()


class StartFailed(Exception):
    """A process ended before the suite was ready. The message is what the process said, for the operator.

    Attributes:
        exit_code: The exit code of that process.
    """

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


@dataclass(slots=True)
class _Child:
    process: ServiceProcess
    probe: GrpcProbe | HttpProbe
    report: Path
    watch: LivenessWatch
    backoff: RestartBackoff = field(default_factory=RestartBackoff)
    handle: subprocess.Popen[bytes] | None = None
    started_at_s: float = 0.0
    start_due_at_s: float = 0.0
    is_ready: bool = False

    def is_running(self) -> bool:
        return self.handle is not None and self.handle.poll() is None


class Supervisor:
    """The processes of one suite.

    Args:
        layout: Where they live and listen.
        inherited: Open file that every process keeps until its end; see `succession`.
        liveness_interval_s: How often each process is asked whether it lives; 0 for never. See `liveness`.
    """

    def __init__(self, layout: SuiteLayout, inherited: int, *, liveness_interval_s: float = INTERVAL_S) -> None:
        self._layout = layout
        self._inherited = inherited
        self._stop_count = 0
        self._has_been_ready = False
        reports = layout.data_directory / RUN_DIRECTORY
        # A thread for each: one that hangs keeps its own waiting and no other.
        self._askers = ThreadPoolExecutor(len(layout.processes), thread_name_prefix="liveness")
        self._children = [
            _Child(
                process,
                probe := self._probe_of(process),
                reports / f"{process.name}.start-report",
                LivenessWatch(probe.is_answering, self._askers, liveness_interval_s),
            )
            for process in layout.processes
        ]

    def _probe_of(self, process: ServiceProcess) -> GrpcProbe | HttpProbe:
        edge = self._layout.edge
        if process is EDGE and edge is not None:
            return HttpProbe(edge.host, edge.port, certificate=edge.certificate)
        if process is GATEWAY:
            return HttpProbe(self._layout.host, self._layout.port)
        return GrpcProbe(self._layout.address(process))

    def run(self, on_ready: Callable[[], None]) -> None:
        """Start everything, call `on_ready` once, keep it running until SIGTERM or SIGINT, then drain.

        Raises:
            StartFailed: A process ended before the suite was ready; everything else has been stopped.
            TimeoutError: The suite was not ready in time; everything has been stopped.
        """
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._note_stop)
        give_up_at_s = time.monotonic() + START_S
        try:
            while not self._stop_count:
                self._tend()
                if not self._has_been_ready:
                    self._probe()
                    if all(child.is_ready for child in self._children):
                        self._has_been_ready = True
                        self._layout.write_suite_file()
                        on_ready()
                    elif time.monotonic() > give_up_at_s:
                        waiting = ", ".join(child.process.name for child in self._children if not child.is_ready)
                        raise TimeoutError(f"not ready after {START_S:.0f} s: {waiting}")
                time.sleep(POLL_S)
        finally:
            self._layout.remove_suite_file()
            self._drain()
            for child in self._children:
                child.probe.close()
                child.report.unlink(missing_ok=True)
            self._askers.shutdown(cancel_futures=True)
            log.info("stopped")

    def _note_stop(self, _number: int, _frame: FrameType | None) -> None:
        self._stop_count += 1

    def _tend(self) -> None:
        now_s = time.monotonic()
        for child in self._children:
            if child.handle is None:
                if now_s >= child.start_due_at_s:
                    self._start(child)
            elif child.handle.poll() is not None:
                self._note_exit(child, child.handle.returncode, now_s)
            elif self._has_been_ready and child.watch.is_hung():
                # It does not drain any more; its end is noted, and another one started, like that of a crash.
                log.error("process_hangs", process=child.process.name, pid=child.handle.pid, unanswered=MISSES_MAX)
                child.handle.kill()
                child.handle.wait()

    def _start(self, child: _Child) -> None:
        child.report.unlink(missing_ok=True)
        environment = {
            **os.environ,
            **self._layout.environment(child.process),
            SUPERVISOR_VARIABLE: str(os.getpid()),
            START_REPORT_VARIABLE: str(child.report),
        }
        command = [sys.executable, "-m", "services.runtime.process", child.process.module]
        child.handle = subprocess.Popen(
            [*command, *self._layout.arguments(child.process)],
            env=environment,
            stdin=subprocess.DEVNULL,
            pass_fds=(self._inherited,),
            # A session of its own: Ctrl-C reaches the supervisor only, which then drains in order.
            start_new_session=True,
        )
        child.started_at_s = time.monotonic()
        child.is_ready = False
        child.watch.forget()
        log.info("started", process=child.process.name, pid=child.handle.pid)

    def _note_exit(self, child: _Child, code: int, now_s: float) -> None:
        child.handle = None
        message = _read_report(child.report)
        if not self._has_been_ready:
            if child.process is not STORAGE:
                self._await_storage()
            text = message or f"{child.process.name} ended with {describe_exit(code)} before it was ready"
            raise StartFailed(text, code if code > 0 else 1)
        delay_s = child.backoff.next_delay_s(now_s - child.started_at_s)
        child.start_due_at_s = now_s + delay_s
        log.error(
            "process_ended",
            process=child.process.name,
            how=describe_exit(code),
            restart_in_s=round(delay_s, 3),
            said=message or None,
        )

    def _await_storage(self) -> None:
        """Let storage speak first: what it has to say about the directory is why the others failed too."""
        storage = next(child for child in self._children if child.process is STORAGE)
        give_up_at_s = time.monotonic() + STORAGE_VERDICT_S
        while storage.is_running() and not storage.probe.is_ready() and time.monotonic() < give_up_at_s:
            time.sleep(POLL_S)
        if storage.handle is not None and storage.handle.poll() is not None:
            self._note_exit(storage, storage.handle.returncode, time.monotonic())

    def _probe(self) -> None:
        for child in self._children:
            if not child.is_ready and child.is_running():
                child.is_ready = child.probe.is_ready()

    def _drain(self) -> None:
        for rank in sorted({child.process.drain_rank for child in self._children}):
            group = [child for child in self._children if child.process.drain_rank == rank]
            for child in group:
                if child.handle is not None and child.handle.poll() is None:
                    child.handle.send_signal(signal.SIGTERM)
            give_up_at_s = time.monotonic() + KILL_AFTER_S
            for child in group:
                self._await_end(child, give_up_at_s)

    def _await_end(self, child: _Child, give_up_at_s: float) -> None:
        if child.handle is None:
            return
        # A second Ctrl-C means now.
        while child.handle.poll() is None and time.monotonic() < give_up_at_s and self._stop_count < 2:
            time.sleep(POLL_S)
        if child.handle.poll() is None:
            log.error("killed", process=child.process.name, pid=child.handle.pid)
            child.handle.kill()
        child.handle.wait()
        child.handle = None


def describe_exit(code: int) -> str:
    """Say how a process ended, from what `subprocess` reports."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"


def _read_report(report: Path) -> str:
    try:
        return report.read_text(encoding="utf-8").strip()
    except OSError:
        return ""
