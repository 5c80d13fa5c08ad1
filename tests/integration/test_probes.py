"""What probes are told: readiness, life, and the word by which callers learn that a process leaves."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from services.runtime.call_context import remaining_s
from services.runtime.health_listener import HealthListener, open_health_listener
from services.runtime.server import OTHERS_S, Registry, RunningServer
from services.runtime.start_failure import CannotStart
from services.runtime.transport import PLAIN
from tests.harness.certificates import issued_certificates
from tests.harness.suite import wait_until
from waggle.storage.v1 import storage_service_pb2_grpc

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING
UNKNOWN = health_pb2.HealthCheckResponse.SERVICE_UNKNOWN
CALL_S = 20.0


@contextmanager
def asking(address: str) -> Iterator[Any]:
    with PLAIN.open_channel(address, "") as channel:
        yield health_pb2_grpc.HealthStub(channel)


def state(stub: Any, name: str) -> int:
    request = health_pb2.HealthCheckRequest(service=name)
    return int(stub.Check(request, timeout=CALL_S, wait_for_ready=True).status)


class Parts:
    """A process whose own state and whose storage a test switches."""

    def __init__(self) -> None:
        self.is_well = self.others_answer = True
        self.registry = Registry()
        self.registry.ready_when(lambda: self.is_well)
        self.registry.ready_when(lambda: self.others_answer, of_another=True)
        self.registry.report("writes", lambda: self.is_well and self.others_answer)

    def listener(self) -> HealthListener:
        return HealthListener("127.0.0.1:0", self.registry.checks(self.registry.is_in_service))


def test_a_process_without_storage_is_live_and_once_in_service_stays_there() -> None:
    """Not in service before storage was reached once; afterwards only its own state and its drain take it out."""
    parts = Parts()
    parts.others_answer = False
    listener = parts.listener()
    seen = []
    with asking(f"127.0.0.1:{listener.port}") as stub:

        def look() -> None:
            seen.append((state(stub, ""), state(stub, "liveness"), state(stub, "writes")))

        look()
        parts.others_answer = True
        look()
        parts.others_answer = False
        look()
        parts.is_well = False
        look()
        parts.is_well = parts.others_answer = True
        look()
        listener.drain()
        look()
    listener.close()
    assert [
        (NOT_SERVING, SERVING, NOT_SERVING),
        (SERVING, SERVING, SERVING),
        (SERVING, SERVING, NOT_SERVING),
        (NOT_SERVING, SERVING, NOT_SERVING),
        (SERVING, SERVING, SERVING),
        (NOT_SERVING, SERVING, NOT_SERVING),
    ] == seen


def test_on_the_own_address_readiness_follows_storage(tmp_path: Path) -> None:
    """Who asks the service itself, as the edge does, is told whether it can answer now."""
    parts = Parts()
    address = f"unix:{tmp_path}/s.sock"
    server = RunningServer(parts.registry, address)
    with asking(address) as stub:
        seen = [state(stub, "")]
        parts.others_answer = False
        seen.append(state(stub, ""))
        seen.append(state(stub, "calls"))
    server.drain(1.0)
    assert [SERVING, NOT_SERVING, SERVING] == seen


def test_the_listener_speaks_plain_text_beside_a_server_under_tls(tmp_path: Path) -> None:
    """And serves nothing else: not the services, and no reflection."""
    parts = Parts()
    parts.registry.add(
        storage_service_pb2_grpc.add_StorageServiceServicer_to_server, storage_service_pb2_grpc.StorageServiceServicer()
    )
    transport = issued_certificates(tmp_path / "tls").transport("storage")
    server = RunningServer(parts.registry, "127.0.0.1:0", transport=transport)
    listener = parts.listener()
    codes = []
    with PLAIN.open_channel(f"127.0.0.1:{listener.port}", "") as channel:
        assert SERVING == state(health_pb2_grpc.HealthStub(channel), "")
        for method in (
            "/waggle.storage.v1.StorageService/Read",
            "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
        ):
            call: Any = channel.unary_unary(method)
            with pytest.raises(grpc.RpcError) as caught:
                call(b"", timeout=CALL_S)
            codes.append(caught.value.code())
    listener.close()
    server.drain(1.0)
    assert [grpc.StatusCode.UNIMPLEMENTED] * 2 == codes


def test_a_storage_that_hangs_takes_no_answers_from_probes(tmp_path: Path) -> None:
    """However often readiness is asked for, one question waits at a time, and life and readiness are answered."""
    parts, asked, may_answer = Parts(), threading.Semaphore(0), threading.Event()
    limits_s: list[float] = []

    def hang() -> bool:
        limits_s.append(remaining_s(CALL_S))
        asked.release()
        return may_answer.wait(CALL_S)

    parts.registry.ready_when(hang, of_another=True)
    address = f"unix:{tmp_path}/s.sock"
    server = RunningServer(parts.registry, address)
    with asking(address) as stub:
        waiting = stub.Check.future(health_pb2.HealthCheckRequest(), timeout=CALL_S, wait_for_ready=True)
        asked.acquire()
        states = [state(stub, name) for name in ["", "liveness"] * 10]
        may_answer.set()
        assert SERVING == waiting.result().status
        assert SERVING == state(stub, "")
    server.drain(1.0)
    assert [NOT_SERVING, SERVING] * 10 == states
    # And what asks has little time for it.
    assert all(limit_s <= OTHERS_S for limit_s in limits_s)


def test_nothing_listens_unless_an_operator_wants_it() -> None:
    """Without the variable there is no second port; one that cannot be bound keeps the process from starting."""
    assert 0 == open_health_listener({}, {}).port
    taken = HealthListener("127.0.0.1:0", {})
    with pytest.raises(CannotStart, match="cannot listen"):
        open_health_listener({"WAGGLE_HEALTH_LISTEN": f"127.0.0.1:{taken.port}"}, {})
    taken.close()


def test_watchers_are_told_of_a_drain_and_their_streams_end(tmp_path: Path) -> None:
    """Each name but life falls at once, an unknown one stays unknown, and nothing keeps the server from ending."""
    address = f"unix:{tmp_path}/s.sock"
    server = RunningServer(Registry(), address)
    names = ("", "calls", "liveness", "nobody")
    told: dict[str, list[int]] = {name: [] for name in names}

    def watch(stub: Any, name: str) -> None:
        for response in stub.Watch(health_pb2.HealthCheckRequest(service=name), timeout=CALL_S):
            told[name].append(response.status)

    with asking(address) as stub:
        threads = [threading.Thread(target=watch, args=(stub, name)) for name in names]
        for thread in threads:
            thread.start()
        wait_until(lambda: all(told.values()), "all were told once")
        server.announce_drain()
        wait_until(lambda: len(told["calls"]) == len(told[""]) == 2, "the drain was told")
        server.drain()
        for thread in threads:
            thread.join()
    assert {
        "": [SERVING, NOT_SERVING],
        "calls": [SERVING, NOT_SERVING],
        "liveness": [SERVING],
        "nobody": [UNKNOWN],
    } == told


def test_many_watchers_take_no_threads_from_calls(tmp_path: Path) -> None:
    """More of them than the server has threads, and Check is still answered."""
    address = f"unix:{tmp_path}/s.sock"
    server = RunningServer(Registry(), address, thread_count=2)
    with asking(address) as stub:
        streams = [stub.Watch(health_pb2.HealthCheckRequest(service="calls"), timeout=CALL_S) for _ in range(50)]
        assert [SERVING] * 50 == [next(stream).status for stream in streams]
        assert SERVING == state(stub, "")
        for stream in streams:
            stream.cancel()
    server.drain(1.0)
