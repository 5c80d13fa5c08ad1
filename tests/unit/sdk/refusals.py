"""What the SDK says of an answer that it does not trust."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from qilbeedb import ConsumerProtocolError


def refuses(check: Callable[[], None]) -> str:
    """The code with which `check` refuses; fails when it does not."""
    with pytest.raises(ConsumerProtocolError) as caught:
        check()
    return caught.value.code
