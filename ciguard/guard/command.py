"""The command `ciguard guard`: judge a run and print the verdict."""

from __future__ import annotations

import json

import click

from ciguard import console
from ciguard.config.invocation import Invocation
from ciguard.config.options import format_option
from ciguard.guard.evaluation import (
    RunOptions,
    evaluate,
    evaluation_options,
    past_runs_of,
    run_options,
    write_annotations_and_outputs,
)
from ciguard.guard.json import as_json
from ciguard.guard.policy import context_of
from ciguard.guard.view import document
from ciguard.render.plaintext import as_text
from ciguard.sources.inputs import open_inputs


@click.command()
@run_options
@format_option("text", "json")
@click.option("--github", is_flag=True, help="Write outputs and annotations of the step.")
@click.pass_obj
def command(invocation: Invocation, options: RunOptions, /, *, format_: str, github: bool) -> int:
    """Prove that every planned test ran and every job completed.

    In GitHub Actions, set GITHUB_TOKEN, so that the command can read how each job ended. It ends
    with 0 if all tests passed, 10 if tests failed, 13 if the run is incomplete.
    """
    jobs = options.needed_jobs(invocation)
    with open_inputs(invocation, options) as inputs:
        past_runs = past_runs_of(invocation, options.history)
        settings = evaluation_options(invocation, options, count=options.history is not None)
        evaluation = evaluate(context_of(invocation), inputs, jobs, past_runs, settings)
    if format_ == "json":
        console.out(json.dumps(as_json(evaluation.verdict), indent=2))
    else:
        console.out(as_text(document(evaluation.verdict)))
    if github:
        write_annotations_and_outputs(invocation, evaluation.verdict, {})
    return evaluation.verdict.exit_code
