"""The suite that is soaked: `waggle serve --envoy` on a new store, two companies, and who may do what in them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import psutil

from cli.edge import EDGE_DIRECTORY
from cli.suite import EDGE
from services.edge.certificate import CERTIFICATE_FILE
from tests.harness.ports import free_port
from tests.harness.suite import OTHER_COMPANY, SERVICES, Suite, make_suite

# Few enough that requests are refused for want of a slot now and then, and enough that work goes on.
ENVIRONMENT = {"QILBEE_MAX_CONCURRENT_RETRIEVALS": "4"}
LIVENESS_S = 2.0
_TRUST = "SSL_CERT_FILE"
PROCESSES = (*SERVICES, EDGE.name)
MEMORY_CAPABILITIES = ["memory_read", "memory_write", "memory_review", "memory_checkpoint"]


@dataclass(frozen=True, slots=True)
class SoakedSuite:
    """A running suite with its edge.

    Attributes:
        companies: The suite as each company has it, with keys of its own.
        edge_port: Where Envoy serves HTTPS and gRPC on this machine.
        certificate: What clients of that trust.
    """

    companies: tuple[Suite, ...]
    edge_port: int
    certificate: Path

    @property
    def suite(self) -> Suite:
        """The first company's, which also has the processes."""
        return self.companies[0]

    @property
    def edge_url(self) -> str:
        """Base URL of the edge."""
        return f"https://127.0.0.1:{self.edge_port}"

    def envoy_id(self) -> int | None:
        """Process id of Envoy itself, which the edge's process runs; None while there is none."""
        for edge_id in self.suite.process_ids().get(EDGE.name, []):
            try:
                children = psutil.Process(edge_id).children()
            except psutil.NoSuchProcess:
                continue
            return children[0].pid if children else None
        return None


@contextmanager
def soaked_suite(directory: Path) -> Iterator[SoakedSuite]:
    """Make a store below `directory`, start the suite on it, issue keys, and stop everything at the end."""
    suite = make_suite(directory)
    port = free_port()
    suite.environment = dict(ENVIRONMENT)
    suite.serve_options = ("--envoy", "--edge-listen", f"127.0.0.1:{port}", "--liveness-interval", str(LIVENESS_S))
    suite.start()
    try:
        certificate = suite.data_directory / EDGE_DIRECTORY / CERTIFICATE_FILE
        # Whoever uses the standard library's default trust, as the SDK does, trusts this edge.
        os.environ[_TRUST] = str(certificate)
        suite.writer_key = suite.issue("writer", MEMORY_CAPABILITIES)
        other = replace(suite, company=OTHER_COMPANY, admin_key=suite.other_admin_key, other_admin_key="")
        other.writer_key = other.issue("writer", MEMORY_CAPABILITIES)
        yield SoakedSuite((suite, other), port, certificate)
    finally:
        os.environ.pop(_TRUST, None)
        suite.stop()
