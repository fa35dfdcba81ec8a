"""The job `tests` of a rendered workflow, its actions step by step with real shells.

Folders are the artifacts. It knows the few expressions that workflow and action use, and fails on
any other.
"""

from __future__ import annotations

import fnmatch
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from run.leg_runner import clean_environ

if TYPE_CHECKING:
    Kill = Callable[[str, subprocess.Popen[str]], bool]

# What the runner starts for `shell: bash`.
BASH = ("bash", "--noprofile", "--norc", "-e", "-o", "pipefail")
ACTIONS = Path(__file__).parents[2] / "actions"
RUN_ID = 7


def read_action(name: str) -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load((ACTIONS / name / "action.yml").read_text("utf-8"))
    return content


def evaluate(expression: str, values: Mapping[str, object]) -> object:
    """Evaluate an expression of names, texts, comparisons, `startsWith`, `&&` and `||`."""
    text = expression.replace("&&", " and ").replace("||", " or ").replace("always()", "True")
    text = re.sub(r"\b[a-z_]+\.[\w.-]+", lambda name: repr(values[name[0]]), text)
    return eval(text, {"startsWith": str.startswith})


@dataclass
class Job:
    """One attempt of a shard: `folder` holds the checkout, the plan and all artifacts."""

    folder: Path
    workflow: str
    attempt: int = 1
    printed: dict[str, str] = field(default_factory=dict)  # by name of the step
    outcomes: dict[str, str] = field(default_factory=dict)
    outputs: dict[str, object] = field(default_factory=dict)  # steps.ID.outputs.state
    red: bool = False
    lost: bool = False

    @property
    def temp(self) -> Path:
        return self.folder / f"temp-{self.attempt}"

    @property
    def artifacts(self) -> Path:
        return self.folder / "artifacts"

    def execute(self, kill: Kill | None = None) -> Job:
        """Every step in order; `kill(step, process)` says whether the runner is lost."""
        shutil.copytree(self.folder / "plan", self.temp / "ciguard-plan")
        values: dict[str, object] = {
            "matrix.shard": "01",
            "needs.plan.outputs.plan": "ciguard-plan-p-1",
            "github.run_attempt": self.attempt,
            "github.run_id": RUN_ID,
            "github.token": "",
        }
        action = read_action("run")
        for step in yaml.safe_load(self.workflow)["jobs"]["tests"]["steps"]:
            if self.lost:
                break
            if "/actions/run@" not in step["uses"]:
                continue
            name = step["name"]
            if self.red or not evaluate(step.get("if", "True"), {**values, **self.outputs}):
                self.outcomes[name] = "skipped"
                self.outputs[f"steps.{step.get('id')}.outputs.state"] = ""
                continue
            inputs: dict[str, object] = {f"inputs.{key}": "" for key in action["inputs"]}
            for key, text in step["with"].items():
                inputs[f"inputs.{key}"] = self.filled(
                    str(text).lower() if text is True else text, values
                )
            done = self.compose(action["runs"]["steps"], name, {**values, **inputs}, kill)
            self.outputs[f"steps.{step.get('id')}.outputs.state"] = done
        return self

    def compose(
        self, steps: list[dict[str, Any]], name: str, values: dict[str, object], kill: Kill | None
    ) -> object:
        """Run the steps of the action; return its output `state`."""
        values["steps.run.outputs.state"] = ""
        failed = False
        for step in steps:
            condition = step.get("if", "True")
            if self.lost or (failed and "always()" not in condition):
                continue
            if not evaluate(condition, values):
                continue
            if "run" in step:
                is_killable = kill if step["id"] == "run" else None
                failed = not self.shell(step, name, values, is_killable) or failed
            else:
                self.transfer(step, values)
        self.outcomes[name] = "failure" if failed else "success"
        self.red = self.red or failed
        return values["steps.run.outputs.state"]

    def next_attempt(self) -> Job:
        return Job(self.folder, self.workflow, self.attempt + 1)

    def filled(self, text: object, values: Mapping[str, object]) -> str:
        return re.sub(
            r"\$\{\{ (.*?) \}\}", lambda found: str(evaluate(found[1], values)), str(text)
        )

    def shell(
        self, step: dict[str, Any], name: str, values: dict[str, object], kill: Kill | None
    ) -> bool:
        script, output = self.temp / "script.sh", self.temp / "output"
        script.write_text(step["run"])
        output.write_text("")
        environ = {key: self.filled(text, values) for key, text in step["env"].items()}
        github = {
            "GITHUB_ACTIONS": "true",
            "GITHUB_RUN_ID": str(RUN_ID),
            "GITHUB_RUN_ATTEMPT": str(self.attempt),
            "GITHUB_OUTPUT": str(output),
            "RUNNER_TEMP": str(self.temp),
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
        for line in output.read_text().splitlines():
            key, _, text = line.partition("=")
            values[f"steps.{step['id']}.outputs.{key}"] = text
        return process.returncode == 0

    def transfer(self, step: dict[str, Any], values: dict[str, object]) -> None:
        given = {key: self.filled(text, values) for key, text in step["with"].items()}
        if step["uses"].startswith("actions/upload-artifact@"):
            if Path(given["path"]).is_dir():  # else the real one warns
                # The real one refuses a name that is there, too.
                shutil.copytree(given["path"], self.artifacts / given["name"])
            return
        assert step["uses"].startswith("actions/download-artifact@")
        for found in sorted(self.artifacts.iterdir()) if "pattern" in given else ():
            if fnmatch.fnmatchcase(found.name, given["pattern"]):
                shutil.copytree(found, f"{given['path']}/{found.name}")
