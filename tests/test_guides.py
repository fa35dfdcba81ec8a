"""The tutorial's commands work in their order; the guides name options and keys that exist."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from datetime import date, timedelta
from functools import cache
from pathlib import Path

import pytest
from conftest import Ciguard, call_in_process, clean_environment
from frameworks.loop import GO, GO_CACHE, PLAYER, needs_node

from ciguard import cli
from ciguard.codec import plan_file, quarantine
from ciguard.config import file as config

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
TUTORIAL = DOCS / "tutorial.md"
GUIDES = sorted((ROOT / "docs" / "how-to").glob("*.md"))
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
# Pages whose `sh` blocks a test executes, and why no test executes those of other pages.
EXECUTED = {
    "README": "test_readme.py",
    **dict.fromkeys(("tutorial", "tutorial-jest", "tutorial-go"), "test_guides.py"),
    **dict.fromkeys(("tutorial-dotnet", "audit-a-matrix", "compare-logs"), "test_guides.py"),
    **dict.fromkeys(("experiment", "long-shards", "suites-and-pools"), "test_guides.py"),
    **dict.fromkeys(
        ("serve", "connect-a-service", "operate-the-service"), "serve/test_serve_guide.py"
    ),
}
IN_THE_DEMO = ("suites-and-pools.md", "long-shards.md")
NEEDED = {
    **dict.fromkeys(("compare-two-runs", "find-why-a-shard-died"), "runs on GitHub"),
    **dict.fromkeys(("history", "forks-and-permissions"), "a repository on GitHub"),
    "confirm-suspects": "a comparison with a suspect, and its two commits",
    "find-the-commit": "a repository with the named tags and tests",
    "into-your-workflow": "a repository with that workflow; tests/act/test_actions.py runs it",
    "other-frameworks": "a build with result files",
}


def blocks(page: str, language: str) -> list[str]:
    """The fenced blocks of a language, in the page's order."""
    return re.findall(rf"```{language}\n(.*?)```", page, flags=re.DOTALL)


def executed(page: Path, work: Path, **environment: str) -> list[str]:
    """Execute every command of a page; the lines that it printed, each promised one among them."""
    text = page.read_text(encoding="utf-8")
    work.mkdir()
    identity = {"user.name": "reader", "user.email": "reader@example.org"}
    settings = {**json.loads(environment.pop("settings", "{}")), **identity}
    environment |= {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_COUNT": str(len(settings))}
    for number, (key, value) in enumerate(settings.items()):
        environment[f"GIT_CONFIG_KEY_{number}"] = key
        environment[f"GIT_CONFIG_VALUE_{number}"] = value
    done = subprocess.run(
        ["bash", "-e", "-c", "\n".join(blocks(text, "sh"))],
        cwd=work,
        env=clean_environment(**environment),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    for line in "".join(blocks(text, "text")).splitlines():
        assert line in lines, done.stdout
    return lines


@pytest.mark.soak
def test_the_commands_of_the_tutorial_work(tmp_path: Path) -> None:
    """The repository on GitHub is a bare one beside the folder: git rewrites its address."""
    work = tmp_path / "work"
    remote = tmp_path / "remote.git"
    subprocess.run(["git", "init", "--quiet", "--bare", remote], check=True)
    settings = {f"url.{remote}.insteadOf": "https://github.com/YOU/shop.git"}
    lines = executed(TUTORIAL, work, settings=json.dumps(settings))
    assert lines.count("exit code 10") == 2
    branches = subprocess.run(
        ["git", "-C", remote, "branch"], capture_output=True, text=True, check=True
    )
    assert branches.stdout.split() == ["main", "rounding"]
    workflow = (work / "shop" / ".github" / "workflows" / "ciguard.yml").read_text("utf-8")
    assert "uses: OWNER/ciguard/actions/plan@COMMIT\n" in workflow


@pytest.mark.soak
def test_the_commands_of_the_tutorial_for_jest_work(tmp_path: Path) -> None:
    needs_node("jest")
    lines = executed(DOCS / "tutorial-jest.md", tmp_path / "work", npm_config_prefer_offline="true")
    assert "  died (crash) [jest] src/prices.test.js reads prices" in lines


@pytest.mark.soak
def test_the_commands_of_the_tutorial_for_go_work(tmp_path: Path) -> None:
    if not (GO / "go").is_file():
        pytest.skip("needs Go: make tools")
    path = f"{GO}:{clean_environment()['PATH']}"
    environ = {"PATH": path, "HOME": str(tmp_path), "GOTOOLCHAIN": "local"}
    environ["GOCACHE"] = str(GO_CACHE)
    lines = executed(DOCS / "tutorial-go.md", tmp_path / "work", **environ)
    assert "  died (crash) [go] example.org/shop/prices.TestReadsPrices" in lines


@pytest.mark.soak
def test_the_commands_of_the_tutorial_for_dotnet_work(tmp_path: Path) -> None:
    """Its `dotnet` plays a recorded stream whose tests have the names of the tutorial."""
    program = tmp_path / "bin/dotnet"
    program.parent.mkdir()
    program.write_text(
        f"#!/bin/sh\nexport MARKS={tmp_path}/marks ${{GROW:+ACCIDENT=oom}}\n"
        """[ "$1" != new ] || exec echo 'Include="xunit"' > Shop.Tests.csproj\n"""
        '[ "$1" != build ] || set -- recording xunit2-tutorial\n'
        f'exec {shlex.join((sys.executable, str(PLAYER)))} "$@"\n'
    )
    program.chmod(0o755)
    found = f"{program.parent}:{clean_environment()['PATH']}"
    executed(DOCS / "tutorial-dotnet.md", tmp_path / "work", PATH=found)


def test_commands_of_each_page_are_executed_or_need_more_than_a_test_has() -> None:
    pages = {page.stem for page in PAGES if blocks(page.read_text("utf-8"), "sh")}
    assert pages == EXECUTED.keys() | NEEDED.keys()
    assert not EXECUTED.keys() & NEEDED.keys()
    for page, test in EXECUTED.items():
        assert re.search(rf"\b{page}\.md", (ROOT / "tests" / test).read_text("utf-8"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_options_in_a_page_exist(page: Path) -> None:
    """Every `--option` of a command that a page shows is in the help of its verb."""
    commands = re.findall(r"ciguard ([a-z]+)\b((?:\\\n|[^`\n])*)", page.read_text("utf-8"))
    for verb, words in commands:
        if verb in cli.VERBS:
            assert own_options(words) <= known_options(verb), f"ciguard {verb}{words}"


def own_options(words: str) -> set[str]:
    """Options of ciguard itself, without those in quotes and after `--`, a pipe or `#`."""
    own = re.split(r"\s--\s|[|;&]|\s#", re.sub(r"'[^']*'", "''", words))[0]
    return set(re.findall(r"(?<=[\s\[])--[a-z-]+", own))


@cache
def known_options(verb: str) -> set[str]:
    actions = {
        "history": ("add", "pull", "push", "show", "stale"),
        "serve": ("backfill", "check", "prune", "token"),
    }.get(verb, ())
    calls = [[verb], *([verb, action] for action in actions)]
    text = "".join(call_in_process(*call, "--help", cwd=ROOT).stdout for call in calls)
    return set(re.findall(r"--[a-z-]+", text))


@pytest.mark.parametrize("page", GUIDES, ids=lambda page: page.stem)
def test_configuration_in_a_guide_is_accepted(page: Path) -> None:
    for block in blocks(page.read_text("utf-8"), "toml"):
        if "[[quarantine]]" in block:
            (until,) = re.findall(r"(?m)^until = (\S+)", block)
            day = date.fromisoformat(until) - timedelta(days=9)
            assert not quarantine.decode(block.encode(), day, is_base=True).problems
        else:
            config.parse({config.FILE: block.encode()}, {})


def test_the_audit_of_its_guide_finds_what_the_guide_says(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "how-to" / "audit-a-matrix.md").read_text(encoding="utf-8")
    workflow = tmp_path / ".github" / "workflows" / "ci.yml"
    workflow.parent.mkdir(parents=True)
    workflow.write_text("".join(blocks(page, "yaml")), encoding="utf-8")
    (tmp_path / "tests.json").write_text("".join(blocks(page, "json")), encoding="utf-8")
    command = blocks(page, "sh")[0]
    done = call_in_process(*command.split()[1:], cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for line in "".join(blocks(page, "text")).splitlines():
        assert line in done.stdout.splitlines()


def test_the_commands_of_the_guide_for_logs_work(tmp_path: Path) -> None:
    executed(DOCS / "how-to" / "compare-logs.md", tmp_path / "work")


def test_guides_without_a_project_work_in_that_of_the_demo(
    tmp_path: Path, ciguard_process: Ciguard
) -> None:
    shop = tmp_path / "shop"
    shutil.copytree(ROOT / "demo" / "suite", shop)
    ciguard_process("plan", "--shards", "2", "--artifact", "plan", cwd=shop)
    pages = [(DOCS / "how-to" / name).read_text("utf-8") for name in IN_THE_DEMO]
    for command in "".join(block for page in pages for block in blocks(page, "sh")).splitlines():
        ciguard_process(*shlex.split(command, comments=True)[1:], cwd=shop)


@pytest.mark.soak
def test_the_commands_of_the_guide_for_experiments_work(tmp_path: Path) -> None:
    lines = executed(DOCS / "how-to" / "experiment.md", tmp_path / "work")
    assert any(line.startswith("step (size=64, cold) ") for line in lines)


def trx(names: list[str]) -> str:
    results = "".join(
        f'<UnitTestResult testId="{name}" testName="{name}" outcome="Passed" duration="00:00:01"/>'
        for name in names
    )
    space = "http://microsoft.com/schemas/VisualStudio/TeamTest/2010"
    return f'<TestRun xmlns="{space}"><Results>{results}</Results></TestRun>'


def test_the_matrix_of_its_guide_is_judged_as_the_guide_says(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "how-to" / "audit-a-matrix.md").read_text(encoding="utf-8")
    workflow = tmp_path / ".github" / "workflows" / "ci.yml"
    workflow.parent.mkdir(parents=True)
    workflow.write_text("".join(blocks(page, "yaml")), encoding="utf-8")
    (tmp_path / "tests.json").write_text("".join(blocks(page, "json")), encoding="utf-8")
    judged = blocks(page, "sh")[1].splitlines()
    done = call_in_process(*shlex.split(judged[0])[1:], cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    plan = plan_file.decode((tmp_path / "ciguard-plan.json").read_bytes(), "plan")
    for shard in plan.shards:
        folder = tmp_path / "results" / shard.key / "TestResults"
        folder.mkdir(parents=True)
        names = [unit.unit for unit in shard.units]
        (folder / "r.trx").write_text(trx(names), encoding="utf-8")
    words = shlex.split(judged[1])[1:]
    assert call_in_process(*words, cwd=tmp_path).returncode == 13
    (tmp_path / "ciguard.toml").write_text("".join(blocks(page, "toml")), encoding="utf-8")
    done = call_in_process(*words, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 in no shard (acknowledged)" in done.stdout.splitlines()[0]


def test_the_list_with_markers_decides_what_marks_select(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "how-to" / "audit-a-matrix.md").read_text(encoding="utf-8")
    (tmp_path / "list_tests.py").write_text("".join(blocks(page, "python")), encoding="utf-8")
    tests = "import pytest\n@pytest.mark.slow\ndef test_a(): pass\ndef test_b(): pass\n"
    (tmp_path / "test_shop.py").write_text(tests, encoding="utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n    slow\n", encoding="utf-8")
    command = [sys.executable, "list_tests.py"]
    environment = clean_environment(PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")
    subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, check=True)
    job = "jobs: {a: {strategy: {matrix: {m: [slow, not slow]}}, steps: [{run: RUN}]}}"
    run = "\"pytest -m '${{ matrix.m }}'\""
    (tmp_path / "ci.yml").write_text(job.replace("RUN", run), encoding="utf-8")
    done = call_in_process("audit", "--matrix", "ci.yml", "--tests", "tests.json", cwd=tmp_path)
    assert done.stdout.splitlines()[0] == "2 tests: each in one shard; 2 shards"
