"""Who a client is, in a journal and before a server."""

from __future__ import annotations

import hashlib
import math
from pathlib import Path
from typing import Any

import pytest

from qilbeedb import (
    ConsolidationClient,
    ConsumerProtocolError,
    ExternalConsolidationWorker,
    MemoryClient,
    SQLiteConsolidationJournal,
)

SCOPE = {"project_id": "p\u00e9", "agent_id": "a", "visibility": "shared"}


def client(url: str = "http://h:1/base", key: Any = "k", **members: Any) -> ConsolidationClient:
    return ConsolidationClient(
        url, key, **{"tenant_id": "acme", "subject_id": "s", "scope": SCOPE, "timeout": 1, **members}
    )


def digest(text: str) -> str:
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def test_binding_of_a_client() -> None:
    """The documented digest of server, company, subject and whole scope."""
    expected = digest(
        '["qilbee.consolidation.client.v1","http://h:1/base","acme","s",'
        '{"agent_id":"a","mission_id":null,"project_id":"p\\u00e9","visibility":"shared"}]'
    )
    assert expected == client().binding_id
    assert expected == client("http://h:1/base//").binding_id
    assert expected == client(scope={**SCOPE, "mission_id": None}).binding_id
    assert expected == client(key=lambda: "another").binding_id
    for other in (client("http://h:2/base"), client(subject_id="t"), client(scope={**SCOPE, "mission_id": "m"})):
        assert expected != other.binding_id


def test_binding_of_a_worker(tmp_path: Path) -> None:
    """The documented digest of its client and its label."""
    one = client()
    worker = ExternalConsolidationWorker(one, SQLiteConsolidationJournal(tmp_path / "j"), worker_id="w")
    assert digest(f'["qilbee.consolidation.worker.v1","{one.binding_id}","w"]') == worker.binding_id
    assert ("w", one) == (worker.worker_id, worker.client)


@pytest.mark.parametrize(
    "url",
    [
        "ftp://h", "http://", "h:7474", "http://u@h", "http://u:p@h", "http://h?q", "http://h/?", "http://h#f",
        "http://h/#", "http://h:port", "http://h:99999", "http://h/a b", "http://h/\n", "", 7,
    ],
)  # fmt: skip
def test_refused_urls(url: Any) -> None:
    """Only http and https, with a host and nothing that would be lost or leak."""
    with pytest.raises(ValueError):
        client(url)


@pytest.mark.parametrize("timeout", [0, -1, math.inf, math.nan, 1e10, 10**400, True, "1", None])
def test_refused_timeouts(timeout: Any) -> None:
    """A positive, finite number."""
    with pytest.raises(ValueError, match="timeout"):
        client(timeout=timeout)


@pytest.mark.parametrize("key", [None, b"k", 1])
def test_refused_kinds_of_credential(key: Any) -> None:
    """Text, or something to call."""
    with pytest.raises(TypeError):
        client(key=key)


@pytest.mark.parametrize(
    "members",
    [
        {"tenant_id": ""},
        {"tenant_id": "x" * 257},
        {"subject_id": "\t"},
        {"subject_id": None},
        {"scope": {**SCOPE, "visibility": "public"}},
        {"scope": {**SCOPE, "team_id": "t"}},
        {"scope": {"project_id": "p", "visibility": "shared"}},
        {"scope": {**SCOPE, "mission_id": ""}},
        {"scope": [SCOPE]},
    ],
)
def test_refused_identities(members: dict[str, Any]) -> None:
    """Names and the scope are as documented, or the client is not made."""
    with pytest.raises(ConsumerProtocolError) as caught:
        client(**members)
    assert "invalid_response" == caught.value.code


@pytest.mark.parametrize("members", [{"retries": -1}, {"retries": 11}, {"retries": True}, {"response_bytes_max": 1023}])
def test_bounds_of_the_memory_client(members: dict[str, Any]) -> None:
    """Repetitions and answers are bounded."""
    with pytest.raises(ValueError):
        MemoryClient("http://h", "k", tenant_id="acme", subject_id="s", scope=SCOPE, **members)
