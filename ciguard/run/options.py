"""The words of a leg's command line: which options there are, and which one was meant."""

from __future__ import annotations

import argparse
import contextlib
from difflib import get_close_matches
from typing import Sequence

from ciguard.errors import UsageError
from ciguard.model.duration import parse_seconds
from ciguard.run.selection import Selection

USAGE = """%(prog)s --plan FILE|DIR --shard KEY --record DIR [--for TIME]
                   [--until TEST | --resume-from DIR... | --continue DIR...] [--github]
       %(prog)s --record DIR [--results GLOB...] -- COMMAND..."""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="ciguard run",
        usage=USAGE,
        description="Run one shard of a plan, or any command, under supervision. "
        "Standard input goes to a command, never to the tests of a plan.",
        epilog="Exit code: 0 all tests passed, 10 tests failed, 13 a test did not run, "
        "130 or 143 interrupted.",
        allow_abbrev=False,
    )
    parser.add_argument("--plan", metavar="FILE|DIR", help="plan, or folder of the plan artifact")
    parser.add_argument("--shard", metavar="KEY", help="shard of the plan to run")
    parser.add_argument("--record", metavar="DIR", required=True, help="new folder for the record")
    for name, metavar, help_text in (
        (
            "--until",
            "TEST",
            "run the tests of the shard up to this one (its id, or a unique part of it)",
        ),
        (
            "--for",
            "TIME",
            "start no test after this time (90s, 15m, 1h) since the start of the step",
        ),
    ):
        parser.add_argument(name, metavar=metavar, help=help_text)
    for name, help_text in (
        (
            "--resume-from",
            "DIR holds records of earlier attempts; run only tests without a result there",
        ),
        (
            "--continue",
            "DIR holds records of earlier steps; run only tests without a result there",
        ),
        ("--results", "JUnit or TRX files that a command writes, such as reports/**/*.xml"),
    ):
        metavar = "GLOB" if name == "--results" else "DIR"
        parser.add_argument(name, metavar=metavar, action="append", default=[], help=help_text)
    for name, help_text in (
        (
            "--unless-ended",
            "with --resume-from: resume only if the last attempt did not end by itself; "
            "otherwise run the whole shard again",
        ),
        ("--github", "set the output `state` of the step; end with 0 at a checkpoint"),
    ):
        parser.add_argument(name, action="store_true", help=help_text)
    return parser


def format_help() -> str:
    """What `--help` prints."""
    return _parser().format_help()


def split_at_separator(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Our words, and the command after `--`, whose words are its own."""
    words = list(arguments)
    if "--" not in words:
        return words, []
    place = words.index("--")
    return words[:place], words[place + 1 :]


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Read our words, by option: `plan`, `shard`, `record` and those of `selection_of`.

    Raises:
        UsageError: an option that there is not; before argparse misses the one that was meant.
        SystemExit: anything else that argparse does not like, said on stderr; or `--help`.
    """
    parser = _parser()
    options = "--continue --for --github --help --plan --record --results --resume-from"
    known = [*options.split(), "--shard", "--unless-ended", "--until"]
    for word in arguments:
        name = word.partition("=")[0]
        if name.startswith("--") and name not in known:
            # Without the dashes, which make any two options look alike.
            close = get_close_matches(name[2:], [option[2:] for option in known], n=1)
            fix = f"did you mean --{close[0]}?" if close else f"there are {', '.join(known)}"
            raise UsageError(f"no option {name!r}", fix=fix)
    return parser.parse_args(arguments)


def selection_of(options: argparse.Namespace) -> Selection:
    """What our words say of the shard's units.

    Raises:
        UsageError: words that contradict each other, or are empty, or a time that is none.
    """
    given = vars(options)
    until, resumed, continued = (given[name] for name in ("until", "resume_from", "continue"))
    named = (("--until", [until]), ("--resume-from", resumed), ("--continue", continued))
    for word, values in named:
        if "" in values:
            fix = "is a variable of the shell not set? Leave the option out to run the whole shard"
            raise UsageError(f"{word} is empty", fix=fix)
    words = [word for word, value in (("--until", until), ("--resume-from", resumed)) if value]
    if continued:
        words.append("--continue")
    if len(words) > 1:
        raise UsageError(f"{' and '.join(words)} exclude each other", fix="remove one of them")
    if given["unless_ended"] and not resumed:
        fix = "pass --resume-from DIR as well, or remove --unless-ended"
        raise UsageError("--unless-ended is valid only with --resume-from", fix=fix)
    return Selection(
        until=until or "",
        earlier=(*resumed, *continued),
        continues_attempt=bool(continued),
        unless_ended=given["unless_ended"],
        step_limit_s=None if given["for"] is None else seconds(given["for"], where="--for"),
    )


def seconds(text: str, *, where: str) -> float:
    """900 for "15m". Raises UsageError for what is no time, or none at all."""
    with contextlib.suppress(ValueError):
        length_s = parse_seconds(text)
        if length_s > 0:
            return length_s
    raise UsageError(f"no time: {text!r}", where=where, fix="pass one like 90s, 15m or 1h30m")
