"""The port of each service, reached directly: without a valid key there is nothing to gain.

The methods are those that the processes themselves name by reflection, so that none is forgotten.
"""

from __future__ import annotations

from collections.abc import Iterator

import grpc
import pytest
from google.protobuf import message_factory
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.descriptor_pool import DescriptorPool
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

from services.runtime.channel import open_channel
from services.runtime.status import error_info
from tests.harness.suite import Suite

CALL_S = 30.0
SERVICES = ("identity", "memory", "retrieval", "consolidation")
OPEN_TO_ALL = {"grpc.health.v1.Health", "grpc.reflection.v1alpha.ServerReflection"}
# They are asked before there is a key.
OPEN_METHODS = {"GetHealth"}
LOGINS = {"Login", "AdminLogin"}
STRANGERS: dict[str, tuple[tuple[str, str], ...]] = {
    "no key": (),
    "an empty key": (("authorization", "Bearer "),),
    "a key that was never issued": (("authorization", f"Bearer {'A' * 43}"),),
    "another scheme": (("authorization", "Basic QTpB"),),
    "two keys": (("authorization", "Bearer a"), ("authorization", "Bearer b")),
    "a gateway's word": (("x-tenant-id", "acme"), ("x-subject-id", "writer"), ("x-capabilities", "memory_read")),
}


class Port:
    """One service's port, and what it says that it serves."""

    def __init__(self, channel: grpc.Channel) -> None:
        self.channel = channel
        self._described = ProtoReflectionDescriptorDatabase(channel)
        self._pool = DescriptorPool(self._described)

    def services(self) -> set[str]:
        return set(self._described.get_services())

    def methods(self, service: str) -> list[MethodDescriptor]:
        return list(self._pool.FindServiceByName(service).methods)

    def call(self, method: MethodDescriptor, metadata: tuple[tuple[str, str], ...]) -> tuple[grpc.StatusCode, str]:
        """Status and documented code of a call with the least request that there is."""
        request = message_factory.GetMessageClass(method.input_type)()
        if "contract_version" in method.input_type.fields_by_name:
            request.contract_version = 1  # type: ignore[attr-defined]
        kind = f"{'stream' if method.client_streaming else 'unary'}_{'stream' if method.server_streaming else 'unary'}"
        path = f"/{method.containing_service.full_name}/{method.name}"
        data = request.SerializeToString()
        try:
            answer = getattr(self.channel, kind)(path)(
                iter([data]) if method.client_streaming else data, metadata=metadata, timeout=CALL_S
            )
            if method.server_streaming:
                list(answer)
        except grpc.RpcError as error:
            found = error_info(error)
            return error.code(), found[0].reason if found else ""  # type: ignore[attr-defined]
        return grpc.StatusCode.OK, ""


@pytest.fixture(params=SERVICES)
def port(request: pytest.FixtureRequest, plain_suite: Suite) -> Iterator[Port]:
    """The port of one service of the running suite."""
    with open_channel(plain_suite.address(request.param)) as channel:
        yield Port(channel)


@pytest.mark.parametrize("stranger", STRANGERS)
def test_a_stranger_is_told_of_no_more_than_the_shape_of_requests(port: Port, stranger: str) -> None:
    """Every method refuses: for its key where the least request is well formed, else for its form, and never else."""
    allowed = {
        (grpc.StatusCode.UNAUTHENTICATED, "unauthorized"),
        (grpc.StatusCode.INVALID_ARGUMENT, "invalid_request"),
    }
    outcomes = {
        f"{service}/{method.name}": port.call(method, STRANGERS[stranger])
        for service in sorted(port.services() - OPEN_TO_ALL)
        for method in port.methods(service)
        if method.name not in OPEN_METHODS | LOGINS
    }
    assert {} == {name: outcome for name, outcome in outcomes.items() if outcome not in allowed}
    assert outcomes


def test_only_health_and_reflection_are_open_beside_the_services(port: Port) -> None:
    """A port serves its own packages and these two."""
    others = {name for name in port.services() if not name.startswith("waggle.")}
    assert OPEN_TO_ALL == others
