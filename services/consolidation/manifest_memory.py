"""What a process remembers of jobs: which records they are about.

A manifest never changes, so what is remembered cannot be stale. It only says what to read together with the job, and
so saves a round trip; everything that is decided is decided on what was read.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Final

from services.domain import keys
from services.domain.jobs import Job

_JOBS_MAX: Final = 4096


class ManifestMemory:
    """Keys of the sources of the jobs used last. One for each process; safe to use from many threads."""

    def __init__(self, jobs_max: int = _JOBS_MAX) -> None:
        self._jobs_max = jobs_max
        self._keys_by_job: OrderedDict[str, tuple[bytes, ...]] = OrderedDict()
        self._lock = threading.Lock()

    def source_keys(self, job_id: str) -> tuple[bytes, ...]:
        """Keys of the records that the job is about; none when it is not remembered."""
        with self._lock:
            found = self._keys_by_job.get(job_id)
            if found is None:
                return ()
            self._keys_by_job.move_to_end(job_id)
            return found

    def note(self, job: Job) -> None:
        """Remember a job that was read."""
        record_keys = tuple(keys.record_key(source.record_id) for source in job.spec.sources)
        with self._lock:
            self._keys_by_job[job.job_id] = record_keys
            self._keys_by_job.move_to_end(job.job_id)
            while len(self._keys_by_job) > self._jobs_max:
                self._keys_by_job.popitem(last=False)
