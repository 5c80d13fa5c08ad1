"""A process under mutual TLS tells Prometheus when its certificate ends."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import httpx
from cryptography import x509
from prometheus_client.parser import text_string_to_metric_families

from tests.harness.certificates import Certificates, issued_certificates
from tests.harness.ports import free_port
from tests.harness.suite import wait_until

# Does nothing until its input ends.
PROCESS = """
import sys
from services.runtime.main import run_process

sys.exit(run_process("watched", lambda process: len(sys.stdin.read()), None, description="A process."))
"""


def end_of(certificates: Certificates) -> float:
    """When the certificate in the file ends, in seconds since 1970."""
    certificate = x509.load_pem_x509_certificate(certificates.files("memory").certificate.read_bytes())
    return certificate.not_valid_after_utc.timestamp()


def test_the_end_follows_the_file(tmp_path: Path) -> None:
    """A renewed certificate is told without a connection that takes it up."""
    certificates = issued_certificates(tmp_path)
    address = f"127.0.0.1:{free_port()}"
    environment = {**os.environ, **certificates.environment("memory"), "WAGGLE_METRICS_LISTEN": address}

    def told() -> set[tuple[str, float]]:
        try:
            text = httpx.get(f"http://{address}/metrics", trust_env=False).text
        except httpx.ConnectError:
            return set()
        return {
            (sample.labels["service"], sample.value)
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name == "waggle_certificate_end_seconds"
        }

    command = [sys.executable, "-c", PROCESS, "--listen", "nowhere"]
    with subprocess.Popen(command, env=environment, stdin=subprocess.PIPE) as process:
        try:
            former = end_of(certificates)
            wait_until(lambda: {("watched", former)} == told(), "the end of the first certificate is told")
            # Times in a certificate are whole seconds.
            wait_until(lambda: (certificates.renew(), end_of(certificates) > former)[1], "another one ends later")
            wait_until(lambda: {("watched", end_of(certificates))} == told(), "the end of the new one is told")
            process.communicate(b"")
        finally:
            process.kill()
    assert 0 == process.returncode
