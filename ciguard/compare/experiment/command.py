"""`ciguard experiment`: two commands, or two commits, in turn: which is faster, which smaller."""

from __future__ import annotations

import importlib.util
import json
import re
import shlex
import signal
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import click

from ciguard import console, files
from ciguard.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from ciguard.compare.experiment.commits import Asked
    from ciguard.compare.experiment.design import Design, Side, Step
    from ciguard.compare.experiment.measured import Measured
    from ciguard.compare.experiment.outcome import Experiment
    from ciguard.compare.experiment.running import Stopping
    from ciguard.invocation import Invocation

SUSPECTS: Final = "suspects"
RUNS: Final = 10
RUNS_IN_BUDGET: Final = 200  # where only a budget is given: as many as fit in it, until it is clear
RUNS_OF_COMMITS: Final = 5
BUDGET, BUDGET_OF_COMMITS = "10m", "5m"
SHAPES: Final = ("text", "markdown", "json")
_NAME: Final = re.compile(r"[A-Za-z_]\w*")


@click.command()
@click.option("--a", "a", metavar="CMD", help="A command, for `sh -c`.")
@click.option("--b", "b", metavar="CMD", help="The other one.")
@click.option("--base", metavar="COMMIT", help="A commit.")
@click.option("--head", metavar="COMMIT", help="The other one.")
@click.option("--units", metavar="FILE|suspects", help="What to run on both: units, one a line.")
@click.option("--comparison", metavar="FILE", help="Whose suspects; is brought up to date.")
@click.option(
    "--runs",
    type=click.IntRange(1, 1000),
    help="Of each; 10, or what fits in --budget; of commits 5.",
)
@click.option("--warm", type=click.IntRange(0, 100), default=1, help="Of each before; kept apart.")
@click.option(
    "--condition",
    "words",
    metavar="NAME=VALUE",
    multiple=True,
    help="Set for both, as $NAME and {NAME}. Each condition has rows of its own.",
)
@click.option("--budget", metavar="TIME", help="No run goes on after it; 10m, of commits 5m.")
@click.option("--format", "shape", type=click.Choice(SHAPES), default="text")
@click.option("-o", "--output", metavar="FILE", help="Write it there, and print the verdict only.")
@click.pass_obj
def command(
    invocation: Invocation,
    /,
    *,
    a: str | None,
    b: str | None,
    base: str | None,
    head: str | None,
    units: str | None,
    comparison: str | None,
    runs: int | None,
    warm: int,
    words: tuple[str, ...],
    budget: str | None,
    shape: str,
    output: str | None,
) -> int:
    """Run two commands (--a, --b) or two commits' tests (--base, --head, --units) in turn.

    The last line is the verdict: faster, slower, less memory, more memory, no significant
    difference, not enough data, too noisy or mixed, said of b beside a. Ends with 0 whatever that
    is, with 10 where a command failed, 130 or 143 where it was stopped.
    """
    of_commits = is_of_commits((a, b), (base, head, units), comparison, words)
    check_scipy()
    if of_commits:
        from ciguard.compare.experiment import commits  # noqa: PLC0415
        from ciguard.compare.experiment.design import Design  # noqa: PLC0415

        asked = commits.Asked(
            base or "",
            head or "",
            units or "",
            comparison,
            Design(runs or RUNS_OF_COMMITS, warm),
            seconds(budget or BUDGET_OF_COMMITS),
        )
        return _confirmed(invocation, asked, shape, output)
    from ciguard.compare.experiment.design import Design  # noqa: PLC0415  # here numpy begins

    most = runs or (RUNS_IN_BUDGET if budget else RUNS)
    design = Design(most, warm, conditions(words))
    both: dict[Side, str] = {"a": a or "", "b": b or ""}
    found = _conducted(invocation, design, both, seconds(budget or BUDGET))
    tell(invocation, found, shape, output)
    return exit_code(found.stopped_by, found.failure)


def is_of_commits(
    commands: Sequence[str | None],
    commits: Sequence[str | None],
    comparison: str | None,
    words: Sequence[str],
) -> bool:
    """Which of both kinds is meant. Raises UsageError where that is neither or half of one."""
    if any(commits) or comparison:
        if any(commands) or words:
            what = "commits and commands: one of them"
            raise UsageError(what, fix="leave out --a, --b and --condition, or all others")
        if not all(commits):
            fix = "pass --base COMMIT --head COMMIT --units FILE, or --units suspects"
            raise UsageError("commits to compare, and not all that it takes", fix=fix)
        if (commits[-1] == SUSPECTS) is not bool(comparison):
            fix = "--units suspects and --comparison FILE, `ciguard compare --format json -o FILE`"
            raise UsageError("suspects are those of a comparison: pass both", fix=fix)
        return True
    if not all(commands):
        fix = "pass --a 'CMD' --b 'CMD', or --base COMMIT --head COMMIT --units FILE"
        raise UsageError("nothing to compare", fix=fix)
    return False


def check_scipy() -> None:
    """Find out before the first run. Raises UsageError."""
    if importlib.util.find_spec("scipy") is None:
        fix = "install ciguard with its extra `experiment`, or scipy beside it"
        raise UsageError("experiments are judged by scipy, which is not installed", fix=fix)


def conditions(words: Sequence[str]) -> tuple[dict[str, str], ...]:
    """What `--condition` says: of each, names and values; without any, one that sets nothing.

    Raises:
        UsageError: it is no NAME=VALUE, or the same as another one.
    """
    found: list[dict[str, str]] = []
    fix = "write NAME=VALUE, several of one condition in quotes: 'steps=4 batch=2'"
    for text in words:
        condition: dict[str, str] = {}
        try:
            parts = shlex.split(text)
        except ValueError as error:
            raise UsageError(f"{text!r}: {error}", where="--condition", fix=fix) from None
        for part in parts:
            name, equals, value = part.partition("=")
            if not equals or not _NAME.fullmatch(name) or name in condition:
                raise UsageError(f"no condition: {text!r}", where="--condition", fix=fix)
            condition[name] = value
        if not condition or condition in found:
            what = "is there twice" if condition else "is empty"
            raise UsageError(f"{text!r} {what}", where="--condition", fix=fix)
        found.append(condition)
    return tuple(found) or ({},)


def seconds(text: str) -> float:
    """600 for "10m". Raises UsageError for what is no time."""
    from ciguard import config  # noqa: PLC0415  # pydantic: not for --help

    try:
        found = config.seconds(text)
    except ValueError as error:
        raise UsageError(f"{error}, found {text!r}", where="--budget") from None
    if not isinstance(found, float) or found <= 0:
        raise UsageError(f"expected more than 0, found {text!r}", where="--budget")
    return found


def filled(text: str, condition: Mapping[str, str]) -> str:
    """The command with `{name}` replaced; `${name}` is the shell's, which has it as a variable."""
    for name, value in condition.items():
        text = re.sub(rf"(?<!\$)\{{{name}\}}", lambda _, v=value: shlex.quote(v), text)  # type: ignore[misc]
    return text


def _conducted(
    invocation: Invocation, design: Design, commands: Mapping[Side, str], budget_s: float
) -> Experiment:
    from ciguard.compare.experiment import conduct, outcome, running  # noqa: PLC0415

    done: list[Measured] = []
    began_s = running.now_s()
    stopped_by = 0
    why: conduct.Why = "interrupted"
    try:
        with running.Stopping() as stopping, stopping.private_folder() as folder:
            bench = _Bench(invocation, design, commands, stopping, folder, began_s + budget_s)
            why = conduct.conduct(design, done, bench.measure, bench.left_s)
    except running.Stopped as error:
        stopped_by = error.number
    return outcome.concluded(
        design,
        done,
        why,
        commands=commands,
        wall_s=running.now_s() - began_s,
        stopped_by=stopped_by,
    )


@dataclass
class _Bench:
    """Where commands are measured, one after the other."""

    invocation: Invocation
    design: Design
    commands: Mapping[Side, str]
    stopping: Stopping
    folder: Path
    until_s: float
    runs: int = 0

    def left_s(self) -> float:
        """What is left of the budget."""
        from ciguard.compare.experiment.running import now_s  # noqa: PLC0415

        return self.until_s - now_s()

    def measure(self, step: Step) -> Measured:
        """One run: a leg of its own."""
        from ciguard.compare.experiment import measured, running, words  # noqa: PLC0415

        self.runs += 1
        condition = self.design.conditions[step.condition]
        place = self.folder / f"{self.runs:04}"
        shell = ("sh", "-c", filled(self.commands[step.side], condition))
        began_s = running.now_s()
        code, said = self.stopping.run(
            (*running.LEG, "--record", str(place), "--", *shell),
            self.invocation.folder,
            {**self.invocation.environ, **condition},
            self.left_s(),
        )
        found = measured.Measured(step, took_s=running.now_s() - began_s, is_cut=code is None)
        if not found.is_cut:
            found = _read(found, place, said)
        console.err(f"{self.design.words(step)}: {words.run_words(found)}")
        return found


def _read(run: Measured, place: Path, said: str) -> Measured:
    """The run with its numbers, or with how it failed."""
    from ciguard.compare.experiment import measured, running  # noqa: PLC0415

    records = files.read_record_tree(place) if place.is_dir() else ()
    if not records:
        return replace(run, failure=said.strip() or "it left no record")
    log = running.tail(place / "process-001.log", measured.LAST_BYTES)
    failure = measured.failure_of(records[0], log)
    if failure:
        return replace(run, failure=failure)
    return replace(run, values=measured.values_of(records[0]))


def _confirmed(invocation: Invocation, asked: Asked, shape: str, output: str | None) -> int:
    from ciguard.compare.experiment import commits, confirmation  # noqa: PLC0415

    found = commits.confirm(invocation, asked)
    if shape == "json":
        answer = json.dumps(confirmation.as_json(found), indent=2, allow_nan=False) + "\n"
    elif shape == "markdown":
        answer = _from_template("confirmation.md.j2", found=found, words=confirmation)
    else:
        answer = confirmation.as_text(found)
    _say(invocation, answer, found.verdict, output)
    return exit_code(found.stopped_by, found.failure)


def tell(invocation: Invocation, found: Experiment, shape: str, output: str | None) -> None:
    """Print the answer, or write it and print the verdict."""
    from ciguard.compare.experiment import words  # noqa: PLC0415

    if shape == "json":
        answer = json.dumps(words.as_json(found), indent=2, allow_nan=False) + "\n"
    elif shape == "markdown":
        answer = _from_template("experiment.md.j2", experiment=found, words=words)
    else:
        answer = words.as_text(found)
    _say(invocation, answer, found.verdict, output)


def _from_template(name: str, **values: object) -> str:
    from ciguard.rendering import environment  # noqa: PLC0415

    return environment().get_template(name).render(**values)


def _say(invocation: Invocation, answer: str, verdict: str, output: str | None) -> None:
    if output is None or output == "-":
        console.out(answer)
        return
    files.write(invocation.folder / output, answer.encode("utf-8", "backslashreplace"))
    console.out(verdict)


def exit_code(stopped_by: int, failure: str) -> ExitCode:
    """Of an experiment that came to its end 0, whatever it found."""
    if stopped_by:
        by_hand = stopped_by == signal.SIGINT
        return ExitCode.INTERRUPTED if by_hand else ExitCode.TERMINATED
    return ExitCode.TESTS_FAILED if failure else ExitCode.OK
