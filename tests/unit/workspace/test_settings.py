"""The operator's settings that hold in every service of workspaces."""

from __future__ import annotations

from services.runtime.settings import read_settings
from services.workspace.settings import WorkspaceSettings


def test_defaults() -> None:
    """The documented ceilings hold unless the operator says otherwise."""
    expected = WorkspaceSettings(max_concurrent_retrievals=2, max_embedding_dimensions=32_768)
    assert expected == read_settings(WorkspaceSettings, {})


def test_both_ends_of_the_ranges_are_accepted() -> None:
    """An operator may go as low and as high as documented."""
    least = {"QILBEE_MAX_EMBEDDING_DIMENSIONS": "1", "QILBEE_MAX_CONCURRENT_RETRIEVALS": "1"}
    greatest = {"QILBEE_MAX_EMBEDDING_DIMENSIONS": "32768", "QILBEE_MAX_CONCURRENT_RETRIEVALS": "64"}
    assert WorkspaceSettings(1, 1) == read_settings(WorkspaceSettings, least)
    assert WorkspaceSettings(64, 32_768) == read_settings(WorkspaceSettings, greatest)
