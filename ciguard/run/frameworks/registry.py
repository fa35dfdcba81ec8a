"""The table of test frameworks: every row in a module of this folder. A file adds one.

Found by listing the folder, so that no other file has to name a framework. Standard library only,
Python 3.8+ (travels in the leg, where the folder is inside a zip file).
"""

from __future__ import annotations

import importlib
import pkgutil
from typing import Dict, Final

from ciguard.errors import UsageError
from ciguard.run import frameworks
from ciguard.run.frameworks.base import Framework


def _discover() -> Dict[str, Framework]:
    """The rows by name, in this order."""
    table: Dict[str, Framework] = {}
    for module_info in pkgutil.iter_modules(frameworks.__path__):
        module = importlib.import_module(f"{frameworks.__name__}.{module_info.name}")
        rows = (value for value in vars(module).values() if isinstance(value, Framework))
        table.update((row.name, row) for row in rows)
    return dict(sorted(table.items()))


FRAMEWORKS: Final[Dict[str, Framework]] = _discover()

# What a project without any configuration has: exactly one adapter claims to be it.
DEFAULT: Final = next(name for name, row in FRAMEWORKS.items() if row.is_default)

# In `run/plugins/` of a leg's program: the names of the files that were packed, one a line.
PACKED: Final = "packed.txt"


def is_plugin(name: str) -> bool:
    """Return whether a file of `run/plugins/` enters tested processes; others are their sources."""
    return name.startswith("ciguard_")


def framework(name: str, *, where: str = "") -> Framework:
    """The adapter of a framework.

    Raises:
        UsageError: there is none; names those that exist.
    """
    if name not in FRAMEWORKS:
        known = ", ".join(FRAMEWORKS)
        raise UsageError(f"no framework {name!r}", where=where, fix=f"there are {known}")
    return FRAMEWORKS[name]
