"""Projects as they lie in a repository: `ciguard init`, a push, a pull request, a failing plan.

Those of tests/layouts, some with a workflow of their own, whose test job is moved. Executed by act,
with the real tools from the package index; what is installed is asserted by the projects' tests.
`make test` has one of them, without the failing plan.
"""

from __future__ import annotations

import html
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pytest
from act.conftest import open_github
from act.fake_machine import COMMIT, NO_NETWORK, OURS, PUSH, ROOT, GitHub, Run
from conftest import clean_environment
from run.conftest import answers, candidates

from ciguard.codec import plan_file

LAYOUTS = ROOT / "tests/layouts"
PYTHONS = ("3.12", "3.13")
# How a machine reaches the package index: the variables that its owner set.
NETWORK = re.compile(
    r"(PIP_(INDEX_URL|CERT)|UV_(DEFAULT_INDEX|INDEX_URL)|SSL_CERT_(FILE|DIR)|REQUESTS_CA_BUNDLE"
    r"|https?_proxy|no_proxy)",
    re.IGNORECASE,
)
COLOURS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
OWN_WORKFLOW = ".github/workflows/ciguard.yml"
CI = ".github/workflows/ci.yml"
CONFIGURATION = f"""
actions = "{OURS}@{COMMIT} # v0.2.0"
[plan]
shards = 2
"""
TOTAL = """
import pytest

@pytest.mark.parametrize("count", [1, 2, 3])
def test_total(count):
    assert sum([5] * count) == 5 * count
"""
BEFORE = f"""{TOTAL}
def test_removed(): pass

def test_called_so_before(): pass
"""
# The crash looks like success to whatever runs pytest.
AFTER = f"""{TOTAL}
import os

def test_called_so_after(): pass

def test_is_new(): pass

def test_fails():
    assert 12 == 13

def test_crashes():
    os._exit(0)
"""
MORE, NEW, GONE, FAILED = 2, 4, 2, 2  # tests of the pull request, in each combination
pytestmark = pytest.mark.timeout(900)


@dataclass(frozen=True, slots=True)
class Layout:
    """What is expected of a project.

    Attributes:
        tests: of the first push, in all combinations.
        printed: what the log of a set-up holds, the versions of the real tools among it.
        combinations: of a moved job, as its shards have them.
        job: pattern of the moved job's names; "" where the project has no workflow.
        aggregation: job of the project's workflow that is red where the plan fails.
        shards: of each combination.
        folder: of the tests that the pull request changes.
        lock: shell commands that write the lock files, which name the index of the machine.
    """

    name: str
    tests: int
    printed: tuple[str, ...] = ()
    combinations: tuple[Mapping[str, object], ...] = ({},)
    job: str = ""
    aggregation: str = ""
    shards: int = 2
    folder: str = "tests"
    lock: tuple[str, ...] = ()
    has_network: bool = True

    @property
    def workflow(self) -> str:
        return CI if self.job else OWN_WORKFLOW


PYTHON_AXIS: tuple[Mapping[str, object], ...] = tuple({"python": version} for version in PYTHONS)
MAKE = Layout("make", 6, job="test-", has_network=False)
MATRIX = Layout(
    "matrix",
    21,
    combinations=(
        {"os": "ubuntu-latest", "python": "3.12"},
        {"os": "ubuntu-latest", "python": "3.13"},
        {"os": "ubuntu-24.04", "python": "3.13", "currency": "CHF"},
    ),
    job="test ",
    aggregation="all-green",
    has_network=False,
)
SPLIT = Layout(
    "split", 9, combinations=({"python": "3.13"},), job="test-", shards=3, has_network=False
)
CASES = (
    *(MAKE, MATRIX, SPLIT),
    Layout(
        "tox",
        18,
        (r"Python 3\.12\.", r"Python 3\.13\.", r"(?m)^4\.\d+\.\d+ from .*tox"),
        combinations=({"tox_env": "py312"}, {"tox_env": "py313"}, {"tox_env": "oldest"}),
        job=r"Tests (py312|py313|oldest) \(",
        aggregation="check",
    ),
    Layout(
        "nox",
        18,
        (r"installed package nox 20\d\d\.", r"(?m)^20\d\d\.\d+\.\d+$"),
        combinations=({"session": "tests-3.12"}, {"session": "tests-3.13"}, {"session": "oldest"}),
        job="nox-",
    ),
    Layout("pdm", 12, (r"PDM, version 2\.",), combinations=PYTHON_AXIS, job="test-"),
    Layout("hatch", 12, (r"Hatch, version 1\.",), combinations=PYTHON_AXIS, job="test-"),
    Layout(
        "uv",
        8,
        (r"uv 0\.\d+\.\d+", r"CPython 3\.13\.", r"\+ sortedcontainers==2\.4\.0"),
        lock=("uv lock",),
    ),
    Layout(
        "poetry",
        8,
        (r"Python 3\.12\.", r"installed package poetry 2\.", r"shop \(1\)"),
        # Without a source, Poetry asks another interface than pip, which not every mirror has.
        lock=(
            'pipx run --python python3.12 poetry source add -n --priority primary index "$INDEX"',
            "pipx run --python python3.12 poetry lock -n",
        ),
    ),
    Layout("pip", 8, (r"Python 3\.13\.", r"Successfully installed .*shop-1")),
    Layout(
        "monorepo",
        8,
        (
            *(r"CPython 3\.12\.", r"\+ packaging==25\.0", r"CPython 3\.13\."),
            *(r"\+ packaging==24\.2", r"Successfully installed .*packaging-23\.2"),
        ),
        folder="api/tests",
        lock=("uv lock --directory api", "uv lock --directory worker"),
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


@pytest.fixture(
    scope="module",
    params=[pytest.param(one, marks=() if one is MAKE else pytest.mark.soak) for one in CASES],
    ids=[one.name for one in CASES],
)
def layout(request: pytest.FixtureRequest) -> Layout:
    found: Layout = request.param
    return found


@pytest.fixture(scope="module")
def variables(request: pytest.FixtureRequest, layout: Layout) -> Mapping[str, str]:
    """Of the runner, where the layout needs the package index."""
    found: Mapping[str, str] = NO_NETWORK
    if layout.has_network:
        found = request.getfixturevalue("network")
    return found


@pytest.fixture(scope="module")
def github(
    layout: Layout, variables: Mapping[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[GitHub]:
    with open_github(tmp_path_factory.mktemp(layout.name), variables) as made:
        yield made


@pytest.fixture(scope="module")
def pushed(github: GitHub, layout: Layout, variables: Mapping[str, str]) -> Run:
    """The first push after `ciguard init`."""
    shutil.copytree(LAYOUTS / layout.name, github.checkout, dirs_exist_ok=True)
    if layout.lock:
        folders = (variables["PATH"], f"{variables['ACT_PYTHONS']}/tools/bin", os.environ["PATH"])
        environ = {**os.environ, **variables, "PATH": os.pathsep.join(folders)}
        # Without an environment of any kind, Poetry locks for the Python that it runs in.
        environ |= {"POETRY_VIRTUALENVS_CREATE": "false", "VIRTUAL_ENV": ""}
        for command in layout.lock:
            subprocess.run(["bash", "-c", command], cwd=github.checkout, env=environ, check=True)
    files = {f"{layout.folder}/test_cart.py": BEFORE}
    if layout.job:
        files["ciguard.toml"] = CONFIGURATION
    github.commit("a shop", files)
    answer = github.ciguard("init", "--yes")
    assert answer.returncode == 0, answer.stderr
    assert not (layout.job and (github.checkout / OWN_WORKFLOW).exists())
    config = (github.checkout / "ciguard.toml").read_text("utf-8")
    shards = "" if layout.job else "[plan]\nshards = 2\n"
    github.commit("ciguard", {"ciguard.toml": config + shards})
    github.git("push", "--quiet", "origin", "main")
    return github.execute(layout.workflow, "push", PUSH, run_id=101)


@pytest.fixture(scope="module")
def proposed(github: GitHub, layout: Layout, pushed: Run) -> Run:
    """A pull request with tests that are new, gone, renamed, failing and crashing."""
    assert pushed.green, pushed.talk
    event = github.propose("change", {f"{layout.folder}/test_cart.py": AFTER})
    return github.execute(layout.workflow, "pull_request", event, run_id=102)


@pytest.fixture(scope="module")
def without_plan(github: GitHub, layout: Layout, pushed: Run) -> Run:
    assert pushed.green, pushed.talk
    config = (github.checkout / "ciguard.toml").read_text("utf-8")
    github.git("switch", "--quiet", "--create", "mistake", "main")
    github.commit("a mistake", {"ciguard.toml": f"mistake = 2\n{config}"})
    return github.execute(layout.workflow, "push", PUSH, run_id=103)


def outcomes(github: GitHub, run_id: int) -> dict[tuple[str, str, str], str]:
    """The outcome of each test in the records, by suite, combination and unit."""
    files = (github.artifacts / str(run_id)).glob("ciguard-record-*/**/*.jsonl")
    lines = [json.loads(line) for file in files for line in file.read_bytes().splitlines()]
    ended = [line for line in lines if "outcome" in line]
    keys = ("suite", "variant", "unit")
    return {tuple(line.get(key, "") for key in keys): line["outcome"] for line in ended}


def combinations(github: GitHub, run_id: int) -> list[Mapping[str, object]]:
    """Of each shard of the plan, in its order."""
    (file,) = (github.artifacts / str(run_id)).glob("ciguard-plan-*-1/plan.json")
    plan = plan_file.decode(file.read_bytes(), str(file))
    return [plan.combination(shard) or {} for shard in plan.shards]


@pytest.mark.soak
def test_first_push_is_green_with_the_versions_of_the_project(
    github: GitHub, layout: Layout, pushed: Run
) -> None:
    assert pushed.green, pushed.talk
    legs = pushed.legs(layout.job or r"tests \(")
    printed = COLOURS.sub(
        "", pushed.job("ciguard plan").printed + "".join(leg.printed for leg in legs)
    )
    for expected in layout.printed:
        assert re.search(expected, printed), f"{expected}\n{pushed.talk}"
    found = outcomes(github, 101)
    assert len(found) == layout.tests
    assert set(found.values()) == {"passed"}
    shards = combinations(github, 101)
    assert len(legs) == len(shards)
    if layout.job:
        assert shards == [one for one in layout.combinations for _ in range(layout.shards)]


@pytest.mark.soak
def test_pull_request_runs_what_is_listed_and_names_failure_and_crash(
    github: GitHub, layout: Layout, proposed: Run
) -> None:
    assert not proposed.green
    assert proposed.job("ciguard").result == "failure"
    count = len(layout.combinations)
    total = layout.tests + MORE * count
    found = outcomes(github, 102)
    assert len(found) == total
    names = [unit.rpartition("::")[2] for *_, unit in found]
    assert "test_removed" not in names
    assert "test_called_so_before" not in names
    assert names.count("test_called_so_after") == names.count("test_is_new") == count
    bad = sorted(
        (unit.rpartition("::")[2], outcome)
        for (*_, unit), outcome in found.items()
        if outcome != "passed"
    )
    assert bad == [("test_crashes", "died")] * count + [("test_fails", "failed")] * count
    (comment,) = github.comments()
    body = html.unescape(comment["body"]).replace("<wbr>", "")
    changes = f", {NEW * count} new, {GONE * count} gone" if layout.job else ""
    assert f"{FAILED * count} of {total} tests failed{changes}" in body
    for name in ("test_fails", "test_crashes"):
        assert name in body
    if layout.aggregation:
        assert proposed.job(layout.aggregation).result == "failure"


@pytest.mark.soak
def test_failed_plan_is_red_in_report_and_aggregation_job(
    layout: Layout, without_plan: Run
) -> None:
    assert not without_plan.green
    assert without_plan.job("ciguard plan").result == "failure"
    assert without_plan.job("ciguard").result == "failure"
    if layout.aggregation:
        assert without_plan.job(layout.aggregation).result == "failure"


def coverage_of(content: str) -> dict[str, tuple[list[int], list[list[int]]]]:
    """Lines and branches that were executed, by file, in the JSON of coverage."""
    files = json.loads(content)["files"]
    return {
        name: (file["executed_lines"], file["executed_branches"]) for name, file in files.items()
    }


@pytest.mark.soak
@pytest.mark.parametrize("layout", [SPLIT], indirect=True, ids=["split"])
def test_coverage_of_the_shards_combines_to_that_of_one_run(github: GitHub, pushed: Run) -> None:
    assert pushed.green, pushed.talk
    combined = (github.artifacts / "101/coverage/coverage.json").read_text("utf-8")
    whole = github.folder / "whole"
    github.git("worktree", "add", "--detach", str(whole), "main")
    command = [sys.executable, "-m", "pytest", "-q", "--cov=shop", "--cov-report=json"]
    subprocess.run(command, cwd=whole, env=clean_environment(PYTEST_ADDOPTS=""), check=True)
    found = coverage_of(combined)
    assert found == coverage_of((whole / "coverage.json").read_text("utf-8"))
    (lines, branches) = found["shop/__init__.py"]
    assert lines
    assert branches


ONE_MORE = """
import os

def test_fails_at_first_in_one_combination():
    assert os.environ["CURRENCY"] == "EUR" or os.environ["GITHUB_RUN_ATTEMPT"] != "1"
"""


def record_attempts(github: GitHub, run_id: int) -> list[tuple[str, str]]:
    folders = (github.artifacts / str(run_id)).glob("ciguard-record-*")
    return sorted((one, two) for one, two in (path.name.split("-")[-2:] for path in folders))


@pytest.mark.soak
@pytest.mark.parametrize("layout", [MATRIX], indirect=True, ids=["matrix"])
def test_failed_jobs_and_then_all_run_again(github: GitHub, layout: Layout, pushed: Run) -> None:
    assert pushed.green, pushed.talk
    github.git("switch", "--quiet", "--create", "attempts", "main")
    github.commit("one more", {"tests/test_attempts.py": ONE_MORE})
    first = github.execute(layout.workflow, "push", PUSH, run_id=104)
    assert not first.green
    assert first.job("all-green").result == "failure"
    found = outcomes(github, 104)
    ((_, combination, _),) = [key for key, outcome in found.items() if outcome != "passed"]
    assert combination == "ubuntu-24.04, 3.13"
    before = record_attempts(github, 104)
    assert before == [(f"0{shard}", "1") for shard in range(1, 7)]
    (failed,) = {
        path.parent.name.split("-")[-2]
        for path in (github.artifacts / "104").glob("ciguard-record-*/*.jsonl")
        if '"outcome":"failed"' in path.read_text("utf-8")
    }
    names = [name.rpartition("-")[0] for name in first.jobs if re.match(layout.job, name)]
    github.set_jobs(104, {name: 2 if f"({failed})" in name else 1 for name in names})
    rerun = github.workflow_of_rerun(
        layout.workflow, run_id=104, shards=[failed], kept=["ciguard", "build"]
    )
    second = github.execute(rerun, "push", PUSH, run_id=104, attempt=2)
    assert second.green, second.talk
    assert len(second.legs(layout.job)) == 1
    assert record_attempts(github, 104) == sorted([*before, (failed, "2")])
    total = layout.tests + len(layout.combinations)
    assert f"all {total} tests" in second.job("ciguard").printed
    assert history_of(github, 104) == total
    github.set_jobs(104, dict.fromkeys(names, 3))
    third = github.execute(layout.workflow, "push", PUSH, run_id=104, attempt=3)
    assert third.green, third.talk
    assert len(third.legs(layout.job)) == len(before)
    assert f"all {total} tests" in third.job("ciguard").printed
    assert history_of(github, 104) == total


def history_of(github: GitHub, run_id: int) -> int:
    """Number of results of a run in the history; each test of a combination once."""
    rows = github.history_values()
    tests = [(one["variant"], one["unit"]) for one in rows if one["run_id"] == run_id]
    assert len(set(tests)) == len(tests)
    return len(tests)
