"""How commands reach services: plain over the sockets of this machine, else as the environment says."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from cli.main import app
from cli.operator_transport import operator_transport
from services.runtime.key_material import TLS_VARIABLES
from services.runtime.transport import PLAIN
from tests.harness.certificates import issued_certificates


def set_environment(monkeypatch: pytest.MonkeyPatch, environment: dict[str, str]) -> None:
    for name in TLS_VARIABLES:
        monkeypatch.setenv(name, environment.get(name, ""))


def test_without_variables_it_is_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the services are then."""
    set_environment(monkeypatch, {})
    assert operator_transport("127.0.0.1:7470").key_material is None


def test_over_a_network_the_operators_certificate_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And not to a socket of `waggle serve`, which speaks plain text."""
    certificates = issued_certificates(tmp_path)
    set_environment(monkeypatch, certificates.environment("admin"))
    material = operator_transport("dns:///waggle-storage:7470").key_material
    assert material is not None
    assert certificates.files("admin").certificate.read_bytes() == material.current().certificate
    assert PLAIN is operator_transport("unix:/run/storage.sock")


def test_files_that_cannot_be_used_end_the_command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """With a sentence, never with plain text instead."""
    set_environment(monkeypatch, dict.fromkeys(TLS_VARIABLES, str(tmp_path / "none")))
    runner = CliRunner()
    result = runner.invoke(app, ["backup", "--storage-address", "127.0.0.1:1", "--output", str(tmp_path / "b")])
    assert 2 == result.exit_code


def test_a_suite_of_one_machine_takes_no_certificate(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """One for all of its processes would be a name for none; it says so instead of ignoring it."""
    set_environment(monkeypatch, {TLS_VARIABLES[0]: "tls.crt"})
    result = CliRunner().invoke(app, ["serve", "--data-dir", str(tmp_path)])
    assert 2 == result.exit_code
    assert "WAGGLE_TLS_" in result.output
