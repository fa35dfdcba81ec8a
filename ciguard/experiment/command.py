"""The command `ciguard experiment`: run commands or commits in turn, compare time and memory."""

from __future__ import annotations

import json
import re
import shlex
import signal
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from ciguard import console
from ciguard.config.options import OUTPUT, format_option, parse_budget
from ciguard.errors import ExitCode, UsageError
from ciguard.sources import local
from ciguard.text import one_line

if TYPE_CHECKING:
    from ciguard.config.invocation import Invocation
    from ciguard.experiment.measurement import Measurement
    from ciguard.experiment.result import Experiment
    from ciguard.experiment.schedule import Design, Step

SUSPECTS: Final = "suspects"
RUNS: Final = 10
RUNS_IN_BUDGET: Final = 200  # with a budget alone: as many as fit, until a conclusive analysis
RUNS_OF_COMMITS: Final = 5
BUDGET, BUDGET_OF_COMMITS = "10m", "5m"
MAX_ROWS: Final = 200  # of a table in a terminal
MAX_ARMS: Final = 8
_NAME: Final = re.compile(r"[A-Za-z_]\w*")
_ARM: Final = re.compile(r"(?a:\w[\w.+-]{0,19})=(.*\S.*)", re.DOTALL)


@click.command()
@click.option(
    "--arm",
    "arm_texts",
    metavar="NAME=CMD",
    multiple=True,
    help=f"Command for `sh -c`; repeat 2 to {MAX_ARMS} times.",
)
@click.option("--a", "a", metavar="CMD", help="The same as --arm a=CMD.")
@click.option("--b", "b", metavar="CMD", help="The same as --arm b=CMD.")
@click.option("--base", metavar="COMMIT", help="First commit.")
@click.option("--head", metavar="COMMIT", help="Second commit.")
@click.option(
    "--units",
    metavar="FILE|suspects",
    help="Tests to run: a file, or the suspects of --comparison.",
)
@click.option(
    "--comparison",
    metavar="FILE",
    help="JSON of `ciguard compare` with the suspects.",
)
@click.option(
    "--runs",
    metavar="N",
    type=click.IntRange(1, 1000),
    help="Measured runs per arm (default: 10; commits: 5).",
)
@click.option(
    "--warmup",
    metavar="N",
    type=click.IntRange(0, 100),
    default=1,
    show_default=True,
    help="Warm-up runs per arm.",
)
@click.option(
    "--condition",
    "conditions_text",
    metavar="NAME=VALUE",
    multiple=True,
    help="Variable of all commands; repeatable.",
)
@click.option(
    "--budget", metavar="TIME", help="Time limit of all runs (default: 10m; commits: 5m)."
)
@format_option("text", "markdown", "json")
@OUTPUT
@click.pass_obj
def command(
    invocation: Invocation,
    /,
    *,
    arm_texts: tuple[str, ...],
    a: str | None,
    b: str | None,
    base: str | None,
    head: str | None,
    units: str | None,
    comparison: str | None,
    runs: int | None,
    warmup: int,
    conditions_text: tuple[str, ...],
    budget: str | None,
    format_: str,
    output: str | None,
) -> int:
    """Run commands, or tests on two commits, in turn, and compare time and memory.

    Name the commands by --arm, or by --a and --b; name the commits by --base and --head.
    """
    of_commits = compares_commits(
        (a, b, *arm_texts), (base, head, units), comparison, conditions_text
    )
    commands = {} if of_commits else parse_arms(arm_texts, a, b)
    # Imported here: numpy begins with the experiment.
    from ciguard.experiment import commits, view  # noqa: PLC0415
    from ciguard.experiment.schedule import Design  # noqa: PLC0415
    from ciguard.experiment.view import as_json, commits_as_json  # noqa: PLC0415
    from ciguard.render.formats import as_format  # noqa: PLC0415

    if of_commits:
        experiment = commits.confirm(
            invocation,
            {"base": base or "", "head": head or ""},
            units or "",
            comparison,
            Design(runs or RUNS_OF_COMMITS, warmup, arms=("base", "head")),
            budget_s=parse_budget(budget or BUDGET_OF_COMMITS),
        )
        blocks, content = view.commit_document(experiment), commits_as_json(experiment)
    else:
        most = runs or (RUNS_IN_BUDGET if budget else RUNS)
        design = Design(most, warmup, parse_conditions(conditions_text), tuple(commands))
        budget_s = parse_budget(budget or BUDGET)
        experiment = _run_experiment(invocation, design, commands, budget_s)
        blocks, content = view.document(experiment), as_json(experiment)
    if format_ == "json":
        answer = json.dumps(content, indent=2, allow_nan=False) + "\n"
    else:
        answer = as_format(blocks, format_, rows=MAX_ROWS)
    if output is None or output == "-":
        console.out(answer)
    else:
        local.write(invocation.folder / output, answer.encode("utf-8", "backslashreplace"))
        console.out("\n".join(view.verdict_lines(experiment)))
    return exit_code(experiment)


def compares_commits(
    commands: Sequence[str | None],
    commits: Sequence[str | None],
    comparison: str | None,
    conditions_text: Sequence[str],
) -> bool:
    """Return whether commits are compared; raise UsageError for both kinds, or one commit."""
    if any(commits) or comparison:
        if any(commands) or conditions_text or not all(commits):
            fix = "pass --base COMMIT --head COMMIT --units FILE, without commands and --condition"
            raise UsageError("missing or wrong options to compare commits", fix=fix)
        if (commits[-1] == SUSPECTS) is not bool(comparison):
            fix = "pass both; `ciguard compare --format json -o FILE` writes the comparison"
            raise UsageError("--units suspects and --comparison FILE need each other", fix=fix)
        return True
    return False


def parse_arms(texts: Sequence[str], a: str | None, b: str | None) -> dict[str, str]:
    """Parse the commands by name, in their order.

    Raises:
        UsageError: there are too few or too many, or a name is missing or repeated.
    """
    fix = "pass --arm NAME='CMD' twice or more, --a 'CMD' --b 'CMD', or --base COMMIT --head COMMIT"
    if not texts:
        if not (a and b):
            raise UsageError("nothing to compare", fix=fix)
        return {"a": a, "b": b}
    if a or b:
        raise UsageError("--arm, and --a or --b", fix="write --arm a='CMD' instead of --a 'CMD'")
    arms: dict[str, str] = {}
    for text in texts:
        name, _, command_text = text.partition("=")
        if not _ARM.fullmatch(text) or name in arms:
            what = "is given twice" if name in arms else "is not NAME=CMD"
            name_fix = "give each another name of up to 20 letters, digits, '.', '-', '+' and '_'"
            raise UsageError(f"{one_line(text, 60)!r} {what}", where="--arm", fix=name_fix)
        arms[name] = command_text
    if not 1 < len(arms) <= MAX_ARMS:
        raise UsageError(f"{len(arms)} arms, expected 2 to {MAX_ARMS}", where="--arm", fix=fix)
    return arms


def parse_conditions(texts: Sequence[str]) -> tuple[dict[str, str], ...]:
    """Parse `--condition` to names and values; without texts, one condition without names.

    Raises:
        UsageError: a text is no NAME=VALUE, or is repeated.
    """
    conditions: list[dict[str, str]] = []
    fix = "write NAME=VALUE, several of one condition in quotes: 'steps=4 batch=2'"
    for text in texts:
        condition: dict[str, str] = {}
        try:
            parts = shlex.split(text)
        except ValueError as error:
            raise UsageError(f"{text!r}: {error}", where="--condition", fix=fix) from None
        for part in parts:
            name, equals, value = part.partition("=")
            if not equals or not _NAME.fullmatch(name) or name in condition:
                raise UsageError(f"not a condition: {text!r}", where="--condition", fix=fix)
            condition[name] = value
        if not condition or condition in conditions:
            what = "is given twice" if condition else "is empty"
            raise UsageError(f"{text!r} {what}", where="--condition", fix=fix)
        conditions.append(condition)
    return tuple(conditions) or ({},)


def _run_experiment(
    invocation: Invocation, design: Design, commands: Mapping[str, str], budget_s: float
) -> Experiment:
    from ciguard.experiment import process, result, view  # noqa: PLC0415

    def measure(step: Step) -> Measurement:
        condition = design.conditions[step.condition]
        shell = ("sh", "-c", commands[step.arm])
        environ = {**invocation.environ, **condition}
        run = legs.run(step, ("--", *shell), invocation.folder, environ, _read)
        console.err(f"{view.step_text(step, design)}: {view.measurement_text(run)}")
        return run

    done: list[Measurement] = []
    began_s = process.now_s()
    stopped_by = 0
    why: result.StopReason = "interrupted"
    try:
        with process.SignalGuard() as stopping, stopping.private_folder() as folder:
            legs = process.LegRunner(stopping, folder, began_s + budget_s)
            why = result.run_design(design, done, measure, legs.remaining_s)
    except process.Interrupted as error:
        stopped_by = error.number
    return result.conclude(
        design,
        done,
        why,
        commands=commands,
        wall_s=process.now_s() - began_s,
        stopped_by=stopped_by,
    )


def _read(run: Measurement, record_dir: Path, output_text: str) -> Measurement:
    """Add the values of a run, or its failure."""
    from ciguard.experiment import measurement, process  # noqa: PLC0415
    from ciguard.model.machine_use import machine_use  # noqa: PLC0415

    records = local.read_record_tree(record_dir) if record_dir.is_dir() else ()
    if not records:
        return replace(run, failure=output_text.strip() or "no record")
    log = process.tail(record_dir / "process-001.log", measurement.LAST_BYTES)
    return replace(
        run,
        values=measurement.values_of(records[0]),
        failure=measurement.failure_of(records[0], log),
        machine=machine_use(records[0].samples),
        invalid_metrics=tuple(
            event.detail for event in records[0].events if event.kind == "unreadable_metric"
        ),
    )


def exit_code(experiment: Experiment) -> ExitCode:
    """Return 0 for a completed experiment, for every verdict."""
    if experiment.stopped_by:
        is_interrupt = experiment.stopped_by == signal.SIGINT
        return ExitCode.INTERRUPTED if is_interrupt else ExitCode.TERMINATED
    return ExitCode.TESTS_FAILED if experiment.failed is not None else ExitCode.OK
