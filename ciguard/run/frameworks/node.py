"""What the adapters of Node's frameworks share: how a plugin enters, and what units are called.

A unit is a test file. Where several projects of a configuration run it, and in every project of
Playwright that has a name, the id is `[project] path`.
"""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING, Final, Mapping

from ciguard.run.frameworks.base import Invocation, enclosing, variant_args

if TYPE_CHECKING:
    from ciguard.model import Suite

SHARED_PLUGIN: Final = "ciguard_node.cjs"
EXTENSIONS: Final = ("js", "jsx", "ts", "tsx", "mjs", "cjs", "mts", "cts")
NOT_INSTALLED: Final = re.compile(
    r"npx canceled|could not determine executable|ERR_PNPM_RECURSIVE_EXEC|Cannot find module"
)
_PROJECT: Final = re.compile(r"\A\[.*?\] ", re.S)
TEST_FILES: Final = tuple(
    f"*.{word}.{extension}" for word in ("test", "spec") for extension in EXTENSIONS
)


def missing_packages(output: str) -> str:
    """What to do where npx, or the suite's own command, found no program; else ""."""
    if NOT_INSTALLED.search(output) is None:
        return ""
    return "install the project's packages first (npm ci), or set the suite's command"


def node_invocation(
    plugin: str, suite: Suite, variant: str, env: Mapping[str, str], inside_folder: str
) -> Invocation:
    """The suite's program with a plugin that Node itself loads, through npx, yarn or a script.

    Args:
        plugin: name of a CommonJS file, or of an ECMAScript module, which ends with "mjs".
        env: for the plugin.
    """
    option = "--import" if plugin.endswith("mjs") else "--require"
    path = json.dumps(os.path.join(inside_folder, plugin), ensure_ascii=False)
    words = () if suite.is_script else variant_args(suite, variant)
    return Invocation(
        (*suite.command, *words), env, {}, {"NODE_OPTIONS": (" ", f"{option} {path}")}
    )


def path_of(unit: str) -> str:
    """The path in its id."""
    return _PROJECT.sub("", unit, count=1)


def ancestors(unit: str) -> tuple[str, ...]:
    """The file, its folders and its project."""
    file = path_of(unit)
    project = unit[: len(unit) - len(file)]
    names = [project + name for name in enclosing(file)]
    return (*names, "") if project else tuple(names)
