"""The suite of each framework in a repository of its own, planned: a fixture of its name."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from frameworks.loop import (
    GO,
    GO_CACHE,
    NEXTEST,
    PROJECTS,
    Loop,
    lay_out,
    link_node_modules,
    needs_gem,
    needs_maven,
    needs_node,
    needs_program,
)


@pytest.fixture
def ctest(tmp_path: Path) -> Loop:
    needs_program("ctest", "Debian's cmake")
    shutil.copytree(PROJECTS / "ctest", tmp_path, dirs_exist_ok=True)
    argv = ("cmake", "-S", ".", "-B", "build")
    subprocess.run(argv, cwd=tmp_path, check=True, capture_output=True, timeout=60)
    return lay_out(tmp_path, "ctest")


@pytest.fixture
def go(tmp_path: Path) -> Loop:
    if not (GO / "go").is_file():
        pytest.skip("needs Go: make tools")
    environ = {
        "PATH": f"{GO}:{Path(sys.executable).parent}:/usr/bin:/bin",
        "GOCACHE": str(GO_CACHE),
    }
    return lay_out(tmp_path, "go", **environ, GOTOOLCHAIN="local", GOFLAGS="-mod=mod")


@pytest.fixture(scope="session")
def gtest_programs(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    needs_program("g++", "Debian's g++")
    if not Path("/usr/include/gtest/gtest.h").is_file():
        pytest.skip("needs GoogleTest (Debian's libgtest-dev)")
    folder = tmp_path_factory.mktemp("gtest")
    programs = {name: folder / name for name in ("shop", "other")}
    for name, program in programs.items():
        words = ("-o", str(program), f"{name}.cpp", "-lgtest", "-lgtest_main", "-pthread")
        subprocess.run(("g++", *words), cwd=PROJECTS / "gtest", check=True, timeout=300)
    return programs


@pytest.fixture
def gtest(tmp_path: Path, gtest_programs: Mapping[str, Path]) -> Loop:
    (tmp_path / "build").mkdir()
    for name, program in gtest_programs.items():
        (tmp_path / "build" / name).symlink_to(program)
    return lay_out(tmp_path, "gtest")


@pytest.fixture
def maven(tmp_path: Path) -> Loop:
    needs_maven()
    return lay_out(tmp_path, "maven", MAVEN_OPTS="-XX:TieredStopAtLevel=1")  # starts sooner


@pytest.fixture
def minitest(tmp_path: Path) -> Loop:
    needs_program("rake", "Debian's ruby")
    needs_gem("minitest", "ruby-minitest")
    return lay_out(tmp_path, "minitest")


@pytest.fixture
def mocha(tmp_path: Path) -> Loop:
    needs_node("mocha")
    link_node_modules(tmp_path)
    return lay_out(tmp_path, "mocha")


@pytest.fixture
def nextest(tmp_path: Path) -> Loop:
    needs_program("cargo", "Rust")
    if not (NEXTEST / "cargo-nextest").is_file():
        pytest.skip("needs cargo-nextest: make tools")
    environ = {
        "PATH": f"{NEXTEST}{os.pathsep}{os.environ['PATH']}",
        "CARGO_TARGET_DIR": str(tmp_path.with_name(f"{tmp_path.name}-target")),
        "CARGO_INCREMENTAL": "0",
        "CARGO_PROFILE_TEST_DEBUG": "0",  # half of the time of a build
        "RUST_BACKTRACE": "0",
    }
    return lay_out(tmp_path, "nextest", **environ)


@pytest.fixture
def phpunit(tmp_path: Path) -> Loop:
    needs_program("phpunit", "Debian's phpunit")
    return lay_out(tmp_path, "phpunit")


@pytest.fixture
def playwright(tmp_path: Path) -> Loop:
    needs_node("@playwright/test")
    link_node_modules(tmp_path)
    return lay_out(tmp_path, "playwright")


@pytest.fixture
def rspec(tmp_path: Path) -> Loop:
    needs_program("rspec", "Debian's ruby-rspec")
    return lay_out(tmp_path, "rspec")


def lay_out_node(folder: Path, framework: str, words: str = "") -> Loop:
    """Lay out the files that each framework of Node runs alike.

    Args:
        words: what follows the program.
    """
    needs_node(framework)
    link_node_modules(folder)
    program = f"node_modules/.bin/{framework}{words}"
    command = json.dumps(["sh", "-c", f'exec ${{RUN:-{program}}} "$@"', framework])
    suite = f'[suite.js]\nframework = "{framework}"\ncommand = {command}\ntimeout = "8s"\n'
    return lay_out(folder, "node", suite)


@pytest.fixture
def node_jest(tmp_path: Path) -> Loop:
    return lay_out_node(tmp_path, "jest")


@pytest.fixture
def node_mocha(tmp_path: Path) -> Loop:
    return lay_out_node(tmp_path, "mocha")


@pytest.fixture
def node_vitest(tmp_path: Path) -> Loop:
    return lay_out_node(tmp_path, "vitest", " run")


@pytest.fixture
def loop(request: pytest.FixtureRequest) -> Loop:
    """The suite that another fixture lays out: indirect parameters name it."""
    suite = request.getfixturevalue(request.param)
    assert isinstance(suite, Loop)
    return suite
