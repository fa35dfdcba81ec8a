"""The command `ciguard run`: pass all arguments unchanged to the program that runs one shard.

The zip file of that program (`ciguard-run.pyz`) does not contain this module, because click is
missing there.
"""

from __future__ import annotations

import gc
from collections.abc import Sequence

import click

from ciguard.run.__main__ import run


class _Unchanged(click.Command):
    """A command whose arguments click does not parse, because click would drop the `--`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.params["arguments"] = tuple(args)
        return []


def _call(arguments: Sequence[str]) -> int:
    gc.enable()  # a leg runs for hours, and holds fewer values than a plan
    return run(arguments)


command = _Unchanged(
    "run",
    callback=_call,
    params=[],
    add_help_option=False,
    context_settings={"ignore_unknown_options": True},
)
