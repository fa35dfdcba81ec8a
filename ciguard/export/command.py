"""The command `ciguard export`: write the results of a run as JUnit XML."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import click

from ciguard import console
from ciguard.config.invocation import Invocation
from ciguard.config.options import RUN, plan_option, records_option, repo_option
from ciguard.errors import ExitCode
from ciguard.export.junit_writer import Combination, combinations, to_junit
from ciguard.guard.evaluation import EvaluationOptions, evaluate, past_runs_of
from ciguard.guard.headline import headline
from ciguard.guard.policy import context_of
from ciguard.sources import local
from ciguard.sources.inputs import Sources, open_inputs
from ciguard.text import count_of

_FORMATS: Final = ("junit",)
_UNSAFE: Final = re.compile(r"[^\w.-]+")


@click.command()
@plan_option()
@records_option()
@RUN
@repo_option()
@click.option(
    "--format",
    "formats",
    type=click.Choice(_FORMATS),
    multiple=True,
    default=("junit",),
    help="Repeatable.",
)
@click.option("-o", "--output", metavar="DIR", required=True, help="Folder for the files.")
@click.pass_obj
def command(
    invocation: Invocation,
    /,
    *,
    plan: str | None,
    records: str | None,
    run: str | None,
    repo: str,
    formats: tuple[str, ...],
    output: str,
) -> int:
    """Write the results of a run for other tools, one file for each suite and variant.

    A test without a result is an error in its file.
    """
    with open_inputs(invocation, Sources(plan, records, run=run, repo=repo)) as inputs:
        plan_path = local.path_below(invocation.folder, plan)
        options = EvaluationOptions(plan_path=plan_path, count=False)
        past = past_runs_of(invocation, None)
        run_ = evaluate(context_of(invocation), inputs, None, past, options)
    parts = combinations(run_.plan, run_.records, run_.platform, run_.verdict)
    for name, combination in zip(_file_names(parts), parts, strict=True):
        for format_ in dict.fromkeys(formats):
            path = Path(output, format_, f"{name}.xml")
            local.write(invocation.folder / path, to_junit(combination))
            console.out(f"{path}: {count_of(len(combination.cases), 'test')}")
    console.err(headline(run_.verdict))
    return ExitCode.OK


def _file_names(parts: tuple[Combination, ...]) -> list[str]:
    """Return a portable file name for each combination; equal names get a number."""
    names: list[str] = []
    for combination in parts:
        name = _UNSAFE.sub("-", combination.name).strip("-.") or "tests"
        count = sum(known == name or known.startswith(f"{name}--") for known in names)
        names.append(f"{name}--{count + 1}" if count else name)
    return names
