"""The version of Waggle. pyproject.toml has the same one; a test compares them."""

from __future__ import annotations

from typing import Final

VERSION: Final = "0.1.0"
