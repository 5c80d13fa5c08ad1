"""The options of `waggle serve --envoy`."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer

from cli.edge import plan_edge
from cli.suite import EDGE, GATEWAY, plan_layout

LISTEN = "127.0.0.1:7443"


def test_a_self_made_certificate_lies_in_the_data_directory(tmp_path: Path) -> None:
    """And is the same at the next start."""
    first = plan_edge(tmp_path, LISTEN, "", None, None)
    assert tmp_path / "edge" / "tls.crt" == first.certificate
    assert ("https://127.0.0.1:7443", "") == (first.url, first.transcoder_listen)
    content = first.certificate.read_bytes()
    assert content == plan_edge(tmp_path, LISTEN, "", None, None).certificate.read_bytes()


def test_the_edge_is_a_process_of_its_suite(tmp_path: Path) -> None:
    """Started last and drained first; the gateway's address is told to it."""
    edge = plan_edge(tmp_path, "[::1]:7443", "[::1]:7444", None, None)
    layout = plan_layout(tmp_path, "127.0.0.1", 7474, edge)
    assert EDGE == layout.processes[-1]
    assert EDGE.drain_rank < GATEWAY.drain_rank
    assert "127.0.0.1:7474" == layout.environment(EDGE)["WAGGLE_GATEWAY_ADDRESS"]
    arguments = layout.arguments(EDGE)
    assert ["--listen", "[::1]:7443"] == arguments[:2]
    assert ["--transcoder-listen", "[::1]:7444"] == arguments[-2:]
    assert EDGE not in plan_layout(tmp_path, "127.0.0.1", 7474).processes


@pytest.mark.parametrize(
    ("listen", "transcoder", "certificate", "key", "word"),
    [
        ("nowhere", "", None, None, "HOST:PORT"),
        (LISTEN, "nowhere", None, None, "HOST:PORT"),
        (LISTEN, "", "tls.crt", None, "--certificate-key"),
        (LISTEN, "", None, "tls.key", "--certificate-key"),
        (LISTEN, "", "no.crt", "no.key", "no.crt"),
    ],
)
def test_options_that_cannot_be_used_are_said(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    listen: str,
    transcoder: str,
    certificate: str | None,
    key: str | None,
    word: str,
) -> None:
    """One line that names what is wrong."""
    with pytest.raises((SystemExit, typer.Exit)):
        plan_edge(tmp_path, listen, transcoder, certificate and Path(certificate), key and Path(key))  # type: ignore[arg-type]
    assert word in capsys.readouterr().err
