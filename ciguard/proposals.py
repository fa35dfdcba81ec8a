"""The files that a repository needs to run ciguard, as they are and as they would be.

`ciguard init` writes them, `ciguard doctor` says which of them are not what they should be.
"""

from __future__ import annotations

import shlex
import subprocess
import tomllib
from dataclasses import dataclass
from importlib import metadata
from typing import TYPE_CHECKING, Final

from ciguard import files
from ciguard.config import FILE
from ciguard.errors import UsageError
from ciguard.github.place import is_enterprise_server, of_remote
from ciguard.init.project import (
    PROJECT_FILE,
    TELLING_FILES,
    recognised_framework,
    suggested_checkout,
    suggested_setup,
)
from ciguard.init.requirement import DISTRIBUTION, direct_requirement
from ciguard.init.workflow import (
    Workflow,
    local_actions,
    parts_of,
    render_configuration,
    render_workflow,
    time_text,
)
from ciguard.rendering import environment
from ciguard.run.frameworks.table import FRAMEWORKS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ciguard.config import Config

WORKFLOW_FILE: Final = ".github/workflows/ciguard.yml"
FORKS_FILE: Final = ".github/workflows/ciguard-forks.yml"
LOST: Final = (
    "history.carrier is a file, {}: a workflow's jobs run on machines that are thrown away, so "
    "what one of them adds to it no other reads"
)
LOST_FIX: Final = (
    'set carrier = "branch:ciguard-history" in [history], or carry the file between runs yourself'
)
NO_CHECKOUT: Final = (
    "suspects are run in fresh checkouts of both commits, and nothing says what makes one ready"
)
NO_CHECKOUT_FIX: Final = (
    'set experiment.setup, as "python3 -m venv .venv && .venv/bin/pip install -q -e .[test]"; '
    '"true" where nothing is needed'
)


USUAL_BRANCHES: Final = ("main", "master")
GUESSED: Final = (
    "git does not know origin's default branch: {} is taken for it; "
    "git remote set-head origin --auto tells git"
)


@dataclass(frozen=True, slots=True)
class Proposal:
    """A file as it is and as it would be; `current` is None where it does not exist."""

    path: str
    current: str | None
    proposed: str

    @property
    def verb(self) -> str:
        if self.current is None:
            return "create"
        return "keep" if self.current == self.proposed else "change"


def propose(
    folder: Path,
    config: Config,
    tell: Callable[[str], None] = lambda _: None,
    *,
    static: bool = False,
) -> list[Proposal]:
    """What would be written, the configuration first: the workflow is made from it.

    Args:
        tell: is told what was found out on the way.

    Raises:
        UsageError: this is not the top folder of a git repository, or what is configured cannot be.
    """
    tracked = repository_files(folder)
    proposals = []
    setup = config.workflow.setup
    every_s = config.workflow.checkpoint
    checkpoint = "" if every_s is None else time_text(every_s)
    artifacts = config.workflow.artifacts or generation(folder, tell)
    if not is_configured(folder):
        patterns = {name: framework.FILE_PATTERNS for name, framework in FRAMEWORKS.items()}
        framework, count = recognised_framework(tracked, patterns)
        tell(f"{framework}: {count} test files" if count else "no test framework found")
        texts = {name: text for name in TELLING_FILES if (text := text_of(folder / name))}
        setup = suggested_setup(texts, framework, config.workflow.python)
        starter = render_configuration(
            config.install,
            setup,
            framework,
            environment(),
            checkpoint=checkpoint,
            artifacts=artifacts,
            forks=config.workflow.forks,
            confirm=suggested_checkout(texts, framework) if config.workflow.confirm else None,
        )
        proposals.append(Proposal(FILE, None, starter))
    elif config.workflow.confirm and not config.experiment.setup:
        raise UsageError(NO_CHECKOUT, where="workflow.confirm", fix=NO_CHECKOUT_FIX)
    workflow = Workflow(
        default_branch=default_branch(folder, tell),
        install=config.install or running_requirement(),
        setup=setup,
        history=config.history.carrier,
        python=config.workflow.python,
        checkpoint=checkpoint,
        parts=1 if every_s is None else parts_of(every_s, config.plan.limit),
        artifacts=artifacts,
        confirm=config.workflow.confirm,
        branch=config.history.in_branch,
    )
    text = render_workflow(workflow, environment(), static=static)
    if not workflow.install:
        tell(f"set install in {FILE}: where runners get ciguard from; until then they fail")
    if not workflow.branch:
        tell(f"warning: {LOST.format(workflow.history)}\n  fix: {LOST_FIX}")
    proposals.append(Proposal(WORKFLOW_FILE, text_of(folder / WORKFLOW_FILE), text))
    if config.workflow.forks:
        text = render_workflow(workflow, environment(), static=static, forks=True)
        proposals.append(Proposal(FORKS_FILE, text_of(folder / FORKS_FILE), text))
    for path, action in local_actions(workflow, environment()).items():
        proposals.append(Proposal(path, text_of(folder / path), action))
    return proposals


def generation(folder: Path, tell: Callable[[str], None]) -> int:
    """Of GitHub's artifacts, where nobody said: by the server that origin names."""
    told = of_remote((git(folder, "remote", "get-url", "origin") or "").strip())
    if told is None or not is_enterprise_server(told[0]):
        return 4
    tell(
        f"{told[0]} is taken for a GitHub Enterprise Server, with artifacts of generation 3: "
        f"set workflow.artifacts = 4 in {FILE} where it has the newer ones"
    )
    return 3


def is_configured(folder: Path) -> bool:
    """Whether either kind of configuration is there; what is there has parsed before."""
    tool = tomllib.loads(text_of(folder / PROJECT_FILE) or "").get("tool", {})
    return (folder / FILE).is_file() or "ciguard" in tool


def text_of(path: Path) -> str | None:
    return files.read(path).decode("utf-8", "replace") if path.is_file() else None


def running_requirement() -> str:
    """The direct reference of the running ciguard; "" where a runner could not follow it."""
    try:
        installed = metadata.distribution(DISTRIBUTION)
    except metadata.PackageNotFoundError:
        return ""
    return direct_requirement(installed.read_text("direct_url.json"))


def repository_files(folder: Path) -> list[str]:
    """Paths that git knows or would add, "/"-separated.

    Raises:
        UsageError: not the top folder of a git repository, so the workflow would not be found.
    """
    top = git(folder, "rev-parse", "--show-toplevel")
    where = str(folder.resolve())
    if top is None:
        fix = "run it in a clone of the repository, or begin one: git init"
        raise UsageError("not the top folder of a git repository", where=where, fix=fix)
    if (git(folder, "rev-parse", "--show-prefix") or "").strip():
        fix = f"run ciguard in its top folder: cd {shlex.quote(top.rstrip())}"
        raise UsageError("not the top folder of a git repository", where=where, fix=fix)
    listed = git(folder, "ls-files", "-z", "--cached", "--others", "--exclude-standard") or ""
    return [name for name in listed.split("\0") if name]


def default_branch(folder: Path, tell: Callable[[str], None] = lambda _: None) -> str:
    """The remote's default branch where git knows it; else a guess, which is told if it may be off.

    Who adds ciguard is mostly on a branch made for it: the one that is checked out comes last.
    """
    remote = git(folder, "symbolic-ref", "--short", "refs/remotes/origin/HEAD")
    if remote:
        return remote.strip().removeprefix("origin/")
    current = (git(folder, "branch", "--show-current") or "").strip()
    for place in ("refs/remotes/origin/", "refs/heads/"):
        for name in USUAL_BRANCHES:
            if git(folder, "rev-parse", "-q", "--verify", f"{place}{name}") is not None:
                if name != current:
                    tell(GUESSED.format(name))
                return name
    return current or USUAL_BRANCHES[0]


def git(folder: Path, *arguments: str) -> str | None:
    """What git prints; None where it fails or is not there."""
    try:
        answer = subprocess.run(
            ["git", "-C", str(folder), *arguments], capture_output=True, check=False
        )
    except FileNotFoundError:
        return None
    return answer.stdout.decode("utf-8", "replace") if answer.returncode == 0 else None
