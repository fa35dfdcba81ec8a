"""`ciguard run`: passes every argument, also `--help` and `--`, to the leg's program unchanged.

The zip file of a leg does not have this module, as it has no click.
"""

from __future__ import annotations

import gc
from collections.abc import Sequence

import click

from ciguard.run.__main__ import run


class _Unchanged(click.Command):
    """A command whose arguments click does not parse: it would drop the `--`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.params["arguments"] = tuple(args)
        return []


def _call(arguments: Sequence[str]) -> int:
    gc.enable()  # a leg runs for hours, and never holds millions of values as a plan does
    return run(arguments)


command = _Unchanged(
    "run",
    callback=_call,
    params=[],
    add_help_option=False,
    context_settings={"ignore_unknown_options": True},
)
