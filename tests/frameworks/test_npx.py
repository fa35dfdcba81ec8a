"""The default commands of Node's frameworks: npx hands options on to the program."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

import pytest
from conftest import clean_environment
from frameworks.loop import NODE_MODULES, link_node_modules, needs_node

from ciguard.run.frameworks.registry import FRAMEWORKS

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("framework", "package", "option"),
    [
        ("mocha", "mocha", "--version"),
        pytest.param("jest", "jest", "--version", marks=pytest.mark.soak),
        pytest.param("playwright", "@playwright/test", "--version", marks=pytest.mark.soak),
        pytest.param("vitest", "vitest", "--help", marks=pytest.mark.soak),  # names it, too
    ],
)
def test_options_reach_the_framework_and_not_npx(
    framework: str, package: str, option: str, tmp_path: Path
) -> None:
    """`npx --no jest --version` says the version of npm."""
    needs_node(package)
    link_node_modules(tmp_path)
    argv = [*FRAMEWORKS[framework].default_command, option]
    done = subprocess.run(
        argv,
        cwd=tmp_path,
        env=clean_environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    version = json.loads((NODE_MODULES / package / "package.json").read_text())["version"]
    assert version in done.stdout
