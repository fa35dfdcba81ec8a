"""The legs' job of a rendered workflow, step by step with real shells; folders are the artifacts.

It knows the few expressions that the templates use, and fails on any other.
"""

from __future__ import annotations

import fnmatch
import os
import re
import shutil
import signal
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from run.leg_runner import clean_environ

if TYPE_CHECKING:
    from collections.abc import Callable

# What the runner starts for `shell: bash`.
BASH = ("bash", "--noprofile", "--norc", "-e", "-o", "pipefail")
RUN_ID = 7


@dataclass
class Job:
    """One attempt of a leg: `folder` holds the checkout, the plan and all artifacts."""

    folder: Path
    workflow: str
    attempt: int = 1
    printed: dict[str, str] = field(default_factory=dict)  # by name of the step
    outcomes: dict[str, str] = field(default_factory=dict)
    outputs: dict[str, str] = field(default_factory=dict)  # steps.ID.outputs.state
    red: bool = False
    lost: bool = False

    @property
    def temp(self) -> Path:
        return self.folder / f"temp-{self.attempt}"

    @property
    def artifacts(self) -> Path:
        return self.folder / "artifacts"

    def execute(self, kill: Callable[[str, subprocess.Popen[str]], bool] | None = None) -> Job:
        """Every step in order; `kill(step, process)` says whether the runner is lost."""
        shutil.copytree(self.folder / "plan", self.temp / "ciguard-plan")
        for step in yaml.safe_load(self.workflow)["jobs"]["legs"]["steps"]:
            if self.lost:
                break
            uses = step.get("uses", "").partition("@")[0]
            if uses == "actions/checkout" or "plan_artifact" in str(step.get("with")):
                continue
            name = step.get("name") or f"{uses} {self.filled(step['with'].get('name', ''))}"
            if not self.wanted(step.get("if", "")):
                self.outcomes[name] = "skipped"
                continue
            done = self.shell(step, name, kill) if "run" in step else self.action(uses, step)
            self.outcomes[name] = "success" if done else "failure"
            self.red = self.red or not (done or step.get("continue-on-error"))
        return self

    def next_attempt(self) -> Job:
        """The next attempt, on another runner."""
        return Job(self.folder, self.workflow, self.attempt + 1)

    def wanted(self, condition: str) -> bool:
        if condition == "always()":
            return True
        if self.red:
            return False
        if found := re.fullmatch(r"steps\.([\w-]+)\.outputs\.state == 'checkpoint'", condition):
            return self.outputs.get(found[1]) == "checkpoint"
        if condition == "github.run_attempt > 1":
            return self.attempt > 1
        assert condition == "", condition
        return True

    def filled(self, text: str) -> str:
        values = {
            "runner.temp": str(self.temp),
            "matrix.shard": "01",
            "matrix.name": "tests (01)",
            "needs.plan.outputs.plan_id": "p",
            "github.run_attempt": str(self.attempt),
            "github.run_id": str(RUN_ID),
            "github.token": "",
        }
        return re.sub(r"\$\{\{ (.*?) \}\}", lambda found: values[found[1]], text)

    def shell(
        self,
        step: dict[str, Any],
        name: str,
        kill: Callable[[str, subprocess.Popen[str]], bool] | None,
    ) -> bool:
        script, output = self.temp / "script.sh", self.temp / "output"
        script.write_text(step["run"])
        output.write_text("")
        environ = {key: self.filled(value) for key, value in step["env"].items()}
        github = {
            "GITHUB_ACTIONS": "true",
            "GITHUB_RUN_ID": str(RUN_ID),
            "GITHUB_RUN_ATTEMPT": str(self.attempt),
            "GITHUB_OUTPUT": str(output),
        }
        process = subprocess.Popen(
            [*BASH, str(script)],
            cwd=self.folder / "checkout",
            env=clean_environ(**environ, **github),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            self.lost = kill is not None and kill(name, process)
            if self.lost:
                os.killpg(process.pid, signal.SIGKILL)
            self.printed[name] = process.communicate(timeout=60)[0]
        finally:
            process.kill()
            process.wait()
        message = re.findall(r"^state=(\w+)$", output.read_text(), re.MULTILINE)
        self.outputs.update(dict.fromkeys([step["id"]] if "id" in step else [], "".join(message)))
        return process.returncode == 0

    def action(self, uses: str, step: dict[str, Any]) -> bool:
        given = {key: self.filled(value) for key, value in step["with"].items()}
        if uses == "actions/upload-artifact":
            if not Path(given["path"]).is_dir():
                return True  # the real one warns
            # The real one refuses a name that is there, too.
            shutil.copytree(given["path"], self.artifacts / given["name"])
        else:
            assert uses == "actions/download-artifact"
            for found in sorted(self.artifacts.iterdir()):
                if fnmatch.fnmatchcase(found.name, given["pattern"]):
                    shutil.copytree(found, f"{given['path']}/{found.name}")
        return True
