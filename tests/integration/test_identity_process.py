"""The identity service as a process: how it starts, refuses to start, and outlives storage."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import grpc
import pytest

from services.identity.bootstrap import bootstrap_tenant
from services.identity.verifier_key import create_verifier_key
from services.runtime.channel import open_channel
from services.runtime.version import VERSION
from services.storage.directory import create_store, open_store
from waggle.identity.v1 import credentials_pb2, identity_service_pb2_grpc
from waggle.identity.v1 import identity_service_pb2 as pb

ROOT = Path(__file__).parents[2]
START_LIMIT_S = 30
CALL_LIMIT_S = 20


@contextmanager
def process(module: str, *arguments: str, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a service until the end of the block."""
    running = subprocess.Popen(
        [sys.executable, "-m", module, *arguments],
        cwd=ROOT,
        env={**os.environ, **environment},
        stderr=subprocess.PIPE,
    )
    try:
        yield running
    finally:
        running.kill()
        running.communicate()


def wait_for(address: str) -> None:
    """Return when something listens there."""
    with open_channel(address) as channel:
        grpc.channel_ready_future(channel).result(START_LIMIT_S)


@pytest.mark.parametrize(
    ("content", "complaint"), [(None, b"WAGGLE_VERIFIER_KEY_FILE must be set"), (b"00" * 31, b"64 lowercase hex")]
)
def test_it_refuses_to_start_without_a_whole_verifier_key(
    tmp_path: Path, content: bytes | None, complaint: bytes
) -> None:
    """Ends with code 3 and a sentence for the operator, never with a new key."""
    path = tmp_path / "verifier.key"
    environment = {"WAGGLE_STORAGE_ADDRESS": f"unix:{tmp_path}/s.sock", "WAGGLE_VERIFIER_KEY_FILE": ""}
    if content is not None:
        path.write_bytes(content)
        environment["WAGGLE_VERIFIER_KEY_FILE"] = str(path)
    with process("services.identity", "--listen", f"unix:{tmp_path}/i.sock", **environment) as running:
        _, log = running.communicate(timeout=START_LIMIT_S)
        assert running.returncode == 3
    assert complaint in log


def test_it_finds_storage_again_after_it_was_killed(tmp_path: Path) -> None:
    """Acknowledged credentials are there, the key still works, and further ones can be issued, by the same process."""
    data, storage_address, address = tmp_path / "data", f"unix:{tmp_path}/s.sock", f"unix:{tmp_path}/i.sock"
    create_store(data)
    key = create_verifier_key(tmp_path / "verifier.key")
    with open_store(data) as store:
        secret = bootstrap_tenant(store, key, tenant_id="acme", subject_id="root")["secret"]
    caller = {"metadata": (("authorization", f"Bearer {secret}"),), "timeout": CALL_LIMIT_S}
    spec = credentials_pb2.CredentialSpec(subject_id="svc", capabilities=[credentials_pb2.CAPABILITY_MEMORY_READ])
    issue = pb.IssueCredentialRequest(contract_version=1, spec=spec)
    storage_arguments = ("--data-dir", str(data), "--listen", storage_address)
    with process(
        "services.identity",
        "--listen",
        address,
        WAGGLE_STORAGE_ADDRESS=storage_address,
        WAGGLE_VERIFIER_KEY_FILE=str(tmp_path / "verifier.key"),
    ):
        with process("services.storage", *storage_arguments) as storage, open_channel(address) as channel:
            wait_for(storage_address)
            wait_for(address)
            stub = identity_service_pb2_grpc.IdentityServiceStub(channel)
            assert stub.GetHealth(pb.GetHealthRequest(), timeout=CALL_LIMIT_S).version == VERSION
            issued = stub.IssueCredential(issue, **caller).credential
            storage.kill()
            storage.wait()
        with process("services.storage", *storage_arguments), open_channel(address) as channel:
            wait_for(storage_address)
            stub = identity_service_pb2_grpc.IdentityServiceStub(channel)
            assert stub.GetCredential(pb.GetCredentialRequest(credential_id=issued.id), **caller).credential == issued
            second = stub.IssueCredential(issue, **caller)
            me = (("authorization", f"Bearer {second.secret}"),)
            assert (
                stub.GetIdentity(pb.GetIdentityRequest(), metadata=me, timeout=CALL_LIMIT_S).credential
                == second.credential
            )
