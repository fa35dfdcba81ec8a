"""Lines that fail a test run for the share of code that it covers: a shard covers a part. Pure.

Found by their words, in the files at the top that configure coverage and what runs the tests.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

CONFIGURATION: Final = re.compile(r"[\w.-]+\.(toml|ini|cfg)|\.coveragerc|noxfile\.py|Makefile")
_GATE: Final = re.compile(r"(?m)^[^#\n]*?(--(?:cov-)?fail-under|^\s*fail_under\s*=)[^\d\n]*[1-9]")


def find_coverage_gates(texts: Mapping[str, str]) -> list[str]:
    """`FILE:LINE` of the first gate of each file.

    Args:
        texts: by name.
    """
    return [
        f"{name}:{text.count(chr(10), 0, found.start(1)) + 1}"
        for name, text in texts.items()
        if (found := _GATE.search(text))
    ]
