"""What all tests share: the depth of generated tests, and the fixtures of the harness."""

from __future__ import annotations

import os

import hypothesis
import pytest

# Assertions of the harness say what they compared, as those of tests do.
pytest.register_assert_rewrite("tests.harness")

# CI runs the same examples every time; `make test-all` looks for new ones, far more of them.
hypothesis.settings.register_profile("fast", max_examples=30, deadline=None, derandomize=True)
hypothesis.settings.register_profile("deep", max_examples=1000, deadline=None, print_blob=True)
hypothesis.settings.load_profile(os.environ.get("WAGGLE_TEST_PROFILE", "fast"))

pytest_plugins = ["tests.harness.fixtures"]
