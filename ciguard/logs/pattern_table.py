"""The one table of log patterns: every row, by domain. To add one, add it to its domain's file."""

from __future__ import annotations

from typing import Final

from ciguard.logs import (
    accelerator_patterns,
    actions_patterns,
    framework_patterns,
    system_patterns,
)

PATTERNS: Final = (
    *accelerator_patterns.PATTERNS,
    *system_patterns.PATTERNS,
    *actions_patterns.PATTERNS,
    *framework_patterns.PATTERNS,
)
