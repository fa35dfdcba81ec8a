"""`ciguard init --into FILE`: a test job of the user's own workflow gets ciguard's actions.

`--out FILE` takes them out again: git has the file as it was before.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from ciguard import console
from ciguard.config import FILE, configured_by
from ciguard.errors import InputError, UsageError
from ciguard.github.repository_ref import SERVER_URL, parse_remote
from ciguard.init.generated_files import GeneratedFile, generate, running_direct_url
from ciguard.init.project import detect_framework
from ciguard.init.repository import git, repository_files
from ciguard.init.workflow_files import render_new_jobs
from ciguard.run.frameworks.registry import DEFAULT, FRAMEWORKS
from ciguard.sources import local
from ciguard.template_loader import environment
from ciguard.workflow.movable_job import NotMovable, is_moved, read_job
from ciguard.workflow.rewrite import action_path, move_job
from ciguard.workflow.yaml_values import MAX_BYTES, load

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from ciguard.config import Config
    from ciguard.workflow.movable_job import MovableJob
    from ciguard.workflow.rewrite import MovedWorkflow, NewJobs

_OTHER_FRAMEWORK_FIX: Final = (
    'set framework = "command", list and command in [suite.NAME] of ciguard.toml: see '
    "docs/how-to/other-frameworks.md"
)


def actions_address(config: Config) -> str:
    """Where the actions are: as configured, else where the running ciguard was installed from.

    Raises:
        UsageError: neither is known.
    """
    found = config.init.actions or address_of_installation(running_direct_url())
    if not found:
        fix = f'set actions = "OWNER/ciguard@COMMIT" in [init] of {FILE}'
        what = "the repository of ciguard's actions is not known"
        raise UsageError(what, where="init.actions", fix=fix)
    return found


def address_of_installation(direct_url: str | None) -> str:
    """`OWNER/NAME@COMMIT` of an installation from a repository on github.com; "" of any other.

    Args:
        direct_url: text of direct_url.json (PEP 610); None where the installation has none.
    """
    origin = json.loads(direct_url or "{}")
    remote = parse_remote(origin.get("url", ""))
    if "vcs_info" not in origin or origin.get("subdirectory") or not remote:
        return ""
    return f"{remote[1]}@{origin['vcs_info']['commit_id']}" if remote[0] == SERVER_URL else ""


def moved_files(
    folder: Path, config: Config, path: str, job_name: str, step: str
) -> list[GeneratedFile]:
    """The workflow with its test job moved, and a configuration where there is none.

    Args:
        path: of the workflow file, relative to the folder.
        job_name, step: as `choose_step` takes them.

    Raises:
        InputError: the file is no workflow that can be edited, or is not committed.
        NotMovable: the job cannot be moved; what to write by hand was printed.
        UsageError: the configuration does not fit.
    """
    actions = actions_address(config)
    tracked = repository_files(folder)
    text = read_workflow(folder, path)
    if is_moved(load(text, path)):
        console.out(f"{path} uses ciguard's actions already")
        return []
    require_committed(folder, path)
    try:
        job = read_job(text, path, job_name, step)
        reject_framework(job, config, tracked)
        suite = suite_name(config, job.name)
        moved = move_job(job, new_jobs(actions, job, suite), actions)
    except NotMovable:
        console.out(snippet(actions))
        raise
    notify_user(job, moved)
    files = [GeneratedFile(path, text, moved.text)]
    if not configured_by(folder):
        files += [item for item in generate(folder, config, suite=suite) if item.path == FILE]
    return files


def read_workflow(folder: Path, path: str) -> str:
    """The text of a workflow file.

    Raises:
        InputError: it is a link, too large, or not UTF-8.
    """
    target = folder / path
    if target.is_symlink():
        raise InputError("is a symbolic link", where=path, fix="name the file that it points to")
    if target.is_file() and target.stat().st_size > MAX_BYTES:
        what = f"{target.stat().st_size:,} bytes, more than {MAX_BYTES:,}"
        raise InputError(what, where=path, fix="GitHub takes no workflow of that size either")
    try:
        return local.read(target).decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(
            f"not UTF-8: {error.reason}", where=path, fix="save it as UTF-8"
        ) from error


def require_committed(folder: Path, path: str) -> None:
    """Raise InputError unless git has the file as it is: `--out` restores it from there."""
    if git(folder, "status", "--porcelain", "--", path) or not git(folder, "ls-files", "--", path):
        what = "has changes that are not committed"
        raise InputError(what, where=path, fix="commit it first: --out restores it from git")


def reject_framework(job: MovableJob, config: Config, tracked: Sequence[str]) -> None:
    """Raise NotMovable if the step runs tests that ciguard cannot plan."""
    if any(suite.framework != DEFAULT for suite in config.suite.values()):
        return
    for command in job.commands:
        if command.framework not in ("", DEFAULT):
            what = f"ciguard has no adapter for {command.framework}: {command.words:.60}"
            raise NotMovable(what, where=job.where, fix=_OTHER_FRAMEWORK_FIX)
    patterns = {DEFAULT: FRAMEWORKS[DEFAULT].FILE_PATTERNS}
    if "suite" not in config.model_fields_set and not detect_framework(tracked, patterns)[1]:
        what = f"no test file of {DEFAULT} was found"
        raise NotMovable(what, where=job.where, fix=_OTHER_FRAMEWORK_FIX)


def suite_name(config: Config, job: str) -> str:
    """The suite that the job's tests are planned as.

    Raises:
        UsageError: several are configured, and none has the name of the job.
    """
    if "suite" not in config.model_fields_set or job in config.suite:
        return job
    if len(config.suite) > 1:
        what = f"no suite {job!r} among {', '.join(map(repr, sorted(config.suite)))}"
        raise UsageError(what, where="suite", fix=f"add [suite.{job}] for the tests of the job")
    return next(iter(config.suite))


def new_jobs(actions: str, job: MovableJob, suite: str) -> NewJobs:
    return render_new_jobs(
        *(actions, job.name, suite, job.matrix, environment()), is_conditional=job.is_conditional
    )


def snippet(actions: str) -> str:
    """What to write by hand around a job `test`."""
    matrix = "# the lines below `matrix:` of the test job"
    new = render_new_jobs(actions, "test", "test", matrix, environment(), is_conditional=False)
    test = f"""\
test:
  needs: ciguard
  strategy:
    fail-fast: false
    matrix: ${{{{ fromJSON(needs.ciguard.outputs.matrix) }}}}
  # name: ... (${{{{ matrix.ciguard }}}})
  steps:
    # in the place of the test step:
    - uses: {action_path(actions, "run")}
      with:
        plan: ${{{{ needs.ciguard.outputs.plan }}}}
        plan-id: ${{{{ needs.ciguard.outputs.plan-id }}}}
        shard: ${{{{ matrix.ciguard }}}}
        command: |
          # the commands of the test step"""
    return "\n\n".join((new.plan, test, new.report, new.history))


def notify_user(job: MovableJob, moved: MovedWorkflow) -> None:
    """Print what the edits of the file cannot do."""
    console.err(f"{job.name}: step {job.step} runs the tests")
    console.err("require the check ciguard-report: checks by the names of test jobs change")
    for skip in moved.aggregations:
        if skip.reads_single_results:
            console.err(
                f"{skip.job} reads results of single jobs: let it fail unless "
                "needs.ciguard.result and needs.ciguard-report.result are success"
            )
