"""Selection of the operating system's module; no other code of the leg asks for its name."""

from __future__ import annotations

import sys
from typing import Final

from ciguard.run.platforms.base import Platform

if sys.platform == "win32":
    from ciguard.run.platforms import windows as _here
elif sys.platform == "darwin":
    from ciguard.run.platforms import macos as _here
else:
    # A Unix without /proc is handled here, too: nothing that it cannot read is measured.
    from ciguard.run.platforms import linux as _here

CURRENT: Final[Platform] = _here
