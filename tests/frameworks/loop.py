"""Real test suites through the whole loop: plan, run each shard, guard. No framework is mocked."""

from __future__ import annotations

import itertools
import json
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from conftest import call_in_process, clean_environment

PROJECTS = Path(__file__).parent / "projects"
PLAYER = Path(__file__).parent / "dotnet/player.py"  # plays a `dotnet`
TOOLS = Path(__file__).parent.parent.parent / ".tools"
NODE_MODULES = TOOLS / "frameworks" / "node_modules"
GO = TOOLS / "go" / "bin"
GO_CACHE = TOOLS / "go" / "cache"  # its standard library is compiled once, for all tests
NEXTEST = TOOLS / "nextest" / "bin"
OLDEST_NODE = 20
SHARDS = ("01", "02")


def needs_program(name: str, package: str) -> None:
    """Skip the test where a program is missing, and say what has it."""
    if shutil.which(name) is None:
        pytest.skip(f"needs {name} ({package})")


def needs_gem(name: str, package: str) -> None:
    """Skip the test where a gem is missing, and say which package of Debian has it."""
    needs_program("ruby", "Debian's ruby")
    found = subprocess.run(["ruby", "-e", f'require "{name}"'], capture_output=True, check=False)
    if found.returncode:
        pytest.skip(f"needs {name} (Debian's {package})")


@cache
def node_version() -> str:
    """20.1.0."""
    done = subprocess.run(["node", "--version"], capture_output=True, text=True, check=True)
    return done.stdout.strip().removeprefix("v")


def needs_node(package: str) -> None:
    """Skip the test where a package of npm is missing, or Node.js is older than they allow."""
    needs_program("node", f"{OLDEST_NODE} or newer")
    if int(node_version().split(".")[0]) < OLDEST_NODE:
        pytest.skip(f"needs Node.js {OLDEST_NODE} or newer")
    if not (NODE_MODULES / package).is_dir():
        pytest.skip(f"needs {package} of npm: make tools")


def needs_maven() -> None:
    """Skip the test where Maven or what the project's pom.xml names is missing."""
    needs_program("mvn", "Debian's maven")
    if not (Path.home() / ".m2/repository/org/apache/maven/plugins/maven-surefire-plugin").is_dir():
        pytest.skip(f"needs plugins of Maven: run `mvn test` in {PROJECTS / 'maven'} once")


@dataclass
class Loop:
    """One suite in a folder of its own, with a plan of two shards, or of one."""

    folder: Path
    environ: Mapping[str, str] = field(default_factory=dict)
    shards: tuple[str, ...] = SHARDS

    def plan(self) -> dict[str, Any]:
        words = ("plan", "--shards", str(len(self.shards)), "-o", "plan.json")
        # Each test of a file counts its executions.
        environ = {"CIGUARD_POLICY_PROBE": "false", **self.environ}
        done = call_in_process(*words, cwd=self.folder, **environ)
        assert done.returncode == 0, done.stdout + done.stderr
        found: dict[str, Any] = json.loads((self.folder / "plan.json").read_text())
        return found

    @property
    def toml(self) -> str:
        return (self.folder / "ciguard.toml").read_text()

    def configure(self, toml: str) -> None:
        """Plan with another `ciguard.toml`."""
        (self.folder / "ciguard.toml").write_text(toml)
        self.plan()

    def planned(self) -> list[str]:
        """The ids of all units of the plan, sorted."""
        plan = json.loads((self.folder / "plan.json").read_text())
        return sorted(unit["unit"] for shard in plan["shards"] for unit in shard["units"])

    def listed_filters(self, **environ: str) -> list[str]:
        """The filters of a plan that is made now."""
        self.environ = {**self.environ, **environ}
        (suite,) = self.plan()["suites"].values()
        found: list[str] = suite.get("filters") or []
        return found

    def command(self, shard: str, record: str, *words: str) -> list[str]:
        where = ("--plan", "plan.json", "--shard", shard, "--record", f"records/{record}")
        return [sys.executable, "-m", "ciguard.run", *where, *words]

    def run_shard(self, shard: str, record: str, *words: str, **environ: str) -> str:
        """Run a shard to its end; what it printed."""
        done = subprocess.run(
            self.command(shard, record, *words),
            cwd=self.folder,
            env=clean_environment(**{**self.environ, **environ}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=300,
            check=False,
        )
        return done.stdout.decode("utf-8", "replace")

    def run(self, **environ: str) -> dict[str, Any]:
        """Run all shards, and judge them; the verdict."""
        shutil.rmtree(self.folder / "records", ignore_errors=True)
        self.printed = "".join(self.run_shard(key, key, **environ) for key in self.shards)
        return self.guard()

    def guard(self) -> dict[str, Any]:
        words = ("--plan", "plan.json", "--records", "records", "--format", "json")
        done = call_in_process("guard", *words, cwd=self.folder)
        assert done.stdout, done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    def record_lines(self) -> list[dict[str, Any]]:
        files = sorted(self.folder.glob("records/*/process-*.jsonl"))
        return [json.loads(line) for file in files for line in file.read_bytes().splitlines()]

    def execution(self) -> set[str]:
        """Whether bodies were executed, as each tested process reports: the reason, the setting."""
        lines = (line for line in self.record_lines() if line.get("kind") == "execution")
        return {f"{line['reason']} {line['detail']}".strip() for line in lines}

    def seeds(self) -> set[str]:
        """The words that give the order of this run again."""
        return {line["detail"] for line in self.record_lines() if line.get("kind") == "seed"}

    def cases_begun(self) -> list[tuple[str, str]]:
        """Unit and name of each case, where its start is directly before its result."""
        lines = [line for line in self.record_lines() if line["type"] != "defaults"]
        return [
            (start["unit"], start["detail"])
            for start, result in itertools.pairwise(lines)
            if start.get("kind") == "case_start"
            and [result.get(key) for key in ("type", "unit", "case")]
            == ["result", start["unit"], start["detail"]]
        ]

    def kill_and_resume(self, shard: str, after_s: float) -> None:
        """Kill a leg after a time, and let a second attempt go on from its record."""
        shutil.rmtree(self.folder / "records", ignore_errors=True)
        attempt = {"GITHUB_RUN_ID": "1", "GITHUB_RUN_ATTEMPT": "1"}
        leg = subprocess.Popen(
            self.command(shard, "first"),
            cwd=self.folder,
            env=clean_environment(**{**self.environ, **attempt}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            leg.wait(after_s)
        except subprocess.TimeoutExpired:
            leg.kill()
            leg.wait()
        attempt["GITHUB_RUN_ATTEMPT"] = "2"
        earlier = ("--resume-from", "records") if (self.folder / "records").is_dir() else ()
        self.run_shard(shard, "second", *earlier, **attempt)
        for other in SHARDS:
            if other != shard:
                self.run_shard(other, other, **attempt)


def lay_out(folder: Path, name: str, toml: str = "", **environ: str) -> Loop:
    """Plan a project of `projects/` in a repository of its own.

    Args:
        toml: instead of the project's `ciguard.toml`.
    """
    shutil.copytree(PROJECTS / name, folder, dirs_exist_ok=True)
    if toml:
        (folder / "ciguard.toml").write_text(toml)
    (folder / ".gitignore").write_text("node_modules\nrecords\nplan.json\n")
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    for words in (("init", "-q"), ("add", "-A"), (*identity, "commit", "-qm", "tests")):
        subprocess.run(["git", *words], cwd=folder, check=True)
    loop = Loop(folder, environ)
    loop.plan()
    return loop


def link_node_modules(folder: Path) -> None:
    """The installed packages, as `npm ci` would give them to the project."""
    folder.mkdir(exist_ok=True)
    (folder / "node_modules").symlink_to(NODE_MODULES, target_is_directory=True)


def bad(verdict: Mapping[str, Any]) -> dict[tuple[str, str], str]:
    """By unit and case, how each failure came about: `failed`, `errored`, or a death's ending."""
    return {
        (one["unit"], "" if one["case"] == one["unit"] else one["case"]): (
            one["ending"] if one["outcome"] == "died" else one["outcome"]
        )
        for one in verdict["failures"]
    }


def is_whole(verdict: Mapping[str, Any], loop: Loop) -> None:
    """Every planned unit has a result, and no line of a record is of another unit."""
    assert verdict["missing"] == []
    planned = set(loop.planned())
    assert {line["unit"] for line in loop.record_lines() if line.get("unit")} <= planned
