"""The table of test frameworks: every module of this folder that has a NAME. A file adds one.

Found by listing the folder, so that no other file has to name a framework; a test checks that each
module keeps the Protocol of `base.py`. Standard library only, Python 3.8+ (travels in the leg,
where the folder is inside a zip file).
"""

from __future__ import annotations

import importlib
import pkgutil
from typing import TYPE_CHECKING, Dict, Final, cast

from ciguard.errors import UsageError
from ciguard.run import frameworks

if TYPE_CHECKING:
    from ciguard.run.frameworks.base import Framework


def _discover() -> Dict[str, Framework]:
    table: Dict[str, Framework] = {}
    for module_info in sorted(pkgutil.iter_modules(frameworks.__path__)):
        module = importlib.import_module(f"{frameworks.__name__}.{module_info.name}")
        if hasattr(module, "NAME"):
            table[module.NAME] = cast("Framework", module)
    return table


FRAMEWORKS: Final[Dict[str, Framework]] = _discover()

# What a project without any configuration has: exactly one adapter claims to be it.
DEFAULT: Final = next(name for name, module in FRAMEWORKS.items() if module.IS_DEFAULT)


def framework(name: str, *, where: str = "") -> Framework:
    """The adapter of a framework.

    Raises:
        UsageError: there is none; names those that exist.
    """
    if name not in FRAMEWORKS:
        known = ", ".join(FRAMEWORKS)
        raise UsageError(f"no framework {name!r}", where=where, fix=f"there are {known}")
    return FRAMEWORKS[name]
