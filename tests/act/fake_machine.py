"""A small GitHub on one machine: act runs the jobs, folders are the artifacts, a bare repository is
the remote, the fake server gets the comments. The actions run the ciguard of this checkout.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from act.events import pull_request_event
from history.stored_values import values_in

from ciguard.codec import plan_file
from ciguard.plan.outputs import as_output, matrix
from ciguard.workflow.job_templates import ACTIONS
from ciguard.workflow.yaml_values import load

ROOT = Path(__file__).parent.parent.parent
BIN = Path(sys.executable).parent
REPOSITORY = "octo-org/shop"
PULL_REQUEST = 7
TOKEN = "fake-token"
OURS = "octo-org/ciguard"
COMMIT = "0123456789abcdef0123456789abcdef01234567"
NO_NETWORK: Mapping[str, str] = {}
HOME = {"full_name": REPOSITORY, "default_branch": "main"}
PUSH = {"ref": "refs/heads/main", "repository": HOME}  # as far as the workflows look at the event


@dataclass(frozen=True, slots=True)
class Job:
    """A job that ended: GitHub's word for how, what it printed, and what failed in it."""

    result: str
    printed: str
    failed_steps: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Run:
    """A workflow run that ended: its jobs by displayed name, and whether all of it was green."""

    green: bool
    jobs: dict[str, Job]
    stderr: str

    @property
    def talk(self) -> str:
        """What somebody needs who wonders why it is not green."""
        output = [
            f"== {name}: {job.result} {job.failed_steps}\n{job.printed[-3000:]}"
            for name, job in self.jobs.items()
        ]
        return "\n".join([*output, self.stderr])

    def job(self, name: str) -> Job:
        found = [job for shown, job in self.jobs.items() if shown.startswith(name)]
        found = [self.jobs[name]] if name in self.jobs else found
        assert len(found) == 1, f"{name}: {sorted(self.jobs)}\n{self.talk}"
        return found[0]

    def legs(self, pattern: str = r"tests \(") -> list[Job]:
        """The jobs of shards, by how their names begin."""
        return [job for shown, job in self.jobs.items() if re.match(pattern, shown)]


@dataclass(slots=True)
class _Job:
    result: str = "not ended"
    printed: list[str] = field(default_factory=list)
    failed_steps: list[str] = field(default_factory=list)


def read_run(code: int, lines: str, stderr: str) -> Run:
    """Read act's JSON lines; `tests/NAME-2` is leg 2 of a workflow `tests`, padded with blanks."""
    jobs: dict[str, _Job] = defaultdict(_Job)
    for line in lines.splitlines():
        try:
            output = json.loads(line)
        except ValueError:
            continue
        if "job" not in output:
            continue
        job = jobs[output["job"].strip().partition("/")[2]]
        if output.get("raw_output"):
            job.printed.append(output["msg"])
        if output.get("stepResult") == "failure" and output.get("stage") == "Main":
            job.failed_steps.append(output["step"])
        job.result = output.get("jobResult", job.result)
    ended = {
        # A step that uses an action of ours fails once more, after the step in the action.
        name: Job(job.result, "".join(job.printed), tuple(dict.fromkeys(job.failed_steps)))
        for name, job in jobs.items()
    }
    return Run(code == 0, ended, stderr)


@dataclass(frozen=True, slots=True)
class GitHub:
    """Where everything lies: the checkout, its remote, artifacts, the fake server's comments.

    `network` has the variables of a runner whose steps use the package index; its PATH takes the
    place of the tests' own environment, whose Python runs all steps otherwise.
    """

    folder: Path
    port: str
    network: Mapping[str, str]

    @property
    def checkout(self) -> Path:
        return self.folder / "checkout"

    @property
    def actions(self) -> Path:
        """Where ciguard's own actions are; act copies the folder for each step."""
        return self.folder / "actions"

    @property
    def artifacts(self) -> Path:
        return self.folder / "artifacts"

    def comments(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads((self.folder / "comments.json").read_text("utf-8"))
        return found

    def git(self, *arguments: str) -> str:
        answer = subprocess.run(
            ["git", *arguments],
            cwd=self.checkout,
            env=self.environ(),
            capture_output=True,
            text=True,
            check=False,
        )
        assert answer.returncode == 0, f"git {' '.join(arguments)}: {answer.stderr}"
        return answer.stdout.strip()

    def commit(self, message: str, files: dict[str, str]) -> str:
        for name, text in files.items():
            path = self.checkout / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", message)
        return self.git("rev-parse", "HEAD")

    def propose(self, message: str, files: dict[str, str]) -> dict[str, Any]:
        """Make a pull request of one commit, check out its merge into the base, give its event."""
        base = self.git("rev-parse", "main")
        self.git("switch", "--quiet", "--force-create", "crash", "main")
        head = self.commit(message, files)
        self.git("switch", "--quiet", "--detach", "main")
        self.git("merge", "--quiet", "--no-ff", "--message", "merge", "crash")
        return pull_request_event(head, base)

    def ciguard(self, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(BIN / "ciguard"), *arguments],
            cwd=self.checkout,
            env={**self.environ(), "CIGUARD_ACTIONS": f"{OURS}@{COMMIT}", **environ},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )

    def history_values(self) -> list[dict[str, Any]]:
        path = self.folder / "pulled.ciguard"
        path.unlink(missing_ok=True)
        pulled = self.ciguard("history", "pull", str(path))
        assert pulled.returncode == 0, pulled.stderr
        return values_in(path)

    def environ(self) -> dict[str, str]:
        """A clean environment: nothing of the machine's own git, pip or CI settings."""
        return {
            "HOME": str(self.folder),
            "PATH": os.pathsep.join(
                [self.network.get("PATH", str(BIN)), "/usr/local/bin", "/usr/bin", "/bin"]
            ),
            "LANG": "C.UTF-8",
            "XDG_CACHE_HOME": str(self.folder / "cache"),
            **{f"GIT_{who}_NAME": "Shop" for who in ("AUTHOR", "COMMITTER")},
            **{f"GIT_{who}_EMAIL": "shop@example.org" for who in ("AUTHOR", "COMMITTER")},
        }

    def run(self, event: str, payload: dict[str, Any], *, run_id: int, attempt: int = 1) -> Run:
        """Run the workflow that `ciguard init` wrote, on the checkout as it stands."""
        file = ".github/workflows/ciguard.yml"
        return self.execute(file, event, payload, run_id=run_id, attempt=attempt)

    def set_jobs(self, run_id: int, attempts: Mapping[str, int]) -> None:
        """What the fake server knows of a run: its legs, and in which attempt each ran last."""
        jobs = [
            {"run_id": run_id, "name": name, "attempt": one}
            for name, attempt in attempts.items()
            for one in range(1, attempt + 1)
        ]
        (self.folder / "jobs.json").write_text(json.dumps(jobs), "utf-8")

    def workflow_of_rerun(
        self, workflow: str, *, run_id: int, shards: Collection[str], kept: Sequence[str]
    ) -> str:
        """What GitHub runs at "Re-run failed jobs", as a workflow: its path.

        Args:
            shards: whose jobs failed: of the matrix, only these run again.
            kept: other jobs, which succeeded; the first is the one that plans. Their steps do not
                run again, their outputs are those of attempt 1.
        """
        (folder,) = (self.artifacts / str(run_id)).glob("ciguard-plan-*-1")
        plan = plan_file.decode((folder / "plan.json").read_bytes(), str(folder))
        entries = matrix(plan)["include"]
        failed = [one for one in entries if {one.get("ciguard"), one.get("shard")} & {*shards}]
        values = {"matrix": as_output({"include": failed}), "plan": folder.name}
        values |= {"plan-id": plan.id}
        content = load((self.checkout / workflow).read_text("utf-8"), workflow)
        for name in kept:
            content["jobs"][name] |= {"steps": [{"run": "echo as before"}], "needs": []}
        outputs = content["jobs"][kept[0]]["outputs"]
        outputs |= {name: values[name] for name in outputs}
        file = self.folder / "rerun.yml"
        file.write_text(yaml.safe_dump(content), "utf-8")
        return str(file)

    def execute(
        self, workflow: str, event: str, payload: dict[str, Any], *, run_id: int, attempt: int = 1
    ) -> Run:
        """Run a workflow on the checkout as it stands."""
        event_file = self.folder / "event.json"
        event_file.write_text(json.dumps(payload), "utf-8")
        inside = {
            "ACT_ARTIFACTS": str(self.artifacts),
            "ACT_PYTHON": sys.executable,
            "CIGUARD_PYTHON": sys.executable,  # of our actions: no index in a test
            "GITHUB_API_URL": f"http://127.0.0.1:{self.port}",
            "GITHUB_RUN_ATTEMPT": str(attempt),
            "GITHUB_RUN_ID": str(run_id),
            **{key: text for key, text in self.network.items() if key != "PATH"},
        }
        command = [str(BIN / "act"), event, "--eventpath", str(event_file), "--json"]
        command += ["--workflows", workflow, "--defaultbranch", "main"]
        for label in ("ubuntu-latest", "ubuntu-24.04"):
            command += ["--platform", f"{label}=-self-hosted"]
        command += ["--remote-name", "github", "--no-cache-server", "--action-offline-mode"]
        text = (self.checkout / workflow).read_text("utf-8")
        command += ["--secret", f"GITHUB_TOKEN={TOKEN}", *stand_ins(text)]
        command += ["--local-repository", f"{OURS}@{COMMIT}={self.actions}"]
        command += [part for name, value in inside.items() for part in ("--env", f"{name}={value}")]
        answer = subprocess.run(
            command,
            cwd=self.checkout,
            env={**self.environ(), **inside},
            capture_output=True,
            text=True,
            check=False,
            timeout=600 if self.network else 240,
        )
        return read_run(answer.returncode, answer.stdout, answer.stderr)


def stand_ins(workflow: str) -> list[str]:
    """act's options that put a folder of ours in the place of each action, checkout aside.

    Args:
        workflow: its text; what our own actions use is replaced in any case.
    """
    options: list[str] = []
    ours = Path(__file__).parent / "actions"
    actions = {pinned.split(" #")[0] for pinned in ACTIONS.values()}
    actions |= set(re.findall(r"\buses: ([\w./-]+@[\w.-]+)", workflow))
    folders = {action: action.split("@")[0].split("/")[1] for action in sorted(actions)}
    folders["actions/upload-artifact@v3"] = "upload-artifact"  # of an Enterprise Server
    folders["actions/download-artifact@v3"] = "download-artifact-v3"
    for action, name in folders.items():
        if (ours / name).is_dir():
            options += ["--local-repository", f"{action}={ours / name}"]
    return options
