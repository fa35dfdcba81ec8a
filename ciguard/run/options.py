"""The words of a leg's command line: which options there are, and which one was meant."""

from __future__ import annotations

import argparse
from difflib import get_close_matches
from typing import Sequence

from ciguard.errors import UsageError

USAGE = """%(prog)s --plan FILE|DIR --shard KEY --record DIR
       %(prog)s --record DIR -- COMMAND..."""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="ciguard run",
        usage=USAGE,
        description="Run one shard of a plan, or any command, under supervision.",
        epilog="Exit code: 0 all passed, 10 tests failed, 13 something did not run, "
        "130 and 143 interrupted.",
        allow_abbrev=False,
    )
    parser.add_argument("--plan", metavar="FILE|DIR", help="the plan, or its artifact's folder")
    parser.add_argument("--shard", metavar="KEY", help="which of its shards")
    parser.add_argument("--record", metavar="DIR", required=True, help="new folder of the record")
    return parser


def split(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Our words, and the command behind `--`, whose words are its own."""
    words = list(arguments)
    if "--" not in words:
        return words, []
    place = words.index("--")
    return words[:place], words[place + 1 :]


def parse(words: Sequence[str]) -> argparse.Namespace:
    """Read our words: `plan`, `shard`, `record`.

    Raises:
        UsageError: an option that there is not; before argparse misses the one that was meant.
        SystemExit: anything else that argparse does not like, said on stderr; or `--help`.
    """
    parser = _parser()
    known = ("--help", "--plan", "--record", "--shard")
    for word in words:
        name = word.partition("=")[0]
        if name.startswith("--") and name not in known:
            # Without the dashes, which make any two options look alike.
            close = get_close_matches(name[2:], [option[2:] for option in known], n=1)
            fix = f"did you mean --{close[0]}?" if close else f"there are {', '.join(known)}"
            raise UsageError(f"no option {name!r}", fix=fix)
    return parser.parse_args(words)
