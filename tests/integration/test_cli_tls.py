"""Commands over HTTPS: which certificates they believe."""

from __future__ import annotations

import pytest
import typer

from cli.connection import Session
from tests.harness.edge import Edge
from tests.harness.suite import Suite


def ask_who_it_is(edge: Edge, suite: Suite) -> str:
    with Session(f"https://127.0.0.1:{edge.ports['edge']}", suite.admin_key) as gateway:
        subject: str = gateway.get("/api/v1/identity")["credential"]["spec"]["subject_id"]
    return subject


def test_an_authority_of_ones_own_is_named_in_the_environment(
    edge: Edge, plain_suite: Suite, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the variable that all programs with OpenSSL know."""
    monkeypatch.setenv("SSL_CERT_FILE", str(edge.certificate))
    assert "administrator" == ask_who_it_is(edge, plain_suite)


def test_an_unknown_authority_is_refused_and_the_way_out_is_told(
    edge: Edge, plain_suite: Suite, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In one line, with the variable's name."""
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    with pytest.raises(typer.Exit):
        ask_who_it_is(edge, plain_suite)
    assert "SSL_CERT_FILE" in capsys.readouterr().err
