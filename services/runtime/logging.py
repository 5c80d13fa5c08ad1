"""Structured logs: one JSON object a line on standard error, without secrets or memory content.

Members are `ts` (UTC, RFC 3339), `level`, `service`, `event`, and what the call site adds.
"""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import MutableMapping
from typing import Any

import orjson
import structlog

from services.runtime.log_sink import LogSink, TextLogSink

_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
_SECRET_MEMBERS = frozenset(
    {"authorization", "secret", "token", "password", "verifier_key", "bearer", "vector", "text", "payload", "content"}
)
_TOKEN = re.compile(r"qdb[a-z]*1_[0-9A-Za-z_-]+")
_REDACTED = "[redacted]"

Event = MutableMapping[str, Any]


def redact_event(_logger: object, _method: str, event: Event) -> Event:
    """Blank members that carry secrets or memory content, and anything that looks like a token in any text."""
    for name, value in event.items():
        if name in _SECRET_MEMBERS:
            event[name] = _REDACTED
        elif isinstance(value, str) and "qdb" in value:
            event[name] = _TOKEN.sub(_REDACTED, value)
    return event


def configure_logging(service: str) -> None:
    """Send all logs of the process, those of libraries included, to standard error as JSON lines.

    Args:
        service: Name of the process, written as `service` on every line.

    The environment variable `WAGGLE_LOG_LEVEL` (debug, info, warning, error) sets the least level; info by default.
    A line that cannot be written is lost, and the process goes on; see `LogSink`.
    """
    level = _LEVELS.get(os.environ.get("WAGGLE_LOG_LEVEL", "info").lower(), logging.INFO)

    def add_service(_logger: object, _method: str, event: Event) -> Event:
        event["service"] = service
        return event

    shared: list[Any] = [
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="ts"),
        add_service,
        structlog.processors.format_exc_info,
        redact_event,
    ]
    # Past the buffer: what it could not write would fail again when the process ends.
    sink = LogSink(getattr(sys.stderr.buffer, "raw", sys.stderr.buffer))
    structlog.configure(
        processors=[*shared, structlog.processors.JSONRenderer(serializer=_dump)],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.BytesLoggerFactory(sink),  # type: ignore[arg-type]  # write and flush are all it uses
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(TextLogSink(sink))
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.JSONRenderer(serializer=_dump_text),
            ],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(max(level, logging.WARNING))


def get_logger() -> structlog.typing.FilteringBoundLogger:
    """Return a logger; call it as `logger.info("event_name", member=value)`."""
    logger: structlog.typing.FilteringBoundLogger = structlog.get_logger()
    return logger


def _dump(event: Event, **_options: object) -> bytes:
    return orjson.dumps(event, default=str)


def _dump_text(event: Event, **_options: object) -> str:
    return _dump(event).decode("utf-8")
