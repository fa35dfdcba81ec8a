"""A job whose test step is ciguard's action: found, pinned anew, and restored. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Any, Final

from ciguard.errors import InputError
from ciguard.workflow.environment_axis import (
    select_environments,
    selection_of,
    without_selection,
)
from ciguard.workflow.movable_job import HISTORY_JOB, PLAN_JOB, REPORT_JOB, matrix_range, read_job
from ciguard.workflow.positions import Edit, SourceText, entries, is_flow
from ciguard.workflow.rewrite import action_path, edit_present_jobs, move_job
from ciguard.workflow.yaml_values import jobs_of, load, steps_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from ciguard.workflow.movable_job import MovableJob
    from ciguard.workflow.rewrite import NewJobs

ADDED_JOBS: Final = (PLAN_JOB, REPORT_JOB, HISTORY_JOB)
_LEFT_BEHIND: Final = re.compile(r"\b(needs|matrix)\.ciguard\b")


@dataclass(frozen=True, slots=True)
class MovedJob:
    """A job whose test step is ciguard's action.

    Attributes:
        step: number of that step, from 1.
        command: what the step ran.
        matrix: text of the matrix that is planned; "" for none.
        actions: as `OWNER/ciguard@SHA # version`.
    """

    job: str
    step: int
    command: str
    matrix: str
    actions: str

    def step_in(self, workflow: Any) -> int:
        """The number of the step in a version of the workflow where it is a command."""
        steps = steps_of(jobs_of(workflow).get(self.job))
        texts = (self.command, without_selection(self.command))
        numbers = [number for number, step in steps if step.get("run") in texts]
        return numbers[0] if len(numbers) == 1 else self.step


def is_moved(workflow: Any) -> bool:
    """Say whether the workflow has a job `ciguard` that uses an action called plan."""
    return _plan_step(workflow) is not None


def _plan_step(workflow: Any) -> dict[str, Any] | None:
    for _, step in steps_of(jobs_of(workflow).get(PLAN_JOB)):
        uses = str(step.get("uses", ""))
        if "/plan@" in uses or uses == "$/plan":
            return step
    return None


def _repository(plan: dict[str, Any]) -> str:
    return str(plan["uses"]).partition("/plan")[0]


def _inputs(step: dict[str, Any]) -> dict[str, Any]:
    inputs = step.get("with")
    return inputs if isinstance(inputs, dict) else {}


def read_moved(text: str, where: str) -> MovedJob | None:
    """The job that `move_job` moved; None where there is none."""
    workflow = load(text, where)
    plan = _plan_step(workflow)
    if plan is None:
        return None
    run = f"{_repository(plan)}/run"
    for name, job in jobs_of(workflow).items():
        for number, step in steps_of(job):
            uses, inputs = str(step.get("uses")), _inputs(step)
            if uses.partition("@")[0] == run and "command" in inputs:
                version = text.partition(uses)[2].partition("\n")[0].rstrip()
                actions = uses.replace("/run@", "@").replace("$/run", "$/") + version
                matrix = str(_inputs(plan).get("matrix", ""))
                return MovedJob(str(name), number, str(inputs["command"]), matrix, actions)
    return None


def repin(text: str, where: str, actions: str) -> str:
    """The workflow with ciguard's actions at another address; other lines stay.

    A comment at a line stays where the address has none, and names the same commit.
    """
    plan = _plan_step(load(text, where))
    if plan is None:
        return text
    pattern = (
        rf"^(?P<key>[ \t]*(?:-[ \t]+)?uses:[ \t]+)(?P<uses>{re.escape(_repository(plan))}"
        r"/(?P<name>plan|run|report|history)@[^\s#'\"]+)(?:[ \t]+#[^\r\n]*)?(?=\r?$)"
    )

    def replace(found: re.Match[str]) -> str:
        uses = action_path(actions, found["name"])
        return found[0] if found["uses"] == uses else found["key"] + uses

    return re.sub(pattern, replace, text, flags=re.MULTILINE)


def restore(text: str, before: str, where: str, render: Callable[[MovableJob], NewJobs]) -> str:
    """The workflow without ciguard: as it was before, with what was edited since.

    The jobs that ciguard added go, whatever was edited in them, except for the matrix: it goes
    back to its job, and so does the command. Other lines are merged.

    Args:
        before: the text that `move_job` was given.
        render: the jobs that are added to a job.

    Raises:
        InputError: a line of ciguard in the test job was edited, or something else needs its jobs.
    """
    moved = read_moved(text, where)
    assert moved is not None
    step = str(moved.step_in(load(before, where)))
    place = f"{where} (as it was before)"
    source = SourceText(text)
    job = read_job(before, place, moved.job, step)
    selection = selection_of(job, moved.command)
    matrix = selection.removed_from_matrix(moved.matrix) if selection else moved.matrix
    target = _with_matrix(job, matrix, where)
    added = selection.words if selection else ""
    target = _with_command(read_job(target, place, moved.job, step), moved, source, added)
    job = read_job(target, place, moved.job, step)
    if selection:
        job = read_job(select_environments(job, selection), place, moved.job, step)
    workflow = move_job(job, render(job), moved.actions)
    base = edit_present_jobs(job, workflow, moved.actions)
    cuts = cut_jobs(source)
    restored = _merge(
        base, source.edited(cuts), target, lambda at: f"{where}:{_line(text, cuts, at)}"
    )
    _reject_use(restored, where)
    return restored


def _with_matrix(job: MovableJob, matrix: str, where: str) -> str:
    """The text with the matrix that is planned now."""
    source = job.source
    lines = [line.rstrip() for line in matrix.rstrip().splitlines()]
    if lines == [line.rstrip() for line in job.matrix.rstrip().splitlines()]:
        return source.text
    entry = source.find("jobs", job.name, "strategy", "matrix")
    if entry is None or not lines:
        what = "its matrix was added or taken out since ciguard moved in"
        fix = "undo that, and run init --out again"
        raise InputError(what, where=f"{where}: jobs.{job.name}", fix=fix)
    start, end = matrix_range(source, entry, job.where)
    first = entry if is_flow(entry.value) else next(entries(entry.value))
    indented = [" " * first.column + line if line else "" for line in lines]
    replaced = source.line_break.join(indented)
    return source.edited(
        [Edit(start, end, replaced.lstrip() if is_flow(entry.value) else replaced)]
    )


def _with_command(job: MovableJob, moved: MovedJob, source: SourceText, added: str) -> str:
    """The text with the command that is run now, as it is written in `source`, less `added`."""
    run = job.source.find("jobs", job.name, "steps", job.step, "run")
    command = source.find("jobs", moved.job, "steps", moved.step, "with", "command")
    before = job.without_split(job.value["steps"][job.step - 1]["run"])
    is_same = before == moved.command.replace(added, "", 1)
    if is_same or job.take or run is None or command is None:
        return job.source.text
    text = source.text[source.colon_end(command) : source.content_end(command)]
    text = text.replace(added, "", 1)
    deeper = " " * (command.column - run.column)
    start, end = job.source.colon_end(run), job.source.content_end(run)
    return job.source.edited([Edit(start, end, text.replace(f"\n{deeper}", "\n"))])


def cut_jobs(source: SourceText, names: Collection[str] = ADDED_JOBS) -> list[Edit]:
    """Take out jobs that ciguard added, each with the blank line that came with it."""
    jobs, cuts, done = source.find("jobs"), [], 0
    for entry in entries(jobs.value if jobs else None):
        if entry.name not in names:
            continue
        start = source.comments_before(entry.start, entry.column)
        end = source.content_end(entry)
        above, below = source.line_start(start - 1), source.next_line(end)
        if entry.name != PLAN_JOB and source.is_blank(above):
            start = source.line_end(source.line_start(above - 1))
        else:
            end = source.next_line(below) if source.is_blank(below) else below
        cuts.append(Edit(max(start, done), end, ""))
        done = end
    return cuts


def _line(text: str, cuts: list[Edit], position: int) -> int:
    """The line, from 1, of a position in the text without the cuts."""
    for cut in cuts:
        position += cut.end - cut.start if cut.start <= position else 0
    return text.count("\n", 0, position) + 1


def _merge(base: str, ours: str, theirs: str, where: Callable[[int], str]) -> str:
    """What both made of the base, line by line; changes side by side are no conflict.

    Raises:
        InputError: both changed a line; its position in `ours` says where.
    """
    lines, own, other = (text.splitlines(keepends=True) for text in (base, ours, theirs))
    # By place and text, so that a change which both made counts once.
    changes: dict[tuple[int, int, tuple[str, ...]], int] = {}
    for side in (other, own):
        # With its heuristic for lines that are common: without, 27,000 lines take 18 s, not 0.05 s.
        for tag, start, end, first, last in SequenceMatcher(None, lines, side).get_opcodes():
            if tag != "equal":
                changes[start, end, tuple(side[first:last])] = first if side is own else -1
    parts: list[str] = []
    done, edited = 0, 0
    for (start, end, text), line in sorted(changes.items()):
        edited = max(edited, line)
        if start < done:
            raise InputError(
                f"a line of ciguard was edited: {''.join(own[edited : edited + 1]).strip():.60}",
                where=where(len("".join(own[:edited]))),
                fix="undo that, run init --out again, and make the edit afterwards",
            )
        parts += [*lines[done:start], *text]
        done = end
    return "".join([*parts, *lines[done:]])


def _reject_use(text: str, where: str) -> None:
    """Refuse a workflow that still needs ciguard's jobs."""
    for name, job in jobs_of(load(text, where)).items():
        needs = job.get("needs") or [] if isinstance(job, dict) else []
        used = {needs} if isinstance(needs, str) else set(needs)
        if used.intersection(ADDED_JOBS) or _LEFT_BEHIND.search(str(job)):
            fix = "take that out of the job, and run init --out again"
            raise InputError("the job uses ciguard's jobs", where=f"{where}: jobs.{name}", fix=fix)
