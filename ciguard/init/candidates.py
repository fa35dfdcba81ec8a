"""The steps of a repository that run tests, by likelihood, and the question which one to move."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click

from ciguard import console
from ciguard.config.file import Config
from ciguard.errors import CiguardError, InputError
from ciguard.init.generated_files import WORKFLOW_FILE, text_of
from ciguard.init.move_in import read_workflows
from ciguard.init.repository import repository_files
from ciguard.workflow.actions_address import known_address
from ciguard.workflow.check_names import CHECK, has_matrix, unexpanded_name
from ciguard.workflow.movable_job import comment_jobs, find_movable_steps, shorten
from ciguard.workflow.rewrite import is_moved
from ciguard.workflow.test_commands import FoundStep, only_file, read_tasks
from ciguard.workflow.yaml_values import jobs_of, steps_of, triggers_of

MAX_CHOICES: Final = 5
MAX_OTHERS: Final = 6  # as many as fit a screen of 24 lines
MAX_WIDTH: Final = 76  # of a choice, after its number
MAX_CHECKED: Final = 10  # each costs some 0.3 s
SEPARATE: Final = "ciguard init --new"
_ACTION: Final = re.compile(r"([\w-]+/ciguard)(?:/actions/[\w-]+)?(@[0-9a-f]{40})")
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
        title: job, name of the step, and first words of the command, in a line of a terminal.
        rank: the greater, the likelier is the step the suite that every push runs.
    """

    path: str
    job: str
    number: int
    title: str
    rank: tuple[int, ...]

    @property
    def target(self) -> tuple[str, str, str]:
        return self.path, self.job, str(self.number)

    @property
    def command(self) -> str:
        words = ("--into", self.path, "--job", self.job, "--step", str(self.number))
        return shlex.join(("ciguard", "init", *words))


def find_candidates(folder: Path) -> tuple[str, list[Candidate]]:
    """Return a workflow that has ciguard's actions, or ""; and the test steps of the others.

    Raises:
        UsageError: this is not the top folder of a git repository.
    """
    moved, candidates = "", []
    tasks = read_tasks(lambda name: text_of(folder / name) or "")
    tracked = repository_files(folder)
    for path, workflow in read_workflows(folder):
        if is_moved(workflow):
            moved = moved or path
            continue
        # YAML may read the id of a job as a number, which no option can name.
        steps = [at for at in find_movable_steps(workflow, tasks) if at.job in workflow["jobs"]]
        candidates += [_candidate(path, workflow, step, tracked) for step in steps]
    return moved, sorted(candidates, key=lambda candidate: candidate.rank, reverse=True)


def find_same_checks(folder: Path) -> Iterator[str]:
    """Yield `FILE: job ID` of the jobs whose check is that of a separate workflow."""
    for path, workflow in read_workflows(folder):
        for name, job in jobs_of(workflow).items() if path != WORKFLOW_FILE else ():
            if unexpanded_name(name, job) == CHECK or name in comment_jobs(workflow):
                yield f"{path}: job {name}"


def with_used_actions(
    folder: Path, config: Config, notify: Callable[[str], None] = lambda _: None
) -> Config:
    """Return the configuration with the address that a workflow uses, if no other is known.

    Only steps count, and only an address with a commit.
    """
    for path, workflow in () if known_address(config.actions) else read_workflows(folder):
        steps = (step for job in jobs_of(workflow).values() for _, step in steps_of(job))
        found = (_ACTION.fullmatch(str(step.get("uses"))) for step in steps)
        if address := next(("".join(match.groups()) for match in found if match), ""):
            notify(f"actions: {address}, as in {path}")
            return config.model_copy(update={"actions": address})
    return config


def _candidate(path: str, workflow: Any, found: FoundStep, tracked: Sequence[str]) -> Candidate:
    job = workflow["jobs"][found.job]
    step = job["steps"][found.number - 1]
    names = f"{path.rpartition('/')[2]} {found.job} {job.get('name')} {step.get('name')}"
    parts = set(re.split(r"[^a-z0-9]+", names.lower()))
    events = set(triggers_of(workflow))
    rank = (
        2 if events & _EVENTS else int("workflow_call" in events),
        -bool(only_file(found.commands, tracked)),  # no work to divide
        -len(parts & {*_OTHER.split()}),
        int(has_matrix(job)),
        len(parts & _TESTS),
    )
    name = f', step "{step["name"]}"' if "name" in step else ""
    title = shorten(f"job {found.job}{name}: {found.commands[0].words}", MAX_WIDTH)
    return Candidate(path, found.job, found.number, title, rank)


def choose_candidate(
    candidates: Sequence[Candidate], check: Callable[[Candidate], object]
) -> Candidate | None:
    """Ask on a terminal which step to move; None for a separate workflow.

    If only one candidate can be moved, return it; if none, return the likeliest.

    Args:
        check: raises CiguardError for a candidate that cannot be moved.

    Raises:
        InputError: there is no terminal; the fix shows a command for each answer.
    """
    choices: list[Candidate] = []
    refused: dict[Candidate, str] = {}
    for candidate in candidates[:MAX_CHECKED]:
        try:
            check(candidate)
            choices.append(candidate)
        except CiguardError as error:
            reason = shorten(error.what, 2 * MAX_WIDTH)
            refused[candidate] = f"{candidate.title}\n   cannot be moved: {reason}"
        if len(choices) == MAX_CHOICES:
            break
    if not choices:
        return candidates[0]
    if len(choices) == 1 and len(refused) + 1 == len(candidates):
        console.err("\n".join(refused.values()))
        return choices[0]
    rows = [f"{item.title}\n   {item.command}" for item in choices]
    rows.append(f"a separate workflow beside it\n   {SEPARATE}")
    lines = [f"{number}. {row}" for number, row in enumerate(rows, 1)]
    lines += [*refused.values()][:1]
    shown = (*choices, *[*refused][:1])
    if others := [item.command for item in candidates if item not in shown]:
        first = f", the first {MAX_OTHERS}" if len(others) > MAX_OTHERS else ""
        lines += [f"{len(others)} more{first}:", *(f"   {it}" for it in others[:MAX_OTHERS])]
    what, text = f"{len(candidates)} steps run tests", "\n".join(lines)
    if not sys.stdin.isatty():
        raise InputError(what, fix=f"choose one, the most likely first:\n{text}")
    console.err(f"{what}, the most likely first:\n{text}")
    number = click.IntRange(1, len(rows))
    answer = click.prompt("Which one gets ciguard's shards?", type=number, default=1, err=True)
    return (*choices, None)[answer - 1]
