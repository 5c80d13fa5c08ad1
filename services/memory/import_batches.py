"""Commands of an import, gathered into batches, and prepared while the batch before is being committed."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, TypeVar

from services.memory.import_commands import ImportItem
from services.storage.contract import KEYS_MAX

T = TypeVar("T")

BATCH_COMMANDS_DEFAULT: Final = 1_024
BATCH_BYTES: Final = 8 * 1024 * 1024
# The registration of agent and workspace needs a few keys of its own.
_BATCH_KEYS_MAX: Final = KEYS_MAX - 8
_END: Final = object()


@dataclass(slots=True)
class Batch:
    """Consecutive commands of an import that are committed together.

    Attributes:
        start: Position of the first command in the import.
        size_bytes: Sum of the sizes of the commands as requests.
        key_count: Greatest number of keys that they need to be read at once.
    """

    start: int
    items: list[ImportItem] = field(default_factory=list)
    size_bytes: int = 0
    key_count: int = 0


def gather_batches(sized_items: Iterable[tuple[ImportItem, int]], *, batch_commands: int) -> Iterator[Batch]:
    """Cut commands into batches of bounded number, bytes and keys.

    A batch is handed out as soon as it is full. One also ends with a command that is refused in any case: a command
    before it may be refused first, and nothing after it will be looked at.

    Args:
        sized_items: Commands in order, with their sizes as requests in bytes.
        batch_commands: Greatest number of commands in a batch.
    """
    batch = Batch(0)
    for item, size_bytes in sized_items:
        has_room = (
            batch.size_bytes + size_bytes <= BATCH_BYTES and batch.key_count + item.key_count_max <= _BATCH_KEYS_MAX
        )
        if batch.items and not has_room:
            yield batch
            batch = Batch(batch.start + len(batch.items))
        batch.items.append(item)
        batch.size_bytes += size_bytes
        batch.key_count += item.key_count_max
        if len(batch.items) >= batch_commands or item.refusal is not None:
            yield batch
            batch = Batch(batch.start + len(batch.items))
    if batch.items:
        yield batch


def read_ahead(source: Iterator[T]) -> Iterator[T]:
    """Yield what `source` yields, while a thread of its own already makes the next element.

    What `source` raises is raised here, after the elements before it. When the reader of this iterator leaves early,
    the thread ends with the element that it is making.
    """
    made: queue.Queue[object] = queue.Queue(maxsize=1)
    left = threading.Event()

    def run() -> None:
        last: object = _END
        try:
            for element in source:
                made.put(element)
                if left.is_set():
                    return
        except Exception as error:  # noqa: BLE001 - raised again where the elements are read
            last = _Raised(error)
        made.put(last)

    threading.Thread(target=run, name="import-read-ahead", daemon=True).start()
    try:
        while True:
            element = made.get()
            if isinstance(element, _Raised):
                raise element.error
            if element is _END:
                return
            yield element  # type: ignore[misc]
    finally:
        left.set()
        # Room for the element that the thread may be about to hand over.
        while not made.empty():
            made.get_nowait()


class _Raised:
    """Carries an error from one thread to the other."""

    def __init__(self, error: Exception) -> None:
        self.error = error
