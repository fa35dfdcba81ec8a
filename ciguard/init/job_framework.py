"""Which framework the test job of a workflow runs, for the suite that its tests become. Pure."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from ciguard.init.language_suites import suggest_languages
from ciguard.init.project import detect_framework
from ciguard.run.frameworks.registry import DEFAULT, FRAMEWORKS
from ciguard.workflow.movable_job import NotMovable, shortened
from ciguard.workflow.test_commands import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ciguard.config.file import Config
    from ciguard.run.frameworks.base import Framework
    from ciguard.workflow.movable_job import MovableJob

COMMAND_FIX: Final = (
    'set framework = "command", list and command in [suite.NAME] of ciguard.toml: see '
    "docs/how-to/other-frameworks.md"
)
STARTED_FIX: Final = (
    "write the lines below by hand: framework and command in [suite.NAME] of ciguard.toml, and no "
    "`command` for the action run"
)
# What a workflow calls -> adapters whose plugin enters a script by a variable of the environment.
ENTERED: Final[Mapping[str, tuple[str, ...]]] = {
    **dict.fromkeys(("npm", "yarn", "pnpm"), ("vitest", "jest", "mocha", "playwright")),
    **{name: (name,) for name in ("jest", "vitest", "mocha", "playwright", "rspec", "maven")},
    "rake": ("rspec", "minitest"),
    "rails": ("minitest",),
}
# What a workflow calls -> adapters that start the framework themselves, so that no script can.
STARTED: Final[Mapping[str, str]] = {
    "go test": "go",
    "ctest": "ctest",
    "cargo nextest": "nextest",
    "phpunit": "phpunit",
}


def job_framework(
    job: MovableJob,
    config: Config,
    tracked: Sequence[str],
    texts: Mapping[str, str],
    *,
    is_new: bool,
) -> str:
    """The framework of the suite that a new configuration gets; "" for the default one.

    Args:
        tracked: files of the repository.
        texts: of project files, by path.
        is_new: there is no configuration yet.

    Raises:
        NotMovable: ciguard cannot plan the tests, or must be told the framework.
    """
    if any(suite.framework != DEFAULT for suite in config.suite.values()):
        return ""
    for command in job.commands:
        if command.framework in STARTED and STARTED[command.framework] in FRAMEWORKS:
            what = f"ciguard starts {command.framework} itself: {shortened(command.words)}"
            raise NotMovable(what, where=job.where, fix=STARTED_FIX)
        if command.framework in (UNKNOWN, DEFAULT):
            continue
        called = ENTERED.get(command.framework, ())
        adapters = {name: FRAMEWORKS[name] for name in called if name in FRAMEWORKS}
        if not adapters:
            what = f"ciguard has no adapter for {command.framework}: {shortened(command.words)}"
            raise NotMovable(what, where=job.where, fix=COMMAND_FIX)
        names = _there(adapters, tracked, texts)
        if len(names) == 1 and is_new:
            return names[0]
        lines = " or ".join(f"framework = {json.dumps(name)}" for name in names)
        what = f"the framework of its tests is not configured: {shortened(command.words)}"
        fix = f"add to ciguard.toml: [suite.{json.dumps(job.name)}], with {lines}"
        raise NotMovable(what, where=job.where, fix=fix)
    patterns = {DEFAULT: FRAMEWORKS[DEFAULT].file_patterns}
    if "suite" not in config.model_fields_set and not detect_framework(tracked, patterns)[1]:
        what = f"no test file of {DEFAULT} was found"
        raise NotMovable(what, where=job.where, fix=COMMAND_FIX)
    return ""


def _there(
    adapters: Mapping[str, Framework], tracked: Sequence[str], texts: Mapping[str, str]
) -> list[str]:
    """The frameworks that the repository has projects of; all where it has none."""
    suites = suggest_languages(tracked, texts, adapters, lambda _: None)[0].suites
    return list(dict.fromkeys(suite.framework for suite in suites)) or list(adapters)
