"""Options that several commands have, with the same words in each."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

import click
from click.decorators import FC

from ciguard.errors import UsageError

PAST_RUNS: Final = "Past runs (default: history.store)."
HISTORY: Final = click.option("--history", metavar="FILE|branch:NAME|URL", help=PAST_RUNS)
EXPECT: Final = click.option(
    "--expect",
    "expected",
    metavar="N",
    type=click.IntRange(min=1),
    help="Without --plan: expected number of artifacts.",
)
TESTS: Final = click.option(
    "--tests", metavar="FILE", help="Without --plan: list of expected tests."
)
OUTPUT: Final = click.option(
    "-o",
    "--output",
    metavar="FILE",
    help="File for the answer; only the verdict is printed.",
)
RESULTS: Final = click.option(
    "--results",
    metavar="GLOB",
    multiple=True,
    help="Result files instead of records, such as 'results-{shard}/**/*.xml'; repeatable.",
)
RUN: Final = click.option(
    "--run",
    metavar="ID|URL",
    help="Run on GitHub to download, such as 123456 or 123456/2.",
)
plan_option: Final = partial(click.option, "--plan", metavar="FILE|DIR", help="Plan of the run.")
records_option: Final = partial(
    click.option, "--records", metavar="DIR", help="Folder of the records."
)
repo_option: Final = partial(
    click.option,
    "--repo",
    metavar="OWNER/NAME",
    default="",
    help="Repository on GitHub (default: origin).",
)


def format_option(*formats: str) -> Callable[[FC], FC]:
    """Return the option `--format`; the first format is the default."""
    choice = click.Choice(formats)
    return click.option("--format", "format_", type=choice, default=formats[0])


def parse_budget(text: str) -> float:
    """Parse `--budget`, a time > 0 such as "10m"; raise UsageError for any other text."""
    from ciguard.config.sections import seconds  # noqa: PLC0415  # pydantic: not for --help

    try:
        value_s = seconds(text)
    except ValueError as error:
        raise UsageError(f"{error}, found {text!r}", where="--budget") from None
    if not isinstance(value_s, float) or value_s <= 0:
        raise UsageError(f"expected more than 0, found {text!r}", where="--budget")
    return value_s
