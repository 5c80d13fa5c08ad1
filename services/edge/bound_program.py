"""Become another program that ends with its parent: `python -m services.edge.bound_program PARENT_ID PROGRAM ...`.

The kernel keeps the wish through the exec, so a program that knows nothing of it, as Envoy, is bound as well.
"""

from __future__ import annotations

import os
import sys

from services.runtime.process import die_with_parent


def main() -> None:
    """Bind to the parent and become the program."""
    parent_id, program, *arguments = sys.argv[1:]
    die_with_parent(int(parent_id))
    os.execv(program, [program, *arguments])  # noqa: S606 - an argument list, no shell


if __name__ == "__main__":
    main()
