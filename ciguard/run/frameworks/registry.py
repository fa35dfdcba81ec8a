"""The table of test frameworks: every `Framework` row in a module of this folder.

The folder is listed, also inside the leg's zip file, so that no other file names a framework.
"""

from __future__ import annotations

import importlib
import pkgutil
from typing import Final

from ciguard.errors import UsageError
from ciguard.run import frameworks
from ciguard.run.frameworks.base import Framework


def _discover() -> dict[str, Framework]:
    """Return the rows, sorted by name."""
    table: dict[str, Framework] = {}
    for module_info in pkgutil.iter_modules(frameworks.__path__):
        module = importlib.import_module(f"{frameworks.__name__}.{module_info.name}")
        rows = (value for value in vars(module).values() if isinstance(value, Framework))
        table.update((row.name, row) for row in rows)
    return dict(sorted(table.items()))


FRAMEWORKS: Final[dict[str, Framework]] = _discover()

# The framework of a project without any configuration.
DEFAULT: Final = next(name for name, row in FRAMEWORKS.items() if row.is_default)

# File in `run/plugins/` of a leg's zip file: the names of the packed files, one a line.
PACKED: Final = "packed.txt"


def is_plugin(name: str) -> bool:
    """Return whether a file of `run/plugins/` enters tested processes; others are their sources."""
    return name.startswith("ciguard_")


def framework(name: str, *, where: str = "") -> Framework:
    """Return the row of a framework.

    Raises:
        UsageError: no row has that name; lists those that exist.
    """
    if name not in FRAMEWORKS:
        known = ", ".join(FRAMEWORKS)
        raise UsageError(f"no framework {name!r}", where=where, fix=f"there are {known}")
    return FRAMEWORKS[name]
