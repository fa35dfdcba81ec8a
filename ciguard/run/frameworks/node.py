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
from ciguard.run.frameworks.defaults import batch_variables

if TYPE_CHECKING:
    from ciguard.model import Suite
    from ciguard.run.frameworks.base import ProcessFiles

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


def node_invocation(suite: Suite, variant: str, env: Mapping[str, str], plugin: str) -> Invocation:
    """The suite's program with a plugin that Node itself loads, through npx, yarn or a script.

    Args:
        env: for the plugin.
        plugin: path of a CommonJS file, or of an ECMAScript module, which ends with "mjs".
    """
    option = "--import" if plugin.endswith("mjs") else "--require"
    options = {"NODE_OPTIONS": (" ", f"{option} {json.dumps(plugin, ensure_ascii=False)}")}
    words = () if suite.is_script else variant_args(suite, variant)
    return Invocation((*suite.command, *words), env, {}, options)


def listing_by(
    plugin: str, suite: Suite, variant: str, answer_file: str, inside_folder: str
) -> Invocation:
    """Looks for test files; the plugin writes `answer_file`."""
    env = {"CIGUARD_COLLECT_FILE": answer_file}
    return node_invocation(suite, variant, env, os.path.join(inside_folder, plugin))


def execution_by(plugin: str, suite: Suite, variant: str, batch: ProcessFiles) -> Invocation:
    """Runs a batch: the plugin selects, orders and records."""
    env = batch_variables(batch)
    return node_invocation(suite, variant, env, os.path.join(batch.inside_folder, plugin))


def path_of(unit: str) -> str:
    """The path in its id."""
    return _PROJECT.sub("", unit, count=1)


def ancestors(unit: str) -> tuple[str, ...]:
    """The file, its folders and its project."""
    file = path_of(unit)
    project = unit[: len(unit) - len(file)]
    names = [project + name for name in enclosing(file)]
    return (*names, "") if project else tuple(names)
