"""The lines of a company's export, documented in docs/company-export.md: what each kind of stored key becomes.

Every line is one JSON object with a member `type`. The first is `export`, the last is `end`; it holds the SHA-256 of
all bytes before it, so that a file that was cut short or changed is told from a whole one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, Final

import orjson

from services.domain import keys
from services.domain.canonical_json import parse_canonical
from services.domain.embeddings import split_binding
from services.domain.receipts import EMBEDDING_FAMILY, MEMORY_FAMILY
from services.identity.credentials import decode_credential
from services.identity.login_accounts import decode_account

EXPORT_FORMAT_VERSION: Final = 1

Json = dict[str, Any]


class ExportDamaged(Exception):
    """A file is no export of a company, or not a whole and unchanged one. The message says what was found."""


class LineWriter:
    """Writes the lines of an export.

    Args:
        write: Takes the next bytes of the file.
    """

    def __init__(self, write: Callable[[bytes], object]) -> None:
        self._write = write
        self._digest = hashlib.sha256()
        self.counts: dict[str, int] = {}
        """Lines written so far, by type."""

    def put(self, kind: str, line: Json) -> None:
        """Write a line of a type."""
        text = orjson.dumps({"type": kind, **line}) + b"\n"
        self._digest.update(text)
        self._write(text)
        self.counts[kind] = self.counts.get(kind, 0) + 1

    def finish(self) -> None:
        """Write the last line."""
        self.put("end", {"line_count": sum(self.counts.values()), "sha256": self._digest.hexdigest()})


def read_lines(file: BinaryIO) -> Iterator[Json]:
    """Yield the lines of an export, from the first to the last but one. Only at the end is the whole known to be good.

    Raises:
        ExportDamaged: It is no export, of another version, cut short, or changed.
        OSError: It cannot be read.
    """
    digest = hashlib.sha256()
    count = 0
    for number, text in enumerate(file, start=1):
        try:
            line: Json = orjson.loads(text)
            kind = line["type"]
        except (ValueError, KeyError, TypeError) as error:
            raise ExportDamaged(f"line {number} is not a line of an export") from error
        if number == 1 and (kind != "export" or line.get("format_version") != EXPORT_FORMAT_VERSION):
            raise ExportDamaged(f"it does not begin as an export of format version {EXPORT_FORMAT_VERSION}")
        if kind == "end":
            if (line.get("line_count"), line.get("sha256")) != (count, digest.hexdigest()):
                raise ExportDamaged("it is not what was exported: its last line does not agree with the lines before")
            if file.read(1):
                raise ExportDamaged(f"something follows its last line {number}")
            return
        digest.update(text)
        count += 1
        yield line
    raise ExportDamaged(f"it was cut short after line {count}")


def workspace_line(key: bytes, value: bytes) -> tuple[str, Json] | None:
    """Type and content of the line of a key of a workspace; None for a key that follows from others.

    Args:
        key: The key.
        value: Its value.
    """
    kind = key[:1]
    if kind == keys.RECORD:
        return "record", {"record": parse_canonical(value)}
    if kind == keys.REVIEW:
        return "review", {"receipt": parse_canonical(value)}
    if kind == keys.BINDING:
        header, vector = split_binding(value)
        # As in the digest: the shortest decimals that give the float32 values back.
        numbers = orjson.loads(orjson.dumps(vector, option=orjson.OPT_SERIALIZE_NUMPY))
        return "embedding", {"receipt": parse_canonical(header), "vector": numbers}
    if kind == keys.RELATION:
        return "relation", {"relation": parse_canonical(value)}
    if kind == keys.RELATION_HISTORY:
        return "relation_revision", parse_canonical(value)
    if kind == keys.JOB:
        return "job", {"job": parse_canonical(value)}
    if kind == keys.JOB_HISTORY:
        return "job_revision", parse_canonical(value)
    if kind == keys.RECEIPT and key[1:2] in (MEMORY_FAMILY, EMBEDDING_FAMILY):
        # Receipts of the other families stand in the histories and decisions.
        return "receipt", parse_canonical(value)
    return None


def company_line(company_id: str, key: bytes, value: bytes) -> tuple[str, Json] | None:
    """The same for a key of the identity partition; None too for whatever is another company's. Never a secret."""
    kind = key[:1]
    tag = keys.company_tag(company_id)
    if key == keys.company_key(company_id):
        return "company", {"company": parse_canonical(value)}
    if kind == keys.AGENT and key[1:33] == tag:
        return "agent", {"agent": parse_canonical(value)}
    if kind == keys.CREDENTIAL:
        credential = decode_credential(value)
        return ("credential", {"credential": credential.as_json()}) if credential.tenant_id == company_id else None
    if kind == keys.LOGIN_ACCOUNT:
        account = decode_account(value)
        return ("login_account", {"account": account.as_json()}) if account.company_id == company_id else None
    return None
