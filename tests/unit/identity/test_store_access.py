"""Where the store and its key are: nothing of it has a default."""

from __future__ import annotations

from pathlib import Path

import pytest

from services.identity.store_access import StoreSettings
from services.runtime.settings import read_settings
from services.runtime.start_failure import CannotStart

WHOLE = {"WAGGLE_STORAGE_ADDRESS": "unix:/run/storage.sock", "WAGGLE_VERIFIER_KEY_FILE": "/run/key"}


def test_address_and_key_file_are_read() -> None:
    """Both come from the environment as they stand there."""
    assert StoreSettings("unix:/run/storage.sock", Path("/run/key")) == read_settings(StoreSettings, WHOLE)


@pytest.mark.parametrize("name", WHOLE)
@pytest.mark.parametrize("is_set", [True, False])
def test_neither_may_be_missing(name: str, is_set: bool) -> None:
    """Not set and set to nothing are the same; the complaint names the variable."""
    environment = {**WHOLE, name: ""} if is_set else {other: WHOLE[other] for other in WHOLE if other != name}
    with pytest.raises(CannotStart, match=f"{name} must be set"):
        read_settings(StoreSettings, environment)
