"""The files that `ciguard init` writes: current content and generated content.

`ciguard doctor` reports the files whose current content is outdated.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Final

from ciguard.config.file import FILE, FILES, Config, configured_by
from ciguard.errors import InputError, UsageError
from ciguard.init.other_tools import LANGUAGES, first_of, no_suite, other_projects
from ciguard.init.project import (
    Suggestion,
    files_of,
    is_dependency_file,
    join_suggestions,
    suggest,
    suggest_languages,
)
from ciguard.init.repository import default_branch, repository_files
from ciguard.init.toolchains import TOP
from ciguard.init.workflow_files import (
    StarterSuite,
    Workflow,
    configuration_tables,
    count_checkpoint_steps,
    is_unedited,
    render_workflow,
    rest_of,
    time_text,
    with_tables,
)
from ciguard.run.frameworks.registry import DEFAULT, FRAMEWORKS
from ciguard.sources import local
from ciguard.text import count_of
from ciguard.workflow.actions_address import actions_address
from ciguard.workflow.job_templates import quoted

WORKFLOW_FILE: Final = ".github/workflows/ciguard.yml"
FORKS_FILE: Final = ".github/workflows/ciguard-forks.yml"
# Keys with jobs that only a separate workflow gets from `init`.
SEPARATE_KEYS: Final = (
    *("culprit.on_red", "plan.claims", "report.by", "workflow.checkpoint"),
    *("workflow.confirm_suspects", "workflow.forks", "workflow.pages"),
)
HISTORY_FILE_WARNING: Final = (
    "history.store is the file {}: each job of a workflow runs on a new machine, so no other "
    "job can read what one adds to it"
)
LOST_FIX: Final = (
    'set store = "branch:ciguard-history" in [history], or carry the file between runs yourself'
)
SETUP_MINUTES: Final = 30  # of a job that searches for a culprit, besides the search
HEADER: Final = """\
# Configuration of ciguard; docs/reference/configuration.md lists all keys.
"""
REMADE: Final = """\
# The workflow is made from this file: after a change, run `ciguard init` again.
"""
NO_SETUP: Final = (
    "no set-up is known, so jobs run the tests right after the checkout; add the steps as "
    'setup in [workflow], or set setup = "" if the tests need none'
)
NO_CHECKOUT: Final = (
    "ciguard repeats tests in fresh checkouts of commits, and no command is known to set one up"
)
NO_CHECKOUT_FIX: Final = (
    'set experiment.setup, as "python3 -m venv .venv && .venv/bin/pip install -q -e .[test]", '
    'or set it to "true" if the tests need none'
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
        """Return whether the contents are equal but for the first line."""
        return self.current is not None and rest_of(self.current) == rest_of(self.content)

    @property
    def is_edited(self) -> bool:
        """Return whether writing the file would lose edits; a configuration only gets lines."""
        is_lost = self.current is not None and not is_unedited(self.current)
        return is_lost and not self.is_up_to_date and self.path not in FILES


def generate(
    folder: Path,
    config: Config,
    notify: Callable[[str], None] = lambda _: None,
    suite: StarterSuite | None = None,
) -> list[GeneratedFile]:
    """Generate the configuration, or what it lacks, and the workflow that is made from it.

    Args:
        notify: receives messages about the repository.
        suite: the only suite of a new configuration, for an existing job that runs it.

    Raises:
        UsageError: this is not the top folder of a git repository, the configuration is invalid, or
            the address of ciguard's actions is not known.
    """
    tracked = repository_files(folder)
    actions = actions_address(config.actions)
    configuration, setup = _configuration(folder, config, tracked, notify, suite)
    every_s = config.workflow.checkpoint
    steps = 1 if every_s is None else count_checkpoint_steps(every_s, config.plan.limit)
    workflow = Workflow(
        default_branch=default_branch(folder, notify),
        actions=actions,
        setup=setup,
        history=config.history.store,
        checkpoint="" if every_s is None else time_text(every_s),
        checkpoint_steps=steps,
        confirm_suspects=config.workflow.confirm_suspects,
        culprit_budget=time_text(config.culprit.budget) if config.culprit.on_red else "",
        culprit_minutes=SETUP_MINUTES + math.ceil(config.culprit.budget / 60),
        branch=config.history.in_branch,
        service=config.history.in_service,
        claims=config.plan.claims if steps == 1 else "",  # a job with checkpoints claims no tests
        coverage=config.coverage.format,
        pages=config.workflow.pages,
    )
    if not (workflow.branch or workflow.service):
        notify(f"warning: {HISTORY_FILE_WARNING.format(workflow.history)}\n  fix: {LOST_FIX}")
    texts = {WORKFLOW_FILE: render_workflow(workflow)}
    if config.workflow.forks:
        texts[FORKS_FILE] = render_workflow(workflow, forks=True)
    workflows = [GeneratedFile(path, text_of(folder / path), text) for path, text in texts.items()]
    return [*([configuration] if configuration else []), *workflows]


def _configuration(
    folder: Path,
    config: Config,
    tracked: Sequence[str],
    notify: Callable[[str], None],
    suite: StarterSuite | None,
) -> tuple[GeneratedFile | None, str]:
    """Return the configuration file, if it changes, and the set-up steps."""
    file, workflow = configured_by(folder), config.workflow
    key = "workflow.confirm_suspects" if workflow.confirm_suspects else "culprit.on_red"
    if (workflow.confirm_suspects or config.culprit.on_red) and not config.experiment.setup:
        raise UsageError(NO_CHECKOUT, where=key, fix=NO_CHECKOUT_FIX)
    has_suites = bool(file) and "suite" in config.model_fields_set
    has_setup = bool(file) and "setup" in workflow.model_fields_set
    if has_suites and has_setup:
        return None, workflow.setup
    notify_all = (lambda _: None) if has_suites else notify
    try:
        suggestion = (
            Suggestion("", (suite,), {}) if suite else suggest_suites(folder, tracked, notify_all)
        )
    except InputError:
        if not has_suites:
            raise
        notify(f"{file}: {NO_SETUP}")
        return None, ""
    frameworks = [known.framework for known in suggestion.suites]
    for name, own in config.suite.items() if has_suites and all(frameworks) else ():
        if own.framework == DEFAULT and frameworks:
            what = f"suite {name!r} is one of {DEFAULT}, of which no test file was found"
            fix = f"take it out: ciguard init writes a suite of {frameworks[0]}"
            raise UsageError(what, where=file, fix=fix)
    setup = workflow.setup if has_setup else suggestion.setup
    suites = () if has_suites else suggestion.suites
    if not file:
        tables = configuration_tables(setup, suites)
        start = HEADER if suite else HEADER + REMADE
        start += f"\nactions = {quoted(config.actions)}\n" if config.actions else ""
        return GeneratedFile(FILE, None, with_tables(start, tables, FILE)), setup
    for known, key in product(suggestion.suites if has_suites else (), ("command", "args")):
        value = getattr(known, key)
        if value and not any(getattr(own, key) for own in config.suite.values()):
            notify(f"{file}: its suite may need {key} = {json.dumps(value)}")
    completed = with_suites(folder, suites, "" if has_setup else setup)
    return (completed if completed.content != completed.current else None), setup


def with_suites(folder: Path, suites: Sequence[StarterSuite], setup: str = "") -> GeneratedFile:
    """Return the existing configuration with further suites, and set-up steps."""
    file = configured_by(folder)
    prefix, text = "" if file == FILE else "tool.ciguard.", text_of(folder / file) or ""
    tables = configuration_tables(setup, suites)
    edited = with_tables(text, {f"{prefix}{name}": it for name, it in tables.items()}, file)
    return GeneratedFile(file, text, edited)


def suggest_suites(
    folder: Path, tracked: Sequence[str], notify: Callable[[str], None]
) -> Suggestion:
    """Suggest suites and set-up for a repository whose configuration has none.

    Raises:
        InputError: no suite was found, so that a workflow could only fail.
    """
    framework = FRAMEWORKS[DEFAULT]
    tests = files_of(framework, tracked)
    if tests:
        notify(f"{framework.name}: {count_of(len(tests), 'test file')}")
    contents = {path: text_of(folder / path) for path in tracked if is_dependency_file(path)}
    texts = {path: text for path, text in contents.items() if text is not None}
    language_suggestion, project_files = suggest_languages(tracked, texts, FRAMEWORKS, notify)
    if not tests and not language_suggestion.suites:
        notify("no test framework found")
    suggestion = suggest(tests, texts, framework, notify)
    # Without the tests of the top folder, a workflow would be no proof of the suite.
    is_useful = bool(suggestion.suites) and TOP not in suggestion.unknown
    if not is_useful and not (language_suggestion.suites and not tests):
        raise no_suite(framework, suggestion.unknown, texts, tracked)
    # The packages of a workspace without a framework of their own are tested from its top folder.
    names = {*project_files, *(f".{path.rpartition('.')[2]}" for path in project_files)}
    inner = {tool for name, tool in LANGUAGES.items() if name in names}
    projects = [item for item in other_projects(tracked, texts).items() if item[1] not in inner]
    without_suite = {
        **suggestion.unknown,
        **{path: tool for path, tool in projects if path not in project_files},
    }
    suggestion = join_suggestions(suggestion, language_suggestion)
    if without_suite:
        named = [f"{path} ({tool})" for path, tool in without_suite.items()]
        notify(f"not in the workflow: {first_of(named)}; see docs/how-to/other-frameworks.md")
    return suggestion


def separate_keys(config: Config) -> list[str]:
    """Return the keys of `SEPARATE_KEYS` that differ from their defaults."""
    names = [(key, *key.split(".")) for key in SEPARATE_KEYS]
    sections = [(key, getattr(config, section), name) for key, section, name in names]
    return [
        key
        for key, section, name in sections
        if getattr(section, name) != type(section).model_fields[name].default
    ]


def text_of(path: Path) -> str | None:
    return local.read(path).decode("utf-8", "replace") if path.is_file() else None
