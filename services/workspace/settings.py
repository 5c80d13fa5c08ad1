"""The operator's settings that hold in every service that serves workspaces."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

from services.runtime.admission import AdmissionSettings
from services.runtime.settings import IntegerVariable

DIMENSIONS_MAX: Final = 32_768


@dataclass(frozen=True, slots=True)
class WorkspaceSettings(AdmissionSettings):
    """Limits on what requests may carry and how many run at once.

    Attributes:
        max_embedding_dimensions: Ceiling for vectors, 1 to 32,768; stored bindings above it stay, but queries and
            attachments are refused.
    """

    max_embedding_dimensions: Annotated[
        int, IntegerVariable("QILBEE_MAX_EMBEDDING_DIMENSIONS", least=1, greatest=DIMENSIONS_MAX)
    ] = DIMENSIONS_MAX
