"""Options that several commands have, with the same words in each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import click
from click.decorators import FC

from ciguard.errors import UsageError

HISTORY: Final = click.option(
    "--history",
    metavar="FILE|branch:NAME|URL",
    help="Past runs: a file, a branch or a service (default: the configured store).",
)
EXPECT: Final = click.option(
    "--expect",
    "expected",
    type=click.IntRange(min=1),
    help="Without --plan: number of artifacts that must have results.",
)
OUTPUT: Final = click.option(
    "-o",
    "--output",
    metavar="FILE",
    help="Write the answer to this file and print only the verdict.",
)


def format_option(*formats: str, text: str = "Output format.") -> Callable[[FC], FC]:
    """Return the option `--format`; the first format is the default, `text` the help."""
    choice = click.Choice(formats)
    return click.option("--format", "format_", type=choice, default=formats[0], help=text)


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
