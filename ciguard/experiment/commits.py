"""`ciguard experiment --base --head`: the same units on two commits in turn, in two worktrees."""

from __future__ import annotations

import io
import os
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

from ciguard import console
from ciguard.codec import inventory_file as inventory_codec
from ciguard.compare.comparison import Comparison
from ciguard.compare.confirmation import Confirmation, apply_confirmation, tier_of
from ciguard.compare.json import json_text, read_comparison
from ciguard.compare.wording import headline
from ciguard.config.file import Config
from ciguard.config.invocation import Invocation
from ciguard.config.suites import suites_of
from ciguard.errors import InputError, NothingToDo
from ciguard.experiment import commit_test, measurement, process, result
from ciguard.experiment.process import SignalGuard
from ciguard.experiment.result import Exclusion, Experiment
from ciguard.experiment.schedule import Design, Step
from ciguard.experiment.view import measurement_text, step_text
from ciguard.git.checkout import Checkout
from ciguard.model import CaseKey
from ciguard.sources import local
from ciguard.text import one_line

LAST_LINES: Final = 10  # of a set-up that failed


def confirm(
    invocation: Invocation,
    revisions: Mapping[str, str],
    units: str,
    comparison_file: str | None,
    design: Design,
    *,
    budget_s: float,
) -> Experiment:
    """Run the units on both commits in turn, judge them, and update the comparison, if any."""
    config = invocation.config()
    comparison, wanted = _request(invocation, units, comparison_file)
    unknown = sorted({unit.suite for unit in wanted.units} - config.suite.keys())
    if unknown:
        fix = f"the configuration has: {', '.join(map(repr, sorted(config.suite)))}"
        raise InputError(f"no suite {unknown[0]!r}", where="--units", fix=fix)
    repository = Checkout(invocation.folder, invocation.environ)
    commits = {arm: repository.commit(word) for arm, word in revisions.items()}
    compared = comparison.candidate.sha if comparison is not None else None
    head = commits["head"]
    if compared is not None and compared != head:
        console.err(f"warning: the comparison is of {compared:.10}, and run is {head:.10}")
    done: list[measurement.Measurement] = []
    why: result.StopReason = "interrupted"
    stopped_by, began_s = 0, process.now_s()
    excluded: dict[CaseKey, Exclusion] = {}
    try:
        with process.SignalGuard() as stopping, ExitStack() as stack:
            folder = stack.enter_context(stopping.private_folder())
            checkouts = {
                arm: add_checkout(stack, stopping, repository, folder / arm, commit)
                for arm, commit in commits.items()
            }
            legs = process.LegRunner(stopping, folder)
            runner = CommitRunner(invocation, config, checkouts, legs)
            for arm in checkouts:
                runner.set_up(arm, stopping)
            began_s = process.now_s()  # the budget does not contain the set-up
            legs.until_s = began_s + budget_s
            plan = folder / "plan.json"
            plan.write_bytes(commit_test.plan_of(wanted.units, suites_of(config)))
            measure = partial(_measure, runner, plan, wanted, excluded)
            why = result.run_design(design, done, measure, legs.remaining_s, may_stop_early=False)
    except process.Interrupted as error:
        stopped_by = error.number
    experiment = commit_test.conclude(
        design,
        done,
        why,
        commits=commits,
        request=wanted,
        exclusions=excluded,
        wall_s=process.now_s() - began_s,
        stopped_by=stopped_by,
    )
    if comparison is not None and comparison_file is not None and experiment.is_complete:
        _update(invocation, comparison_file, comparison, experiment)
    return experiment


def _request(
    invocation: Invocation, units: str, comparison_file: str | None
) -> tuple[Comparison | None, commit_test.Request]:
    """Return the suspects of a comparison, if one is given, otherwise the tests of a file."""
    if comparison_file is None:
        where = f"--units {units}"
        try:
            content = local.read(invocation.folder / units)
        except InputError as error:
            fix = "name a file that lists the tests, one per line"
            raise InputError(error.what, where=where, fix=fix) from error
        listed = inventory_codec.read(io.BytesIO(content), units).units
        if not listed:
            raise NothingToDo("no test is listed", where=where)
        resolved = inventory_codec.resolve_suites(listed, suites_of(invocation.config()), where)
        return None, commit_test.Request(tuple(unit.key for unit in resolved))
    content = local.read(invocation.folder / comparison_file)
    comparison = read_comparison(content, comparison_file)
    suspects = ((suspect.key, suspect.measure) for suspect in comparison.suspects)
    wanted = commit_test.request_of(suspects)
    if not wanted.units:
        raise NothingToDo("it has no suspects", where=comparison_file)
    return comparison, wanted


def add_checkout(
    stack: ExitStack, stopping: SignalGuard, repository: Checkout, path: Path, commit: str
) -> Path:
    """Add a worktree that `stack` removes; return its folder for the current folder."""

    def remove() -> None:
        with stopping.deferred():
            repository.remove_worktree(path)

    stack.callback(remove)
    with stopping.deferred():
        repository.add_worktree(path, commit)
    return path / repository.prefix()


def _measure(
    runner: CommitRunner,
    plan: Path,
    request: commit_test.Request,
    exclusions: dict[CaseKey, Exclusion],
    step: Step,
) -> measurement.Measurement:
    def read(
        run: measurement.Measurement, record_dir: Path, output_text: str
    ) -> measurement.Measurement:
        records = local.read_record_tree(record_dir) if record_dir.is_dir() else ()
        failure = commit_test.failure_of(records, output_text)
        if failure:
            return replace(run, failure=failure)
        excluded = commit_test.exclusions(records[0], request.units, step.arm)
        exclusions.update({**excluded, **exclusions})
        return replace(run, values=commit_test.values_of(records[0]))

    run = runner.run(step, plan, read)
    summary = f"{len(run.values)} numbers" if run.values else ""
    summary = summary or measurement_text(run) or "no number"
    console.err(f"{step_text(step, Design(1))}: {summary} in {run.duration_s:.1f} s")
    return run


def _update(invocation: Invocation, name: str, comparison: Comparison, result: Experiment) -> None:
    tiers = {
        (commit_test.key_of(row.metric), row.metric.name): tier_of(commit_test.row_verdict_of(row))
        for row in result.rows
        if row.p is not None
    }
    updated = apply_confirmation(comparison, Confirmation(tiers, min(result.blocks)))
    local.write(invocation.folder / name, json_text(updated).encode("utf-8", "backslashreplace"))
    console.err(f"{name}: {headline(updated)}")


@dataclass
class CommitRunner:
    """Runs tests in checkouts of commits, which the project's set-up makes ready.

    Attributes:
        checkouts: by name of a commit, the folder for the current folder.
    """

    invocation: Invocation
    config: Config
    checkouts: Mapping[str, Path]
    legs: process.LegRunner

    def set_up(self, name: str, stopping: SignalGuard) -> None:
        """Prepare a checkout by the project's command; raise InputError if the command fails."""
        command = self.config.experiment.setup
        if not command:
            return
        console.err(f"{name:.10}: {one_line(command)}")
        argv, remaining_s = ("sh", "-c", command), self.legs.remaining_s()
        cwd, environ = self.checkouts[name], self.environ(name)
        code, output_text = stopping.run(argv, cwd, environ, remaining_s)
        if code != 0:
            lines = "\n".join(f"    {one_line(x)}" for x in output_text.splitlines()[-LAST_LINES:])
            what = f"the set-up of {name:.10} ended with exit code {code}\n{lines}"
            fix = "set experiment.setup to what makes a fresh checkout ready for its tests"
            raise InputError(what, where="experiment.setup", fix=fix)

    def environ(self, name: str) -> dict[str, str]:
        """Return the environment with the checkout's own programs first on PATH."""
        folders = [self.checkouts[name] / path for path in self.config.experiment.path]
        existing = [str(folder.absolute()) for folder in folders if folder.is_dir()]
        path = os.pathsep.join([*existing, self.invocation.environ.get("PATH", os.defpath)])
        return {**self.invocation.environ, "PATH": path}

    def run(self, step: Step, plan: Path, read: process.Read) -> measurement.Measurement:
        """Run the shard of a plan in the checkout of the step's arm."""
        arguments = ("--plan", str(plan), "--shard", commit_test.SHARD)
        return self.legs.run(
            step, arguments, self.checkouts[step.arm], self.environ(step.arm), read
        )
