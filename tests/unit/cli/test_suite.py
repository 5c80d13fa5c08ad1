"""Where the processes of a suite listen and find each other."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from cli.backoff import RestartBackoff
from cli.suite import (
    GATEWAY,
    MEMORY,
    PROCESSES,
    RUN_DIRECTORY,
    STORAGE,
    NotRunning,
    SupervisorLock,
    find_address,
    is_supervised,
    plan_layout,
)


def test_sockets_are_in_the_data_directory_and_private(tmp_path: Path) -> None:
    """Nothing but the owner can reach the services."""
    layout = plan_layout(tmp_path, "127.0.0.1", 7474)
    assert f"unix:{tmp_path}/run/memory.sock" == layout.address(MEMORY)
    assert 0o700 == (layout.socket_directory.stat().st_mode & 0o777)


def test_a_path_too_long_for_a_socket_moves_the_sockets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel allows 107 bytes; deeper data directories keep working, and a restart finds the same place."""
    short = tmp_path / "t"
    short.mkdir()
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(short))
    deep = tmp_path / ("d" * 90)
    deep.mkdir()
    layout = plan_layout(deep, "127.0.0.1", 7474)
    assert short == layout.socket_directory.parent
    assert layout.socket_directory == plan_layout(deep, "127.0.0.1", 7474).socket_directory


def test_a_directory_that_somebody_else_can_enter_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A socket directory must not have been prepared by another user, in a shared place or in the data directory."""
    short = tmp_path / "t"
    short.mkdir()
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(short))
    deep = tmp_path / ("d" * 90)
    deep.mkdir()
    for data_directory in (deep, short):
        plan_layout(data_directory, "127.0.0.1", 7474).socket_directory.chmod(0o777)
        with pytest.raises(PermissionError):
            plan_layout(data_directory, "127.0.0.1", 7474)


def test_every_service_learns_where_the_others_are(tmp_path: Path) -> None:
    """The environment names each service but the gateway, and the verifier key, and wants no notice before an end."""
    environment = plan_layout(tmp_path, "127.0.0.1", 7474).environment(MEMORY)
    assert {
        "WAGGLE_STORAGE_ADDRESS",
        "WAGGLE_IDENTITY_ADDRESS",
        "WAGGLE_MEMORY_ADDRESS",
        "WAGGLE_RETRIEVAL_ADDRESS",
        "WAGGLE_CONSOLIDATION_ADDRESS",
        "WAGGLE_VERIFIER_KEY_FILE",
        "WAGGLE_DRAIN_NOTICE_MS",
    } == set(environment)


def test_each_process_has_a_port_of_its_own_for_metrics(tmp_path: Path) -> None:
    """Storage takes the port that is asked for, each further process the next one."""
    layout = plan_layout(tmp_path, "127.0.0.1", 7474, metrics=("::1", 9000))
    found = [layout.environment(process)["WAGGLE_METRICS_LISTEN"] for process in PROCESSES]
    assert [f"[::1]:{port}" for port in range(9000, 9000 + len(PROCESSES))] == found


def test_the_gateway_drains_first_and_storage_last() -> None:
    """No service outlives one that it needs."""
    order = sorted(PROCESSES, key=lambda process: process.drain_rank)
    assert (GATEWAY, STORAGE) == (order[0], order[-1])


def test_a_note_leads_commands_to_the_suite(tmp_path: Path) -> None:
    """While a suite runs its addresses can be found; afterwards the answer says how to start one."""
    layout = plan_layout(tmp_path, "127.0.0.1", 7474)
    layout.write_suite_file()
    lock = SupervisorLock(tmp_path / RUN_DIRECTORY)
    assert layout.address(MEMORY) == find_address(tmp_path, "memory")
    layout.remove_suite_file()
    with pytest.raises(NotRunning, match="waggle serve"):
        find_address(tmp_path, "memory")
    lock.close()


def test_a_note_without_its_suite_leads_nowhere(tmp_path: Path) -> None:
    """It is left behind by a suite that was killed, and goes along when the directory is copied."""
    (tmp_path / "original").mkdir()
    layout = plan_layout(tmp_path / "original", "127.0.0.1", 7474)
    layout.write_suite_file()
    lock = SupervisorLock(tmp_path / "original" / RUN_DIRECTORY)
    shutil.copytree(tmp_path / "original", tmp_path / "copy")
    assert (True, False) == (is_supervised(tmp_path / "original"), is_supervised(tmp_path / "copy"))
    with pytest.raises(NotRunning):
        find_address(tmp_path / "copy", "memory")
    lock.close()
    with pytest.raises(NotRunning):
        find_address(tmp_path / "original", "memory")


def test_an_ipv6_host_stands_in_brackets_in_the_url(tmp_path: Path) -> None:
    """URLs need the brackets, sockets do not."""
    assert "http://[::1]:7474" == plan_layout(tmp_path, "::1", 7474).url


def test_restarts_slow_down_and_are_forgiven() -> None:
    """Delays double up to a bound; a calm run starts the series anew."""
    backoff = RestartBackoff(first_s=1.0, longest_s=5.0, calm_s=10.0)
    assert [1.0, 2.0, 4.0, 5.0, 5.0] == [backoff.next_delay_s(0.1) for _ in range(5)]
    assert 1.0 == backoff.next_delay_s(11.0)
