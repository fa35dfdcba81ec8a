"""Options that several commands have, with the same words in each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import click
from click.decorators import FC

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
