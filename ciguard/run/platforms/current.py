"""The operating system that a leg runs on; the one place that asks for its name."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

if sys.platform == "win32":
    from ciguard.run.platforms import windows as _here
elif sys.platform == "darwin":
    from ciguard.run.platforms import macos as _here
else:
    # Another Unix without /proc is told from Linux by what it cannot read.
    from ciguard.run.platforms import linux as _here

if TYPE_CHECKING:
    from ciguard.run.platforms.base import Platform

CURRENT: Final[Platform] = _here
