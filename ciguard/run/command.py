"""`ciguard run`: hands every argument, `--help` and `--` too, to the leg's own program unchanged.

Not in the zip file of a leg, which has no click.
"""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

import click

from ciguard.run.__main__ import run

if TYPE_CHECKING:
    from collections.abc import Sequence


class _Unchanged(click.Command):
    """A command whose words are not looked at: click would swallow the `--`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.params["arguments"] = tuple(args)
        return []


def _call(arguments: Sequence[str]) -> int:
    gc.enable()  # a leg lives for hours, and keeps nothing like a plan's millions of values
    return run(arguments)


command = _Unchanged(
    "run",
    callback=_call,
    params=[],
    add_help_option=False,
    context_settings={"ignore_unknown_options": True},
    short_help="run one shard, or any command, under supervision",
)
