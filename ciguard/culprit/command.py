"""The command `ciguard culprit`: find the commit since which tests fail or need more."""

from __future__ import annotations

import re
import signal
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import click

from ciguard import console
from ciguard.codec.inventory_file import InventoryUnit, resolve_suites
from ciguard.compare.json import read_comparison
from ciguard.config.file import Config
from ciguard.config.invocation import Invocation
from ciguard.config.options import HISTORY, OUTPUT, format_option, parse_budget
from ciguard.config.suites import suites_of
from ciguard.culprit.answer import json_text, read_answer
from ciguard.culprit.progress import Progress
from ciguard.culprit.search import Measure
from ciguard.culprit.subjects import (
    Range,
    range_of_comparison,
    range_of_history,
    subject_in_history,
)
from ciguard.culprit.view import document
from ciguard.culprit.work import Work, open_journal, search_folder
from ciguard.errors import CiguardError, ExitCode, UsageError
from ciguard.experiment import commit_test
from ciguard.experiment.process import Interrupted, LegRunner, SignalGuard, now_s
from ciguard.git.checkout import Checkout
from ciguard.github.events import current_run
from ciguard.history.file import empty
from ciguard.history.stores import ReadableStore, load, open_store
from ciguard.model import UnitKey
from ciguard.render.formats import as_format
from ciguard.report.publish import publish_culprits
from ciguard.sources import local

# A test as reports name it: its suite and variant are only written where there are several.
_NAME: Final = re.compile(r"(?:\[([^]/]+)(?:/([^]]+))?\] )?(.+)", re.DOTALL)


@click.command()
@click.argument("tests", metavar="[TEST]...", nargs=-1)
@click.option("--good", metavar="COMMIT", help="Commit where the tests were good.")
@click.option(
    "--bad", metavar="COMMIT", help="Later commit where the tests are bad (default: HEAD)."
)
@click.option(
    "--comparison",
    metavar="FILE",
    help="JSON of `ciguard compare`, instead of TEST and commits.",
)
@click.option(
    "--measure",
    type=click.Choice(["failure", "memory", "duration"]),
    default="failure",
    show_default=True,
    help="Measure that got worse.",
)
@click.option("--budget", metavar="TIME", default="20m", show_default=True, help="Time limit.")
@click.option(
    "--confidence",
    metavar="P",
    type=click.FloatRange(0.5, 0.999),
    default=0.95,
    show_default=True,
    help="Probability from which a commit is named.",
)
@click.option(
    "--publish", metavar="FILE", help="Only write this answer (JSON) into the base branch's issue."
)
@HISTORY
@format_option("text", "markdown", "json")
@OUTPUT
@click.pass_obj
def command(
    invocation: Invocation,
    /,
    *,
    tests: tuple[str, ...],
    good: str | None,
    bad: str | None,
    comparison: str | None,
    measure: Measure,
    budget: str,
    confidence: float,
    publish: str | None,
    history: str | None,
    format_: str,
    output: str | None,
) -> int:
    """Find the commit since which tests fail, or need more time or memory.

    Without --good, the history names the range. Tests run in worktrees that `experiment.setup`
    prepares.
    """
    if publish is not None:
        answer = read_answer(local.read(invocation.folder / publish), publish)
        console.out(publish_culprits(invocation.environ, document(answer)))
        return ExitCode.OK
    config, until_s = invocation.config(), now_s() + parse_budget(budget)
    repository = Checkout(invocation.folder, invocation.environ)
    if comparison is not None:
        if tests or good or bad:
            raise UsageError("--comparison, and tests or commits", fix="pass one of them")
        content = local.read(invocation.folder / comparison)
        searched = range_of_comparison(read_comparison(content, comparison))
        named = (subject.key for subject in searched.subjects)
        units = [InventoryUnit(key.unit, key.suite, key.variant) for key in named]
        keys = [unit.key for unit in resolve_suites(units, suites_of(config), "--comparison")]
    else:
        keys = _resolve(tests, config)
        location = history or config.history.store
        store = open_store(location, invocation.folder, invocation.environ)
        searched = _range(invocation, store, keys, measure, (good, bad))
    ends = repository.commit(searched.good), repository.commit(searched.bad)
    commits = repository.merged_commits(*ends)
    if not commits:
        raise UsageError("the range has no commit", where=f"{ends[0]:.10}..{ends[1]:.10}")
    shas = [ends[0], *(sha for sha, _ in commits)]
    progress = Progress(shas, searched.subjects, confidence)
    # What a try depends on: another search may have other results.
    plan = commit_test.plan_of(keys, suites_of(config)).decode()
    measures = (subject.measure for subject in searched.subjects)
    names = (*ends, plan, *measures, f"{config.experiment}")
    folder = search_folder(repository.root(), repository.prefix(), *names)
    stopped_by = 0
    journal, lines = open_journal(folder)
    for line in lines:
        progress.add(line)
    with journal, SignalGuard() as stopping:
        records = Path(tempfile.mkdtemp(prefix="records-", dir=folder))
        legs = LegRunner(stopping, records, until_s)
        where = folder, journal, repository
        work = Work(invocation, config, *where, progress, stopping, legs)
        try:
            stopped = work.search()
        except Interrupted as error:
            stopped, stopped_by = "interrupted", error.number
    answer = progress.answer(dict(commits), stopped)
    blocks = document(answer)
    text = json_text(answer) if format_ == "json" else as_format(blocks, format_)
    if output is None or output == "-":
        console.out(text.rstrip("\n"))
    else:
        local.write(invocation.folder / output, text.encode("utf-8", "backslashreplace"))
        console.out(as_format(blocks[:1], "text").rstrip("\n"))
    if not stopped:
        work.remove()
    if stopped_by:
        is_interrupt = stopped_by == signal.SIGINT
        return ExitCode.INTERRUPTED if is_interrupt else ExitCode.TERMINATED
    return ExitCode.OK


def _resolve(tests: Sequence[str], config: Config) -> list[UnitKey]:
    if not tests:
        raise UsageError("no test", fix="name a test, or pass --comparison FILE")
    named = (_NAME.fullmatch(name) for name in dict.fromkeys(tests))
    units = [InventoryUnit(it[3], it[1] or "", it[2] or "") for it in named if it is not None]
    return [unit.key for unit in resolve_suites(units, suites_of(config), "TEST")]


def _range(
    invocation: Invocation,
    store: ReadableStore,
    keys: Sequence[UnitKey],
    measure: Measure,
    ends: tuple[str | None, str | None],
) -> Range:
    """Return the range by its options, with rates of the history, or the range of the history."""
    run = current_run(invocation.environ)
    branch = run.base_branch if run is not None else None
    good, bad = ends
    if good is None and bad is not None:
        raise UsageError("--bad without --good", fix="pass both, or none")
    try:
        history = load(store).history
    except CiguardError as error:
        if good is None:
            raise
        console.err(f"warning: searched without past rates of failure: {error}")
        history = empty()
    if good is None:
        return range_of_history(history, branch, keys, measure)
    found = (subject_in_history(history, branch, key, measure)[0] for key in keys)
    return Range(good, bad or "HEAD", tuple(found))
