"""`ciguard experiment --base --head`: the same units on two commits, in turn, in two worktrees."""

from __future__ import annotations

import io
import json
import os
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from ciguard import console, files
from ciguard.codec import inventory as inventory_codec
from ciguard.compare.as_json import as_json
from ciguard.compare.confirmed import Confirmed, updated
from ciguard.compare.experiment import conduct, confirmation, confirming, measured, running, units
from ciguard.compare.experiment.words import run_words
from ciguard.compare.from_json import read_comparison
from ciguard.configured import suites_of
from ciguard.errors import InputError, NothingToDo
from ciguard.repository.checkout import Repository
from ciguard.text import one_line

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from ciguard.compare.comparison import Comparison
    from ciguard.compare.experiment.confirmation import Confirmation
    from ciguard.compare.experiment.design import Design, Side, Step
    from ciguard.compare.experiment.running import Stopping
    from ciguard.config import Config
    from ciguard.invocation import Invocation
    from ciguard.model import CaseKey

LAST_LINES: Final = 10  # of a set-up that failed


@dataclass(frozen=True, slots=True)
class Asked:
    """What the command line says of two commits."""

    base: str
    head: str
    units: str
    comparison: str | None
    design: Design
    budget_s: float


def confirm(invocation: Invocation, asked: Asked) -> Confirmation:
    """Run the units on both commits in turn, and judge them; a comparison is brought up to date."""
    config = invocation.config()
    comparison, wanted = _wanted(invocation, asked)
    unknown = sorted({unit.suite for unit in wanted.units} - config.suite.keys())
    if unknown:
        fix = f"the configuration has: {', '.join(map(repr, sorted(config.suite)))}"
        raise InputError(f"no suite {unknown[0]!r}", where="--units", fix=fix)
    repository = Repository(invocation.folder, invocation.environ)
    commits = {side: repository.commit(word) for side, word in _words(asked).items()}
    if repository.has_changes() and repository.commit("HEAD") in commits.values():
        console.err("note: changes that are not committed are not measured")
    of = comparison.candidate.sha if comparison is not None else None
    if of is not None and of != commits["b"]:
        console.err(f"warning: the comparison is of {of:.10}, and run is {commits['b']:.10}")
    done: list[measured.Measured] = []
    why: conduct.Why = "interrupted"
    stopped_by, began_s = 0, running.now_s()
    troubles: dict[CaseKey, str] = {}
    try:
        with running.Stopping() as stopping, ExitStack() as stack:
            folder = stack.enter_context(stopping.private_folder())
            places = {
                side: _checkout(
                    stack, stopping, repository, folder / confirmation.NAMES[side], commit
                )
                for side, commit in commits.items()
            }
            bench = _Bench(invocation, config, stopping, folder, places, wanted, troubles)
            for side in places:
                bench.set_up(side)
            began_s = running.now_s()  # the budget is for runs
            bench.until_s = began_s + asked.budget_s
            why = conduct.conduct(asked.design, done, bench.measure, bench.left_s, looking=False)
    except running.Stopped as error:
        stopped_by = error.number
    found = confirmation.concluded(
        asked.design,
        done,
        why,
        commits=commits,
        wanted=wanted,
        troubles=troubles,
        wall_s=running.now_s() - began_s,
        stopped_by=stopped_by,
    )
    if comparison is not None and asked.comparison is not None and found.is_complete:
        _update(invocation, asked.comparison, comparison, found)
    return found


def _words(asked: Asked) -> dict[Side, str]:
    return {"a": asked.base, "b": asked.head}


def _wanted(invocation: Invocation, asked: Asked) -> tuple[Comparison | None, units.Wanted]:
    """What to run: the suspects of a comparison where there is one, else what a file lists."""
    if asked.comparison is None:
        content = files.read(invocation.folder / asked.units)
        found = inventory_codec.read(io.BytesIO(content), asked.units)
        if not found.units:
            raise NothingToDo("no unit is listed", where=f"--units {asked.units}")
        suites = suites_of(invocation.config())
        listed = inventory_codec.assigned(found.units, suites, f"--units {asked.units}")
        return None, units.Wanted(tuple(unit.key for unit in listed))
    content = files.read(invocation.folder / asked.comparison)
    comparison = read_comparison(content, asked.comparison)
    wanted = units.suspects_of(comparison)
    if not wanted.units:
        raise NothingToDo("it has no suspects", where=asked.comparison)
    return comparison, wanted


def _checkout(
    stack: ExitStack, stopping: Stopping, repository: Repository, place: Path, commit: str
) -> Path:
    """A worktree that is removed in the end; the folder in it that is ours here."""

    def remove() -> None:
        with stopping.held():
            repository.remove_worktree(place)

    stack.callback(remove)
    with stopping.held():
        repository.add_worktree(place, commit)
    return place / repository.prefix()


def _update(invocation: Invocation, name: str, comparison: Comparison, found: Confirmation) -> None:
    now = updated(comparison, Confirmed(confirming.tiers_of(found.rows), min(found.pairs)))
    content = json.dumps(as_json(now), indent=2, allow_nan=False) + "\n"
    files.write(invocation.folder / name, content.encode("utf-8", "backslashreplace"))
    console.err(f"{name}: {now.headline}")


@dataclass
class _Bench:
    """Both checkouts, and the leg that is run in each of them."""

    invocation: Invocation
    config: Config
    stopping: Stopping
    folder: Path
    places: Mapping[Side, Path]
    wanted: units.Wanted
    troubles: dict[CaseKey, str]
    until_s: float = float("inf")
    runs: int = 0
    suites: Mapping[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        self.suites = suites_of(self.config)
        (self.folder / "plan.json").write_bytes(units.plan_of(self.wanted.units, self.suites))

    def left_s(self) -> float:
        """What is left of the budget."""
        return self.until_s - running.now_s()

    def set_up(self, side: Side) -> None:
        """Make a checkout ready. Raises InputError where the project's command cannot."""
        command = self.config.experiment.setup
        if not command:
            return
        console.err(f"{confirmation.NAMES[side]}: {one_line(command)}")
        argv = ("sh", "-c", command)
        code, said = self.stopping.run(argv, self.places[side], self.environ(side), float("inf"))
        if code:
            lines = "\n".join(f"    {one_line(x)}" for x in said.splitlines()[-LAST_LINES:])
            what = f"the set-up of {confirmation.NAMES[side]} ended with exit code {code}\n{lines}"
            fix = "set experiment.setup to what makes a fresh checkout ready for its tests"
            raise InputError(what, where="experiment.setup", fix=fix)

    def environ(self, side: Side) -> dict[str, str]:
        """Ours, with the checkout's own programs first on PATH."""
        own = [self.places[side] / name for name in self.config.experiment.path]
        found = [str(path.absolute()) for path in own if path.is_dir()]
        path = os.pathsep.join([*found, self.invocation.environ.get("PATH", os.defpath)])
        return {**self.invocation.environ, "PATH": path}

    def measure(self, step: Step) -> measured.Measured:
        """One run of all units on one side."""
        self.runs += 1
        place = self.folder / f"{self.runs:04}"
        plan = str(self.folder / "plan.json")
        argv = (*running.LEG, "--plan", plan, "--shard", units.SHARD, "--record", str(place))
        began_s = running.now_s()
        environ = self.environ(step.side)
        code, said = self.stopping.run(argv, self.places[step.side], environ, self.left_s())
        found = measured.Measured(step, took_s=running.now_s() - began_s, is_cut=code is None)
        if not found.is_cut:
            found = self._read(found, place, said)
        told = f"{len(found.values)} numbers" if found.values else run_words(found) or "no number"
        console.err(f"{confirmation.words_of(step)}: {told} in {found.took_s:.1f} s")
        return found

    def _read(self, run: measured.Measured, place: Path, said: str) -> measured.Measured:
        records = files.read_record_tree(place) if place.is_dir() else ()
        failure = units.failure_of(records, said)
        if failure:
            return replace(run, failure=failure)
        for key, trouble in units.troubles_of(records[0], self.wanted.units).items():
            self.troubles.setdefault(key, f"on {confirmation.NAMES[run.step.side]}: {trouble}")
        return replace(run, values=units.values_of(records[0]))
