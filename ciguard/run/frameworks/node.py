"""Frameworks of Node, each with a plugin that Node loads by NODE_OPTIONS.

A unit is a test file, and its cases are the tests in it. The id is the path; it is `[project] path`
if several projects of a configuration run the file, and in each named project of Playwright.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import replace
from typing import Final, Mapping

from ciguard.model import Suite
from ciguard.run.frameworks.base import Framework, Invocation, enclosing, loaded_before
from ciguard.run.frameworks.plugin_protocol import plugin_row, whole_command

SHARED_PLUGIN: Final = "ciguard_node.cjs"
EXTENSIONS: Final = ("js", "jsx", "ts", "tsx", "mjs", "cjs", "mts", "cts")
_PROJECT: Final = re.compile(r"\A\[.*?\] ", re.S)
TEST_FILES: Final = tuple(
    f"*.{word}.{extension}" for word in ("test", "spec") for extension in EXTENSIONS
)


def _invocation(
    plugin: str, suite: Suite, variant: str, env: Mapping[str, str], inside_folder: str
) -> Invocation:
    """Return the suite's program, with a plugin that Node loads below npx, yarn or a script.

    Args:
        plugin: name of a CommonJS file, or of an ECMAScript module, which ends with "mjs".
        env: variables of the plugin.
    """
    option = "--import" if plugin.endswith("mjs") else "--require"
    path = json.dumps(os.path.join(inside_folder, plugin), ensure_ascii=False)
    options = {"NODE_OPTIONS": (" ", f"{option} {path}")}
    return Invocation(whole_command(suite, variant), env, {}, options)


def path_of(unit: str) -> str:
    return _PROJECT.sub("", unit, count=1)


def ancestors(unit: str) -> tuple[str, ...]:
    """Return the file, its folders and its project."""
    file = path_of(unit)
    project = unit[: len(unit) - len(file)]
    names = [project + name for name in enclosing(file)]
    return (*names, "") if project else tuple(names)


def _row(name: str, program: str, plugin: str, *command: str) -> Framework:
    """Return a row with what these frameworks share besides their plugin: `npx` and file names."""
    return replace(
        plugin_row(name, program, _invocation, plugin, SHARED_PLUGIN),
        default_command=("npx", "--no", "--", *command),
        file_patterns=TEST_FILES,
        # By npx, or by the suite's own command.
        hints=(
            (
                "npx canceled|could not determine executable|ERR_PNPM_RECURSIVE_EXEC"
                "|Cannot find module",
                "install the project's packages first (npm ci), or set the suite's command",
            ),
        ),
        ancestors=ancestors,
    )


# 27 and newer. The plugin adds itself to the configuration that Jest has read: no file of the
# project changes, and its own reporters go on. Jest has no way to order files by arguments, and
# runs a file in its own process or in a worker by the timings of earlier runs: the plugin is the
# sequencer, and runs them in one process.
JEST: Final = replace(
    _row("jest", "jest", "ciguard_jest.cjs", "jest"),
    file_patterns=(*TEST_FILES, *(f"*__tests__/*.{extension}" for extension in EXTENSIONS)),
    ignore_folder="--testPathIgnorePatterns={}/",
)

# 3 and newer. The plugin starts Vitest itself, with what the command line and the project's
# configuration say and one more reporter. Files given as arguments are parts of names to Vitest,
# and run in an order of its own: the plugin chooses and orders them.
VITEST: Final = replace(
    _row("vitest", "vitest", "ciguard_vitest.mjs", "vitest", "run"),
    ignore_folder="--exclude={}/**",
)

# 8 and newer. The plugin changes the run of Mocha's own command line: no file of the project
# changes, and its own reporters go on. Mocha sorts its files by name, loads all before the first
# test, and ends where one cannot be loaded; with the plugin, they run in the order of the plan, and
# the other files run. Mocha's --ignore takes paths as the project's own `spec` begins them: so no
# `ignore_folder`.
MOCHA: Final = replace(
    _row("mocha", "Mocha", "ciguard_mocha.cjs", "mocha"),
    file_patterns=(
        *TEST_FILES,
        *(f"{folder}test/*.{extension}" for folder in ("", "*/") for extension in EXTENSIONS),
    ),
    file_of=loaded_before,
)

# Playwright Test, 1.40 and newer: a unit is a test file in a project. The id is `[project] path`,
# and the path alone where the configuration names no projects. The plugin is one more reporter, and
# leaves in each project the files that are asked for. Projects that others depend on, and their
# teardowns, are no units: as with Playwright's own --shard they run whole, in every process that
# needs them.
PLAYWRIGHT: Final = replace(
    _row("playwright", "playwright", "ciguard_playwright.cjs", "playwright", "test"),
    file_of=path_of,  # all files of a batch are read before its first test
)

# node's own runner, 20 and newer. Its flags and reporters stay: the plugin enters the runner, where
# it selects the files, and the process of each file, where it records the tests.
NODE_TEST: Final = replace(
    plugin_row("node-test", "node --test", _invocation, "ciguard_node_test.cjs", SHARED_PLUGIN),
    default_command=("node", "--test"),
    file_patterns=(
        *(
            f"{pattern}.{extension}"
            for pattern in ("*.test", "*-test", "*_test", "test-*", "test")
            for extension in EXTENSIONS
        ),
        *(f"{folder}test/*.{extension}" for folder in ("", "*/") for extension in EXTENSIONS),
    ),
    hints=(
        (
            "ended with exit code 0 and no inventory:",
            "the command must start `node --test` and keep NODE_OPTIONS; programs that call run() "
            "of node:test, and `node FILE`, choose their files themselves",
        ),
    ),
)
