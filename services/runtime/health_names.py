"""Names that the health service of every process answers for, beside "" and the gRPC services that it has."""

from typing import Final

CALLS: Final = "calls"
"""SERVING until the process drains, whatever it depends on. Callers watch it and go elsewhere in time."""
LIVENESS: Final = "liveness"
"""SERVING while the process itself works, also while it drains or what it depends on is away."""
WRITES: Final = "writes"
"""Storage alone answers for it: SERVING while it accepts writes, so neither on a full disk nor after damage."""
