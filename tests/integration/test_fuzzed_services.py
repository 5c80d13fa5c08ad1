"""Random and mutated bytes to every gRPC method of a running suite: each is answered or refused, none breaks anything.

A suite of its own, since what is mutated may well be a good request and be carried out.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from typing import Any

import grpc
import pytest
from google.protobuf.descriptor import MethodDescriptor
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from services.gateway.descriptors import Descriptors
from services.runtime.channel import open_channel
from services.runtime.status import error_info
from tests.harness import builders
from tests.harness.api import Api
from tests.harness.documented_jobs import JOBS
from tests.harness.documented_requests import DATA, Documented, Known, make_known
from tests.harness.message_caller import documented_routes
from tests.harness.suite import SERVICES, Suite, running_suite
from tests.property.mutations import Mutation, mutate, mutations

TIMEOUT_S = 30.0
SERVED = tuple(name for name in SERVICES if name != "gateway")
BROKEN = (grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN, grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DATA_LOSS)

fuzzing = settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


@pytest.fixture(scope="module")
def fuzzed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Suite]:
    """A suite for this file alone; well at the end, with nothing logged that it was not made for."""
    with running_suite(tmp_path_factory.mktemp("fuzzed")) as running:
        before = running.process_ids()
        yield running
        assert before == running.process_ids()
        assert running.is_healthy()
        assert [] == running.events("unexpected_failure")


@pytest.fixture(scope="module")
def channels(fuzzed: Suite) -> Iterator[dict[str, grpc.Channel]]:
    """One channel to each service."""
    opened = {name: open_channel(fuzzed.address(name)) for name in SERVED}
    yield opened
    for channel in opened.values():
        channel.close()


@pytest.fixture(scope="module")
def memory(fuzzed: Suite) -> Iterator[Known]:
    """A small memory that requests speak of."""
    with fuzzed.client() as client:
        yield make_known(Api(client, builders.scope_json(builders.new_key("fuzzed"))))


@cache
def methods_of(service: str) -> tuple[MethodDescriptor, ...]:
    """All methods that a process serves of its own protos."""
    package = f"waggle.{service}.v1."
    return tuple(
        method
        for found in Descriptors.load().services()
        if found.full_name.startswith(package)
        for method in found.methods
    )


def ask(channel: grpc.Channel, method: MethodDescriptor, data: bytes, key: str) -> None:
    """Send bytes as the request, or the only message of its stream; it is answered, or refused with a reason."""
    path = f"/{method.containing_service.full_name}/{method.name}"
    kind = "stream" if method.client_streaming else "unary"
    call = getattr(channel, f"{kind}_{'stream' if method.server_streaming else 'unary'}")(path)
    request: Any = iter([data]) if method.client_streaming else data
    failure: Any = None
    try:
        answer = call(request, metadata=(("authorization", f"Bearer {key}"),), timeout=TIMEOUT_S)
        if method.server_streaming:
            for _ in answer:
                pass
    except grpc.RpcError as error:
        failure = error
    if failure is not None:
        assert failure.code() not in BROKEN, (path, data, failure.code(), failure.details())
        assert error_info(failure) is not None, (path, data, failure.code(), failure.details())


@cache
def route_messages() -> dict[str, tuple[Any, ...]]:
    """Codec of each documented route by method and template."""
    return {f"{route.method} {route.template}": (route.codec, route.rpc) for route in documented_routes()}


def good_bytes(request: Documented, known: Known) -> tuple[str, bytes]:
    """Method and message of a documented request that would succeed."""
    codec, rpc = route_messages()[f"{request.method} /api/v1/{request.path}"]
    body = request.body_for(known)
    query = request.query_for(known) or {}
    parameters = "&".join(f"{name}={value}" for name, value in query.items() if value is not None)
    content = b"" if body is None else json.dumps(body).encode()
    values = request.values(known) if request.values else {}
    return rpc, codec.request_from_http(content, parameters.encode(), values)


@pytest.mark.parametrize("service", SERVED)
@fuzzing
@given(data=st.data())
def test_random_bytes_break_nothing(
    fuzzed: Suite, channels: dict[str, grpc.Channel], service: str, data: st.DataObject
) -> None:
    """Whatever arrives, and with whatever authority: a documented refusal or an answer."""
    method = data.draw(st.sampled_from(methods_of(service)))
    key = data.draw(st.sampled_from([fuzzed.writer_key, fuzzed.admin_key, ""]))
    ask(channels[service], method, data.draw(st.binary(max_size=64)), key)


@pytest.mark.parametrize("request_", [*DATA, *JOBS], ids=lambda request: request.name)
@settings(fuzzing, max_examples=max(4, settings.default.max_examples // 10))
@given(changes=mutations)
def test_a_mutated_message_breaks_nothing(
    fuzzed: Suite, channels: dict[str, grpc.Channel], memory: Known, request_: Documented, changes: list[Mutation]
) -> None:
    """A good request with some bytes changed gets as far as such a thing can, and is answered or refused."""
    rpc, good = good_bytes(request_, memory)
    service = rpc.split(".")[1]
    method = next(
        found for found in methods_of(service) if rpc.endswith(f"{found.containing_service.full_name}/{found.name}")
    )
    ask(channels[service], method, mutate(good, changes), fuzzed.writer_key)
