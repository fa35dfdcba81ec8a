"""The steps of a repository that run tests, by likelihood, and the question which one to move."""

from __future__ import annotations

import re
import shlex
import sys
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final

import click

from ciguard import console
from ciguard.errors import CiguardError, InputError
from ciguard.init.generated_files import text_of
from ciguard.init.move_in import read_workflow
from ciguard.init.repository import repository_files
from ciguard.workflow.check_names import has_matrix
from ciguard.workflow.movable_job import shorten
from ciguard.workflow.positions import SourceText
from ciguard.workflow.rewrite import is_moved
from ciguard.workflow.test_commands import FoundStep, find_test_steps, read_tasks
from ciguard.workflow.yaml_values import load, triggers_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

MAX_CHOICES: Final = 5
MAX_CHECKED: Final = 10  # each costs some 0.3 s
SEPARATE: Final = "ciguard init --new"
_EVENTS: Final = frozenset({"push", "pull_request", "merge_group"})
_TESTS: Final = frozenset({"test", "tests", "unit", "ci", "suite"})
# Parts of names of jobs that are not the suite of each push, or only a small part of it.
_OTHER: Final = (
    "nightly weekly scheduled release publish deploy docs doc lint format style types mypy bench "
    "benchmark benchmarks downstream upstream example examples snippets smoke fuzz wheels minimal "
    "experimental windows win macos integration e2e quality"
)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A step that runs tests.

    Attributes:
        number: of the step in its job, from 1.
        rank: the greater, the likelier is the step the suite that every push runs.
    """

    path: str
    job: str
    number: int
    line: int
    words: str
    rank: tuple[int, ...]

    @property
    def target(self) -> tuple[str, str, str]:
        return self.path, self.job, str(self.number)

    @property
    def command(self) -> str:
        words = ("--into", self.path, "--job", self.job, "--step", str(self.number))
        return shlex.join(("ciguard", "init", *words))


def find_candidates(folder: Path) -> tuple[str, list[Candidate]]:
    """Return the workflow that has ciguard's actions, or ""; and the test steps, likeliest first.

    Raises:
        UsageError: this is not the top folder of a git repository.
    """
    candidates = []
    tasks = read_tasks(lambda name: text_of(folder / name) or "")
    for path in repository_files(folder):
        if not fnmatchcase(path, ".github/workflows/*.y*ml"):
            continue
        try:
            text = read_workflow(folder, path)
            workflow = load(text, path)
        except InputError:
            continue
        if is_moved(workflow):
            return path, []
        # YAML may read the id of a job as a number, which no option can name.
        steps = [at for at in find_test_steps(workflow, tasks) if at.job in workflow["jobs"]]
        source = SourceText(text) if steps else None
        candidates += [_candidate(path, workflow, source, step) for step in steps if source]
    return "", sorted(candidates, key=lambda candidate: candidate.rank, reverse=True)


def _candidate(path: str, workflow: Any, source: SourceText, found: FoundStep) -> Candidate:
    job = workflow["jobs"][found.job]
    step = job["steps"][found.number - 1]
    names = f"{path.rpartition('/')[2]} {found.job} {job.get('name')} {step.get('name')}"
    parts = set(re.split(r"[^a-z0-9]+", names.lower()))
    events, minutes = set(triggers_of(workflow)), job.get("timeout-minutes")
    rank = (
        2 if events & _EVENTS else int("workflow_call" in events),
        -len(parts & {*_OTHER.split()}),
        int(has_matrix(job)),
        len(parts & _TESTS),
        minutes if isinstance(minutes, int) else 0,
    )
    line = source.line_number("jobs", found.job, "steps", found.number)
    return Candidate(path, found.job, found.number, line, shorten(found.commands[0].words), rank)


def choose_candidate(
    candidates: Sequence[Candidate], check: Callable[[Candidate], object]
) -> Candidate | None:
    """Ask on a terminal which step to move; None for a separate workflow.

    If no candidate can be moved, return the likeliest.

    Args:
        check: raises CiguardError for a candidate that cannot be moved.

    Raises:
        InputError: there is no terminal; the fix shows a command for each answer.
    """
    choices: list[Candidate] = []
    refused: list[tuple[Candidate, CiguardError]] = []
    for candidate in candidates[:MAX_CHECKED]:
        try:
            check(candidate)
            choices.append(candidate)
        except CiguardError as error:
            refused.append((candidate, error))
        if len(choices) == MAX_CHOICES:
            break
    if not choices:
        return candidates[0]
    rows = [f"job {item.job}, {item.words}\n   {item.command}" for item in choices]
    rows.append(f"a separate workflow beside it\n   {SEPARATE}")
    lines = [f"{number}. {row}" for number, row in enumerate(rows, 1)]
    for item, reason in refused[:1]:
        lines.append(f"Cannot be moved: job {item.job}, {item.words}: {shorten(reason.what, 100)}")
    if more := len(candidates) - len(choices) - len(refused[:1]):
        lines.append(f"{more} more: ciguard init --into FILE --job JOB --step N")
    what, text = f"{len(candidates)} steps run tests", "\n".join(lines)
    if not sys.stdin.isatty():
        raise InputError(what, fix=f"choose one, the most likely first:\n{text}")
    console.err(f"{what}, the most likely first:\n{text}")
    number = click.IntRange(1, len(rows))
    answer = click.prompt("Which one gets ciguard's shards?", type=number, default=1, err=True)
    return (*choices, None)[answer - 1]
