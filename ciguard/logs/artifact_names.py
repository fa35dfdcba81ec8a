"""Names of artifacts that `actions/upload-artifact` refuses, and valid ones instead of them.

Source: actions/toolkit, packages/artifact, path-and-artifact-name-validation.ts. Pure.
"""

from __future__ import annotations

import re
from typing import Final

REFUSED: Final = '":<>|*?\r\n\\/'
_REFUSED: Final = re.compile(f"[{re.escape(REFUSED)}]+")


def valid_artifact_name(name: str) -> str:
    """The name with a hyphen for what is refused: "results/linux" is "results-linux"."""
    parts = [part for part in _REFUSED.split(name) if part.strip()]
    return "-".join(parts) or "artifact"
