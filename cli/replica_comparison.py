"""Comparing what a retrieval process holds in memory with what storage holds, workspace by workspace."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import grpc

from cli.console import EXIT_USAGE, fail
from cli.operator_transport import operator_transport
from cli.progress_bar import ProgressBar
from cli.store_exports import EXIT_UNAVAILABLE
from services.audit.findings import Finding
from services.domain.errors import RecordNotFound, StorageInconsistency, WaggleError
from services.retrieval.convert_answers import ProtobufAnswerEncoder
from services.retrieval.partition_loading import LOADED_PREFIXES, PartitionLoader
from services.retrieval.replica_digest import SectionDigest, differing_sections, digest_sections
from services.runtime.identifiers import new_uuid
from services.runtime.status import RpcFailure, error_from_rpc
from services.storage.client import GrpcStore
from waggle.retrieval.v1 import replica_service_pb2 as pb
from waggle.retrieval.v1 import replica_service_pb2_grpc as pb_grpc

DIGEST_LIMIT_S: Final = 120.0
_ATTEMPTS: Final = 3


class Comparison(NamedTuple):
    """How the replica stands.

    Attributes:
        compared: Workspace ids that were compared at one head.
        left_out: (workspace id, why) of those that could not be.
        findings: What differs.
    """

    compared: list[str]
    left_out: list[tuple[str, str]]
    findings: list[Finding]


class _Held(NamedTuple):
    head: int
    incarnation: str
    sections: list[SectionDigest]


def compare_replica(
    storage_address: str,
    retrieval_address: str,
    admin_keys: Sequence[str],
    workspaces: Sequence[bytes],
) -> Comparison:
    """Compare the workspaces of the companies whose administrators' keys are given.

    Args:
        storage_address, retrieval_address: Of the two services.
        admin_keys: One for each company; workspaces of others are passed over.
        workspaces: Partition ids.
    """
    result = Comparison([], [], [])
    with (
        GrpcStore(storage_address, transport=operator_transport(storage_address)) as store,
        operator_transport(retrieval_address).open_channel(retrieval_address, "retrieval") as channel,
        ProgressBar("comparing the replica", len(workspaces)) as bar,
    ):
        digest_replica = pb_grpc.ReplicaServiceStub(channel).DigestReplica
        for done, partition in enumerate(workspaces):
            bar.set(done)
            try:
                _compare(store, digest_replica, admin_keys, partition, result)
            except StorageInconsistency as error:
                result.findings.append(Finding("replica", "", f"cannot be made: {error.message}", partition.hex()))
            except WaggleError as error:
                fail(f"the replica cannot be compared: {error.message}", EXIT_USAGE)
            except RpcFailure as error:
                fail(f"the replica cannot be compared: {error.message}", EXIT_UNAVAILABLE)
    return result


def _compare(
    store: GrpcStore,
    digest_replica: Callable[..., pb.DigestReplicaResponse],
    admin_keys: Sequence[str],
    partition: bytes,
    result: Comparison,
) -> None:
    for _ in range(_ATTEMPTS):
        held = _digest_held(digest_replica, admin_keys, partition)
        if held is None:
            return
        loaded = _load(store, partition)
        # Somebody may have written between the two readings.
        if held[:2] == loaded[:2]:
            result.compared.append(partition.hex())
            result.findings.extend(
                Finding("replica", section, "is not what storage holds", partition.hex())
                for section in differing_sections(held.sections, loaded.sections)
            )
            return
    result.left_out.append((partition.hex(), "it is being written to"))


def _digest_held(
    digest_replica: Callable[..., pb.DigestReplicaResponse], admin_keys: Sequence[str], partition: bytes
) -> _Held | None:
    """What retrieval holds; None when the workspace is of no company whose administrator's key is given."""
    request = pb.DigestReplicaRequest(contract_version=1, workspace_id=partition.hex())
    for key in admin_keys:
        metadata = (("authorization", f"Bearer {key}"), ("x-request-id", new_uuid()))
        try:
            answer = digest_replica(request, metadata=metadata, timeout=DIGEST_LIMIT_S)
        except grpc.RpcError as error:
            failure = error_from_rpc(error)
            if isinstance(failure, RecordNotFound):
                continue
            raise failure from error
        sections = [SectionDigest(item.name, item.entry_count, item.digest) for item in answer.sections]
        return _Held(answer.head, answer.incarnation, sections)
    return None


def _load(store: GrpcStore, partition: bytes) -> _Held:
    """What a replica holds that reads everything anew."""
    loader = PartitionLoader(ProtobufAnswerEncoder())
    for page in store.changed_since(partition, 0, key_prefixes=LOADED_PREFIXES):
        loader.add(page.rows)
    loaded = loader.finish(page.counts)
    return _Held(page.head, page.incarnation, digest_sections(loaded))
