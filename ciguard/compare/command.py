"""`ciguard compare`: finds both runs and the history, compares, prints."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final

import click

from ciguard import console, files
from ciguard.compare import failing
from ciguard.compare.as_json import as_json
from ciguard.compare.comparing import compare_run
from ciguard.compare.records import runs_of
from ciguard.compare.runs import of_history
from ciguard.compare.text import render
from ciguard.errors import InputError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ciguard.codec.history import History
    from ciguard.compare.comparison import Comparison
    from ciguard.compare.runs import Run
    from ciguard.invocation import Invocation

ROWS: Final = 200  # of a table in Markdown; the HTML has all
NEWEST: Final = 10  # run ids in a fix
_RUN_ID: Final = re.compile(r"(\d+)(?:/(\d+))?")


def _as_text_of_json(comparison: Comparison) -> str:
    return json.dumps(as_json(comparison), indent=2, allow_nan=False) + "\n"


def _template(name: str) -> Callable[[Comparison], str]:
    def rendered(comparison: Comparison) -> str:
        # Imported here: text and JSON need not pay for Jinja.
        from ciguard.rendering import environment  # noqa: PLC0415

        return environment().get_template(name).render(comparison=comparison, rows=ROWS)

    return rendered


FORMATS: Final[Mapping[str, Callable[[Comparison], str]]] = {
    "text": render,
    "markdown": _template("comparison.md.j2"),
    "json": _as_text_of_json,
    "html": _template("comparison.html.j2"),
}


@click.command()
@click.argument("base")
@click.argument("head")
@click.option("--history", "place", metavar="FILE|branch:NAME", help="Past runs: the baseline.")
@click.option("--format", "shape", type=click.Choice(list(FORMATS)), default="text")
@click.option("-o", "--output", metavar="FILE", help="Write it there, not to standard output.")
@click.option(
    "--fail-on", metavar="LIST", default="", help=f"Of {', '.join(failing.WORDS)}; comma-separated."
)
@click.option("--strict", is_flag=True, help="End with 12 where nothing could be judged.")
@click.pass_obj
def command(
    invocation: Invocation,
    /,
    *,
    base: str,
    head: str,
    place: str | None,
    shape: str,
    output: str | None,
    fail_on: str,
    strict: bool,
) -> int:
    """Compare two runs: record folders, record files, or run ids of the history.

    Ends with 0 whatever it finds, unless --fail-on or --strict says otherwise: 10 new failures,
    timeouts, out of memory; 11 confirmed regressions; 12 inconclusive; 13 incomplete.
    """
    words = _fail_on(fail_on)
    history = _history(invocation, place) if place is not None else None
    if history is None and place is not None:
        console.err(f"warning: {place}: there is no history yet")
    bases = _runs(invocation, base, history, "BASE")
    heads = _runs(invocation, head, history, "HEAD")
    comparison = compare_run(
        heads[-1], history, bases, previous=heads[-2] if len(heads) > 1 else None
    )
    answer = FORMATS[shape](comparison)
    if output is None:
        console.out(answer)
    else:
        target = output if output == "-" else invocation.folder / output
        files.write(target, answer.encode("utf-8", "backslashreplace"))
    return failing.exit_code(comparison, words, strict=strict)


def _fail_on(text: str) -> frozenset[str]:
    words = [word.strip() for word in text.split(",") if word.strip()]
    unknown = [word for word in words if word not in failing.WORDS]
    if unknown:
        what = f"no such finding: {', '.join(unknown)}"
        raise UsageError(what, where="--fail-on", fix=f"there are {', '.join(failing.WORDS)}")
    return frozenset(words)


def _history(invocation: Invocation, place: str) -> History | None:
    # Imported here: without a history, nobody pays for its carriers.
    from ciguard.history.carriers import load, open_carrier  # noqa: PLC0415

    loaded = load(open_carrier(place, invocation.folder, invocation.environ))
    return loaded.history if loaded.found else None


def _runs(invocation: Invocation, word: str, history: History | None, side: str) -> tuple[Run, ...]:
    """The runs that an argument names, oldest first, at least one."""
    path = invocation.folder / word
    match = _RUN_ID.fullmatch(word)
    if match and not path.exists():
        return (_of_history(word, int(match[1]), match[2], history, side),)
    runs = runs_of(files.read_record_tree(path), word)
    if not runs:
        fix = "name a folder of records, or a run id with --history"
        raise InputError("no record is there", where=f"{side}: {word}", fix=fix)
    return runs


def _of_history(
    word: str, run_id: int, attempt: str | None, history: History | None, side: str
) -> Run:
    where = f"{side}: {word}"
    if history is None:
        fix = "name one that is there by --history FILE or branch:NAME, or a folder of records"
        what = "a run id is looked up in a history, and there is none"
        raise UsageError(what, where=where, fix=fix)
    for position, run in enumerate(history.runs):
        if run.run_id != run_id:
            continue
        if attempt is not None and run.run_attempt != int(attempt):
            what = f"the history knows attempt {run.run_attempt} of this run only"
            raise InputError(what, where=where, fix=f"ask for {run_id}/{run.run_attempt}")
        return of_history(history, position, word)
    raise InputError("no such run in the history", where=where, fix=_known(history))


def _known(history: History) -> str:
    ids = [str(run.run_id) for run in history.runs]
    if len(ids) > NEWEST:
        return f"the newest are {', '.join(ids[-NEWEST:])}"
    if len(ids) > 1:
        return f"there are runs {', '.join(ids[:-1])} and {ids[-1]}"
    return f"there is run {ids[0]}" if ids else "it is empty: add a run first"
