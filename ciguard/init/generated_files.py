"""The files that `ciguard init` writes: current content and generated content.

`ciguard doctor` reports the files whose current content is outdated.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ciguard.config.file import FILE, Config, configured_by
from ciguard.config.sections import SuiteConfig, WorkflowConfig
from ciguard.errors import InputError, UsageError
from ciguard.github.repository_ref import is_enterprise_server, parse_remote
from ciguard.init.checksum import has_same_rest, is_unedited, rest_of
from ciguard.init.other_tools import no_suite, other_projects
from ciguard.init.project import (
    Suggestion,
    is_dependency_file,
    join_suggestions,
    matches,
    suggest,
    suggest_languages,
)
from ciguard.init.repository import default_branch, git, repository_files
from ciguard.init.workflow_files import (
    StarterSuite,
    Workflow,
    count_checkpoint_steps,
    local_actions,
    render_configuration,
    render_workflow,
    time_text,
)
from ciguard.run.frameworks.registry import FRAMEWORKS
from ciguard.sources import local
from ciguard.workflow.actions_address import DISTRIBUTION, running_direct_url

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path


WORKFLOW_FILE: Final = ".github/workflows/ciguard.yml"
FORKS_FILE: Final = ".github/workflows/ciguard-forks.yml"
HISTORY_FILE_WARNING: Final = (
    "history.store is a file, {}: a workflow's jobs run on machines that are thrown away, so "
    "what one of them adds to it no other reads"
)
LOST_FIX: Final = (
    'set store = "branch:ciguard-history" in [history], or carry the file between runs yourself'
)
NO_CHECKOUT: Final = (
    "suspects are run in fresh checkouts of both commits, and nothing says what makes one ready"
)
NO_CHECKOUT_FIX: Final = (
    'set experiment.setup, as "python3 -m venv .venv && .venv/bin/pip install -q -e .[test]"; '
    '"true" where nothing is needed'
)


@dataclass(frozen=True, slots=True)
class GeneratedFile:
    """A file with its current and its generated content; `current` is None if there is no file."""

    path: str
    current: str | None
    content: str

    @property
    def verb(self) -> str:
        if self.current is None:
            return "create"
        # A first line of another version of ciguard alone is no change.
        is_same = rest_of(self.current) == rest_of(self.content) and is_unedited(self.current)
        return "keep" if is_same else "change"

    @property
    def is_up_to_date(self) -> bool:
        """Return whether the contents are equal but for the first line and a matrix filled in."""
        return self.current is not None and has_same_rest(self.current, self.content)

    @property
    def is_edited(self) -> bool:
        """Return whether writing the file would lose edits."""
        return self.current is not None and not is_unedited(self.current) and not self.is_up_to_date


def generate(
    folder: Path,
    config: Config,
    notify: Callable[[str], None] = lambda _: None,
    *,
    static: bool = False,
    suite: StarterSuite | None = None,
) -> list[GeneratedFile]:
    """Generate the configuration, if there is none, and the workflow that is made from it.

    Args:
        notify: receives messages about the repository.
        suite: the only suite of a new configuration, for an existing job that runs it.

    Raises:
        UsageError: this is not the top folder of a git repository, or the configuration is invalid.
    """
    tracked = repository_files(folder)
    changed_files = []
    setup = config.workflow.setup
    every_s = config.workflow.checkpoint
    checkpoint = "" if every_s is None else time_text(every_s)
    artifacts = config.workflow.artifacts or artifact_version(folder, notify)
    if not configured_by(folder):
        suggestion = (
            Suggestion("", "", (suite,), {})
            if suite
            else suggest_suites(folder, config, tracked, notify)
        )
        setup = suggestion.setup
        starter = render_configuration(
            config.install,
            setup,
            suggestion.suites,
            checkpoint=checkpoint,
            artifacts=artifacts,
            forks=config.workflow.forks,
            confirm=suggestion.checkout if config.workflow.confirm_suspects else None,
            is_moved=suite is not None,
        )
        changed_files.append(GeneratedFile(FILE, None, starter))
    elif config.workflow.confirm_suspects and not config.experiment.setup:
        raise UsageError(NO_CHECKOUT, where="workflow.confirm_suspects", fix=NO_CHECKOUT_FIX)
    steps = 1 if every_s is None else count_checkpoint_steps(every_s, config.plan.limit)
    workflow = Workflow(
        default_branch=default_branch(folder, notify),
        install=config.install or running_requirement(),
        setup=setup,
        history=config.history.store,
        python=config.workflow.python,
        checkpoint=checkpoint,
        checkpoint_steps=steps,
        artifacts=artifacts,
        confirm_suspects=config.workflow.confirm_suspects,
        branch=config.history.in_branch,
        service=config.history.in_service,
        # A job with checkpoints cannot claim tests, and a static plan has none to move.
        claims=config.plan.claims if not static and steps == 1 else "",
    )
    texts = {WORKFLOW_FILE: render_workflow(workflow, static=static)}
    if config.workflow.forks:
        texts[FORKS_FILE] = render_workflow(workflow, static=static, forks=True)
    texts |= local_actions(workflow)
    if configured_by(folder) and "setup" not in config.workflow.model_fields_set:
        notify(missing_setup(folder, config, tracked))
    _notify_gaps(workflow, notify)
    for path, text in texts.items():
        changed_files.append(GeneratedFile(path, text_of(folder / path), text))
    return changed_files


def _notify_gaps(workflow: Workflow, notify: Callable[[str], None]) -> None:
    """Notify of a requirement that is not known, and of a history that jobs cannot share."""
    if not workflow.install:
        notify(f"set install in {FILE}: where runners get ciguard from; until then they fail")
    if not (workflow.branch or workflow.service):
        notify(f"warning: {HISTORY_FILE_WARNING.format(workflow.history)}\n  fix: {LOST_FIX}")


def suggest_suites(
    folder: Path, config: Config, tracked: Sequence[str], notify: Callable[[str], None]
) -> Suggestion:
    """Suggest suites and set-up for a repository without a configuration.

    Raises:
        InputError: no suite was found, so that a workflow could only fail.
    """
    framework = FRAMEWORKS[SuiteConfig().framework]
    patterns = framework.file_patterns
    tests = [path for path in tracked if any(matches(path, pattern) for pattern in patterns)]
    if tests:
        notify(f"{framework.name}: {len(tests)} test files")
    contents = {path: text_of(folder / path) for path in tracked if is_dependency_file(path)}
    texts = {path: text for path, text in contents.items() if text is not None}
    language_suggestion, project_files = suggest_languages(tracked, texts, FRAMEWORKS, notify)
    if not tests and not language_suggestion.suites:
        notify("no test framework found")
    suggestion = suggest(tests, texts, framework, config.workflow.python, notify)
    if not suggestion.is_useful and not (language_suggestion.suites and not tests):
        raise no_suite(framework, suggestion.unknown, texts, tracked)
    projects = other_projects(tracked, texts).items()
    without_suite = {
        **suggestion.unknown,
        **{path: tool for path, tool in projects if path not in project_files},
    }
    suggestion = join_suggestions(suggestion, language_suggestion)
    for path, tool in without_suite.items():
        notify(f"{path} ({tool}): not in the workflow; see docs/how-to/other-frameworks.md")
    return suggestion


def missing_setup(folder: Path, config: Config, tracked: Sequence[str]) -> str:
    """Return a message with the set-up steps that a configuration lacks."""
    what = f"{configured_by(folder)} has no set-up: jobs run the tests right after the checkout"
    try:
        suggestion = suggest_suites(folder, config, tracked, lambda _: None)
    except InputError:
        suggestion = Suggestion("", "", (), {})
    if not suggestion.setup:
        return f"{what}; add their steps as setup in [workflow]"
    table = "[workflow]" if configured_by(folder) == FILE else "[tool.ciguard.workflow]"
    block = f"{table}\nsetup = '''\n{suggestion.setup}\n'''"
    commands = [
        f"command = {json.dumps(suite.command)} # in the suite {suite.name!r}"
        for suite in suggestion.suites
        if suite.command and not any(known.command for known in config.suite.values())
    ]
    return "\n".join((f'{what}; add (`setup = ""` where nothing is needed):', block, *commands))


def unused_keys(folder: Path, config: Config) -> str:
    """Return a message on keys of [workflow] without effect if no workflow is generated; or ""."""
    fields = WorkflowConfig.model_fields
    keys = [name for name, value in config.workflow if value != fields[name].default]
    if not keys or (folder / WORKFLOW_FILE).exists():
        return ""
    return f"{FILE}: workflow.{', workflow.'.join(keys)}: no effect on a workflow of your own"


def artifact_version(folder: Path, notify: Callable[[str], None]) -> int:
    """Return the generation of GitHub's artifacts on the server that origin names."""
    from_remote = parse_remote((git(folder, "remote", "get-url", "origin") or "").strip())
    if from_remote is None or not is_enterprise_server(from_remote[0]):
        return 4
    notify(
        f"{from_remote[0]} is treated as a GitHub Enterprise Server, with artifacts of generation "
        f"3: set workflow.artifacts = 4 in {FILE} where it has the newer ones"
    )
    return 3


def text_of(path: Path) -> str | None:
    return local.read(path).decode("utf-8", "replace") if path.is_file() else None


def running_requirement() -> str:
    """Return the direct reference of the running ciguard; "" if a runner could not fetch it."""
    return direct_requirement(running_direct_url())


def direct_requirement(direct_url: str | None) -> str:
    """Return the PEP 508 direct reference of an installation from version control, with its commit.

    `ciguard` on the public package index is another program, so a name alone is never enough.

    Args:
        direct_url: text of direct_url.json (PEP 610); None if the installation has none.

    Returns:
        "" if a runner could not fetch the same: an index, a file, a checkout of this machine.
    """
    origin = json.loads(direct_url or "{}")
    url, vcs = origin.get("url", ""), origin.get("vcs_info")
    if vcs is None or not url.startswith(("https://", "http://", "ssh://")):
        return ""
    folder = f"#subdirectory={origin['subdirectory']}" if origin.get("subdirectory") else ""
    return f"{DISTRIBUTION} @ {vcs['vcs']}+{url}@{vcs['commit_id']}{folder}"
