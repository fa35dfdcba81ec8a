"""What the adapters of Node's frameworks share: how a plugin enters, and what files are called."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final, Mapping

from ciguard.run.frameworks.base import Invocation, variant_args

if TYPE_CHECKING:
    from ciguard.model import Suite

SHARED_PLUGIN: Final = "ciguard_node.cjs"
EXTENSIONS: Final = ("js", "jsx", "ts", "tsx", "mjs", "cjs", "mts", "cts")
NOT_INSTALLED: Final = re.compile(
    r"npx canceled|could not determine executable|ERR_PNPM_RECURSIVE_EXEC|Cannot find module"
)
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
