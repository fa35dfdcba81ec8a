"""`ciguard audit` without an argument: one screen of any checkout, and whose token it takes."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from textwrap import indent
from typing import TYPE_CHECKING, Any

import pytest
from audit.conftest import SHARDS
from fakegithub.state import TOKEN, Fault

if TYPE_CHECKING:
    from conftest import Ciguard, Golden
    from fakegithub.past_runs import PastRuns

    Look = Callable[..., subprocess.CompletedProcess[str]]

SAMPLES = Path(__file__).parents[1] / "samples/audit"
CI = ".github/workflows/tests.yml"
TEST = """\
on: push
jobs:
  test:
    runs-on: ubuntu-latest
    steps:
      - run: COMMAND
"""
CARELESS = """\
on: pull_request
jobs:
  unit:
    name: Unit tests
    runs-on: ubuntu-latest
    steps:
      - run: pytest --reruns 3 --junit-xml=junit.xml
      - uses: actions/upload-artifact@v5
        with: {name: junit, path: junit.xml}
  slow:
    timeout-minutes: 30
    runs-on: ubuntu-latest
    steps: [{run: make slow}]
  gate:
    needs: [unit, slow]
    if: always()
    runs-on: ubuntu-latest
    steps: [{run: echo done}]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A checkout of octo-org/shop with one workflow."""
    root = tmp_path / "shop"
    (root / CI).parent.mkdir(parents=True)
    (root / CI).write_text(TEST.replace("COMMAND", "pytest"), "utf-8")
    for words in ("init -q", "remote add origin git@github.com:octo-org/shop.git"):
        subprocess.run(["git", *words.split()], cwd=root, check=True)
    return root


@pytest.fixture
def look(folder: Path, tmp_path: Path, ciguard: Ciguard) -> Look:
    """`ciguard audit` in the checkout, where no `gh` is installed, unless a test writes one."""
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "git").symlink_to(shutil.which("git") or "")

    def call(*words: str, expect: int = 0, cwd: Path = folder, **environ: str) -> Any:
        given = {"PATH": str(programs), "XDG_CACHE_HOME": str(tmp_path / "cache"), **environ}
        done = ciguard("audit", *words, cwd=cwd, expect=expect, **given)
        assert TOKEN not in done.stdout + done.stderr
        return done

    return call


def test_screen_has_evidence_and_next_step(folder: Path, look: Look, golden: Golden) -> None:
    (folder / CI).write_text(CARELESS, "utf-8")
    (folder / "Makefile").write_text("slow:\n\t@pytest -m slow\n", "utf-8")
    (folder / ".github/workflows/broken.yml").write_text("on: [push", "utf-8")
    (folder / ".github/workflows/endless.yml").symlink_to("/dev/zero")
    (folder / "src").mkdir()
    golden(look(cwd=folder / "src").stdout, SAMPLES / "checkout.txt")
    golden(look("--format", "markdown").stdout, SAMPLES / "checkout.md")
    found = json.loads(look("--format", "json").stdout)
    assert [found["next_step"][key] for key in ("kind", "command")] == ["comment", ""]
    assert found["headline"] in look("--format", "html").stdout
    assert look("--fail-on", "retries-hide-flaky-tests", expect=14).stdout


def test_past_runs_are_read_with_a_token(
    shop: PastRuns, folder: Path, look: Look, golden: Golden
) -> None:
    (folder / CI).write_text(SHARDS, "utf-8")
    environ = {"GITHUB_API_URL": shop.server.address, "NO_PROXY": "*"}
    shown = look(GITHUB_TOKEN=TOKEN, **environ).stdout
    golden(shown, SAMPLES / "checkout-runs.txt")
    look("--fail-on", "shard-died-at-limit", expect=14, GH_TOKEN=TOKEN, **environ)


def test_screen_stays_a_screen(folder: Path, look: Look) -> None:
    gate = """\
jobs:
  build-N: {steps: [{run: make}]}
  test: {needs: build-N, steps: [{run: pytest}]}
  gate:
    needs: test
    if: always()
    steps:
      - if: contains(needs.*.result, 'failure') || contains(needs.*.result, 'cancelled')
        run: exit 1
"""
    for number in range(30):  # each has its own sentence
        (folder / f"{CI}-{number}.yml").write_text(gate.replace("N", str(number)), "utf-8")
    lines = look().stdout.splitlines()
    assert len(lines) <= 26
    assert max(len(line) for line in lines if line[:3] != "   ") <= 80  # YAML is not wrapped
    assert any("more findings: --format markdown" in line for line in lines)


@pytest.mark.parametrize(
    ("origin", "environ", "host"),
    [
        ("https://github.com/octo-org/shop", {}, "github.com"),
        ("https://git.corp.example/octo-org/shop", {"GH_TOKEN": "ghp_other"}, "git.corp.example"),
        ("http://git.corp.example/octo-org/shop", {}, ""),
        ("../shop.git", {"GH_TOKEN": "ghp_other"}, ""),
    ],
)
def test_token_of_gh_is_for_the_host_of_origin(  # noqa: PLR0917  # fixtures, and three parameters
    folder: Path, look: Look, past: PastRuns, origin: str, environ: dict[str, str], host: str
) -> None:
    called, gh = folder / "called", folder.parent / "bin/gh"
    script = f'echo "$@" >{called}; /usr/bin/env >>{called}; echo {TOKEN}'
    gh.write_text(f"#!/bin/sh\n{script}\n", "utf-8")
    gh.chmod(0o755)
    subprocess.run(["git", "remote", "set-url", "origin", origin], cwd=folder, check=True)
    address = {"GITHUB_API_URL": past.server.address, "NO_PROXY": "*"} if not environ else {}
    past.green(3)
    shown = look(**address, **environ).stdout
    if not host:
        assert not called.exists()
        assert not past.server.exchanges
        return
    words, *variables = called.read_text("utf-8").splitlines()
    assert words == f"auth token --hostname {host}"
    assert not [name for name in variables if "TOKEN" in name]
    assert "ghp_other" not in str(past.server.exchanges)
    assert ("3 runs of 1 workflow" in shown) == bool(address)


def test_refusal_of_github_leaves_the_files(past: PastRuns, look: Look) -> None:
    past.server.faults.append(Fault(path="/repos/octo-org/shop", status=404, message="Not Found"))
    environ = {"GITHUB_API_URL": past.server.address, "NO_PROXY": "*", "GITHUB_TOKEN": TOKEN}
    shown = look(**environ).stdout
    assert "not read  runs: answered 404: Not Found" in shown
    assert "1 job can lose results\n" in shown


@pytest.mark.parametrize(
    ("command", "kind"),
    [
        ("pytest", "ciguard init"),
        ("./build", "ciguard init"),
        ("ciguard guard --plan plan", "ciguard doctor"),
    ],
)
def test_next_step_works_as_printed(
    folder: Path, look: Look, ciguard: Ciguard, command: str, kind: str
) -> None:
    (folder / CI).write_text(TEST.replace("COMMAND", command), "utf-8")
    (folder / "test_cart.py").write_text("def test_adds(): pass\n", "utf-8")
    (folder / "ciguard.toml").write_text('actions = "acme/ciguard@0123abc"\n', "utf-8")
    subprocess.run(["git", "add", "."], cwd=folder, check=True)
    commit = "git -c user.name=a -c user.email=a@b commit -qm a"
    subprocess.run(commit.split(), cwd=folder, check=True)
    shown = look().stdout
    assert " ".join(shown.split()).rstrip(")").endswith(f" {kind}")
    assert ("known to run tests" in shown) == ("test " not in f"{command} ")
    if command == "pytest":
        answer = ciguard("init", cwd=folder).stdout
        assert "would change .github/workflows/tests.yml" in answer


@pytest.mark.parametrize(
    ("command", "added", "file"),
    [
        ("pytest -q", "--junitxml=results.xml", "*.xml"),
        ("npm test", "-- --json --outputFile=results.json", "*.json"),
        ("yarn cover:${{ matrix.part }} --ci", "--json --outputFile=results.json", "*.json"),
        ("npx vitest run", "--outputFile.junit=results.xml", "*.xml"),
        ("gotestsum ./...", "--junitfile=results.xml", "*.xml"),
        ("go test ./...", "-json > results.json\n# the log then names no test\n", "*.json"),
        ("tox", "\n# env: { PYTEST_ADDOPTS: --junitxml=results-$TOX_ENV_NAME.xml, TOX_", "*.xml"),
        ("nox", "\n# env: { PYTEST_ADDOPTS: --junitxml=results-$NOX_CURRENT_SESSION", "*.xml"),
        ("npm run e2e", "-- --reporter=list,json\n# env: { PLAYWRIGHT_JSON_", "*.json"),
        ("dotnet test", "--logger trx", "*.trx"),
        ("dotnet test --logger trx", "", "*.trx"),
        ("mvn verify", "", "*.xml"),
        ("pytest --junitxml=out/unit.xml", "", "unit.xml"),
    ],
)
def test_result_files_lead_to_the_comment_and_to_shards(  # three parameters
    folder: Path, look: Look, command: str, added: str, file: str
) -> None:
    scripts = {"test": "jest", "cover:base": "node node_modules/jest-cli/bin/jest"}
    scripts["cover:unit"] = "yarn cover:base --coverage"
    scripts["e2e"] = "playwright test"
    (folder / "package.json").write_text(json.dumps({"scripts": scripts}), "utf-8")
    text = TEST.replace("    steps", "    strategy: {matrix: {part: [unit, api]}}\n    steps")
    text = text.replace("COMMAND", command)

    def following() -> dict[str, str]:
        (folder / CI).write_text(text, "utf-8")
        step: dict[str, str] = json.loads(look("--format", "json").stdout)["next_step"]
        return step

    results = following()
    assert results["kind"] == "results"
    assert "job test (.github/workflows/tests.yml:7) uploads none" in results["problem"]
    pasted = results["lines"]
    assert pasted.startswith(f"# {command}" if added else "- if")
    assert added in pasted
    if added:
        changed, *keys = re.findall("^# (.*)", pasted, re.M)
        env = [f"\n        {key}" for key in keys if key.startswith("env")]
        text = text.replace(command, "".join((changed, *env)))
    text += indent(pasted, " " * 6)
    job = following()
    assert [job["kind"], job["problem"]] == ["comment", ""]
    assert 'results: "results-*-*/**/' in job["lines"]
    assert f'/{file}", needs: "${{{{ toJSON(needs) }}}}", expect: 2' in job["lines"]
    text += job["lines"]
    assert following()["kind"] == "divide"
    assert "no finding in 1 workflow file" in look("--workflow", "tests.yml").stdout


def test_moved_jobs_are_named(folder: Path, look: Look) -> None:
    plan = "  ciguard: {steps: [{uses: o/ciguard/actions/plan@1}]}\n"
    (folder / CI).write_text(TEST.replace("COMMAND", "pytest") + plan, "utf-8")
    shown = " ".join(look().stdout.split())
    assert "known to run tests" not in shown
    assert f"run by ciguard tests of {CI}" in shown


def test_what_cannot_be_audited_is_named(folder: Path, look: Look, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    shown = look(cwd=outside, expect=3).stderr
    assert "no checkout: git rev-parse failed: fatal: not a git repository" in shown
    assert "fix: call it in a checkout, or name a repository" in shown
    assert "name one of: tests.yml" in look("--workflow", "ci.yml", expect=3).stderr
    assert "no token for GitHub" in look("--fail-on", "shard-died-at-limit", expect=2).stderr
    (folder / CI).unlink()
    assert "no workflow file" in look(expect=5).stderr


def test_audit_of_files_loads_no_client_and_no_numpy() -> None:
    program = (
        "import ciguard.audit.command, ciguard.audit.workflow_command, sys; print(*sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert not {"httpx", "pydantic", "numpy", "jinja2"} & {*done.stdout.split()}
