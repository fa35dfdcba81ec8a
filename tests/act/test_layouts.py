"""Projects as they lie in a repository without a workflow: `ciguard init`, a push, a pull request.

Executed by act, with the real uv, Poetry, pipx and pip from the package index. The projects are in
tests/layouts; what is installed is asserted by their own tests.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from act.conftest import open_github
from act.events import pull_request_event
from act.fake_machine import ROOT
from act.test_workflow_run import push_event, units_of_plan
from conftest import clean_environment
from run.conftest import answers, candidates

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from act.fake_machine import GitHub, Run
    from conftest import Ciguard

LAYOUTS = ROOT / "tests/layouts"
PYTHONS = ("3.12", "3.13")
# How a machine reaches the package index: the variables that its owner set.
NETWORK = re.compile(
    r"(PIP_(INDEX_URL|CERT)|UV_(DEFAULT_INDEX|INDEX_URL)|SSL_CERT_(FILE|DIR)|REQUESTS_CA_BUNDLE"
    r"|https?_proxy|no_proxy)",
    re.IGNORECASE,
)
COLOURS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
ADDED = """
def test_is_new():
    assert True

def test_fails():
    assert 12 == 13
"""
pytestmark = [pytest.mark.soak, pytest.mark.timeout(900)]


@dataclass(frozen=True, slots=True)
class Layout:
    """What is expected of a project.

    Attributes:
        printed: what the log of a set-up holds, the versions of the real tools among it.
        folder: of the tests that the pull request changes.
        units: tests of the first push.
        lock: shell commands that write the lock files, which name the index of the machine.
    """

    name: str
    printed: tuple[str, ...]
    units: int
    folder: str = "tests"
    lock: tuple[str, ...] = ()


CASES = (
    Layout(
        "uv",
        (r"uv 0\.\d+\.\d+", r"CPython 3\.13\.", r"\+ sortedcontainers==2\.4\.0"),
        7,
        lock=("uv lock",),
    ),
    Layout(
        "poetry",
        (r"Python 3\.12\.", r"installed package poetry 2\.", r"shop \(1\)"),
        7,
        # Without a source, Poetry asks another interface than pip, which not every mirror has.
        lock=(
            'pipx run --python python3.12 poetry source add -n --priority primary index "$INDEX"',
            "pipx run --python python3.12 poetry lock -n",
        ),
    ),
    Layout("pip", (r"Python 3\.13\.", r"Successfully installed .*shop-1"), 7),
    Layout(
        "monorepo",
        (
            *(r"CPython 3\.12\.", r"\+ packaging==25\.0", r"CPython 3\.13\."),
            *(r"\+ packaging==24\.2", r"Successfully installed .*packaging-23\.2"),
        ),
        7,
        "api/tests",
        ("uv lock --directory api", "uv lock --directory worker"),
    ),
)


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Variables of a runner with Pythons and pipx on PATH, as GitHub's own have."""
    folder = tmp_path_factory.mktemp("runner")
    for version in PYTHONS:
        found = next((path for path in candidates(version) if answers(path)), None)
        if found is None:
            pytest.skip(f"needs Python {version}")
        (folder / f"python{version}").symlink_to(found.resolve())
    tools = folder / "tools"
    subprocess.run([sys.executable, "-m", "venv", str(tools)], check=True)
    pip = [str(tools / "bin/python"), "-m", "pip", "install", "-q", "--retries", "1", "pipx", "uv"]
    answer = subprocess.run(pip, capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        pytest.skip(f"the package index was not reached: {answer.stderr.strip()[-300:]}")
    (folder / "pipx").symlink_to(tools / "bin/pipx")
    asked = [*pip[:3], "install", "--help"]
    wide = {**os.environ, "COLUMNS": "300"}
    answer = subprocess.run(asked, capture_output=True, text=True, check=True, env=wide)
    index = re.search(r"--index-url <url> .*\(default (\S+)\)", answer.stdout)
    assert index
    return {
        **{name: text for name, text in os.environ.items() if NETWORK.fullmatch(name)},
        "PATH": f"{folder / 'pipx-bin'}{os.pathsep}{folder}",
        "ACT_PYTHONS": str(folder),
        "INDEX": index[1],
        "PIPX_HOME": str(folder / "pipx-home"),
        "PIPX_BIN_DIR": str(folder / "pipx-bin"),
        "UV_PYTHON_DOWNLOADS": "never",
    }


@pytest.fixture(scope="module", params=CASES, ids=[one.name for one in CASES])
def layout(request: pytest.FixtureRequest) -> Layout:
    found: Layout = request.param
    return found


@pytest.fixture(scope="module")
def github(
    layout: Layout,
    complete_wheel: Path,
    network: dict[str, str],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[GitHub]:
    with open_github(tmp_path_factory.mktemp(layout.name), complete_wheel, network) as made:
        yield made


@pytest.fixture(scope="module")
def pushed(github: GitHub, layout: Layout, network: dict[str, str]) -> Run:
    shutil.copytree(LAYOUTS / layout.name, github.checkout, dirs_exist_ok=True)
    folders = (network["PATH"], f"{network['ACT_PYTHONS']}/tools/bin", os.environ["PATH"])
    environ = {**os.environ, **network, "PATH": os.pathsep.join(folders)}
    # Without an environment of any kind, Poetry locks for the Python that it runs in.
    environ |= {"POETRY_VIRTUALENVS_CREATE": "false", "VIRTUAL_ENV": ""}
    for command in layout.lock:
        subprocess.run(["bash", "-c", command], cwd=github.checkout, env=environ, check=True)
    answer = github.ciguard("init", "--yes", CIGUARD_INSTALL=str(github.wheel))
    assert answer.returncode == 0, answer.stderr
    config = (github.checkout / "ciguard.toml").read_text("utf-8")
    github.commit("ciguard", {"ciguard.toml": config.replace("# shards = 4", "shards = 2")})
    github.git("push", "--quiet", "origin", "main")
    return github.run("push", push_event(), run_id=101)


@pytest.fixture(scope="module")
def proposed(github: GitHub, layout: Layout, pushed: Run) -> Run:
    """A pull request with a test that is new, one that is gone, and one that fails."""
    assert pushed.green, pushed.talk
    base = github.git("rev-parse", "main")
    cart = github.checkout / layout.folder / "test_cart.py"
    kept = cart.read_text("utf-8").partition("def test_empty")[0]
    github.git("switch", "--quiet", "--create", "crash")
    head = github.commit("change", {f"{layout.folder}/test_cart.py": kept + ADDED})
    github.git("switch", "--quiet", "--detach", "main")
    github.git("merge", "--quiet", "--no-ff", "--message", "merge", "crash")
    return github.run("pull_request", pull_request_event(head, base), run_id=102)


def outcomes(github: GitHub, run_id: int) -> dict[tuple[str, str], str]:
    """The outcome of each test in the records, by suite and unit."""
    files = (github.artifacts / str(run_id)).glob("ciguard-record-*/**/*.jsonl")
    lines = [json.loads(line) for file in files for line in file.read_bytes().splitlines()]
    ended = [line for line in lines if "outcome" in line]
    return {(line.get("suite", ""), line["unit"]): line["outcome"] for line in ended}


def test_first_push_is_green_with_the_versions_of_the_project(
    github: GitHub, layout: Layout, pushed: Run
) -> None:
    assert pushed.green, pushed.talk
    printed = COLOURS.sub("", pushed.job("plan").printed)
    for expected in layout.printed:
        assert re.search(expected, printed), f"{expected}\n{pushed.talk}"
    found = outcomes(github, 101)
    assert len(found) == len(units_of_plan(101, github.artifacts)) == layout.units
    assert set(found.values()) == {"passed"}


def test_pull_request_runs_what_is_listed_and_names_the_failure(
    github: GitHub, layout: Layout, proposed: Run
) -> None:
    assert not proposed.green
    assert proposed.job("ciguard").failed_steps == ("Report",)
    found = outcomes(github, 102)
    assert len(found) == len(units_of_plan(102, github.artifacts)) == layout.units + 1
    names = {unit.rpartition("::")[2]: outcome for (_, unit), outcome in found.items()}
    assert names["test_is_new"] == "passed"
    assert "test_empty" not in names
    assert [name for name, outcome in names.items() if outcome != "passed"] == ["test_fails"]
    (comment,) = github.comments()
    assert "test_fails" in comment["body"]


@pytest.mark.parametrize(
    ("name", "setup"),
    [
        ("node", "pnpm install --frozen-lockfile"),
        ("go", "    go-version-file: go.mod"),
    ],
)
def test_layout_without_an_adapter_gets_what_is_missing(
    name: str, setup: str, tmp_path: Path, ciguard: Ciguard
) -> None:
    shutil.copytree(LAYOUTS / name, tmp_path, dirs_exist_ok=True)
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True, env=clean_environment())
    answer = ciguard("init", "--yes", cwd=tmp_path, expect=3)
    assert setup in answer.stderr
    assert 'command = ["./run-tests", "{units_file}"]  # missing' in answer.stderr
    assert not (tmp_path / "ciguard.toml").exists()
