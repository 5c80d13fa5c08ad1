"""Fixtures that every test can ask for."""

from __future__ import annotations
