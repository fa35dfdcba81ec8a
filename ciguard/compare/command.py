"""`ciguard compare`: finds both runs and the history, compares, prints."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import click

from ciguard import console, files
from ciguard.codec.quarantine import FILE as QUARANTINE
from ciguard.compare import failing
from ciguard.compare.around import Around
from ciguard.compare.as_json import as_json
from ciguard.compare.comparing import compare_run
from ciguard.compare.lineage import base_commit
from ciguard.compare.records import runs_of
from ciguard.compare.scatter import scatter
from ciguard.compare.sides import joined, newest_of_branch, run_of_history
from ciguard.compare.text import render
from ciguard.compare.transitions import quarantined
from ciguard.errors import CiguardError, InputError, UsageError
from ciguard.lookup.records import Lookup, Recorded
from ciguard.lookup.references import Base, Branch, Place, Reference, RunId, This, parse
from ciguard.repository.lineages import lineage_of
from ciguard.text import tidied

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from ciguard.codec.history import History
    from ciguard.compare.changes import Excuse
    from ciguard.compare.comparison import Comparison
    from ciguard.compare.runs import Run
    from ciguard.invocation import Invocation
    from ciguard.model import CaseKey
    from ciguard.model.jobs import Job

CONFIGURED: Final = ("ciguard.toml", "pyproject.toml")
CARRIER: Final = "CIGUARD_HISTORY_CARRIER"
ALONE: Final = "the two runs are compared without past runs"
ROWS: Final = 200  # of a table in Markdown


def _as_text_of_json(comparison: Comparison) -> str:
    return json.dumps(as_json(comparison), indent=2, allow_nan=False) + "\n"


def _markdown(comparison: Comparison) -> str:
    # Imported here, as below: text and JSON need not pay for Jinja.
    from ciguard.rendering import environment  # noqa: PLC0415

    template = environment().get_template("comparison.md.j2")
    return tidied(template.render(comparison=comparison, rows=ROWS))


def _html(comparison: Comparison) -> str:
    from ciguard import rendering  # noqa: PLC0415

    return (
        rendering.environment()
        .get_template("comparison.html.j2")
        .render(
            comparison=comparison,
            scatter=scatter(comparison.pairs),
            rows=rendering.ROWS,
            **rendering.scripted(),
        )
    )


FORMATS: Final[Mapping[str, Callable[[Comparison], str]]] = {
    "text": render,
    "markdown": _markdown,
    "json": _as_text_of_json,
    "html": _html,
}


@click.command()
@click.argument("base")
@click.argument("head")
@click.option(
    "--history",
    "place",
    metavar="FILE|branch:NAME",
    help="Past runs: the baseline; else as configured.",
)
@click.option("--repo", "repository", metavar="OWNER/NAME", help="Of run ids; else the one around.")
@click.option("--format", "shape", type=click.Choice(list(FORMATS)), default="text")
@click.option("-o", "--output", metavar="FILE", help="Write it there, and print the verdict only.")
@click.option(
    "--fail-on", metavar="LIST", default="", help=f"Of {', '.join(failing.WORDS)}; comma-separated."
)
@click.option(
    "--strict", is_flag=True, help="End with 12 where memory or durations could not be judged."
)
@click.pass_obj
def command(
    invocation: Invocation,
    /,
    *,
    base: str,
    head: str,
    place: str | None,
    repository: str | None,
    shape: str,
    output: str | None,
    fail_on: str,
    strict: bool,
) -> int:
    """Compare two runs.

    BASE and HEAD are each a run id (123456, 123456/2) of the history or of GitHub, a run's address,
    a folder or file of a record, result files (JUnit XML, TRX; 'out/*.xml'), branch:NAME for the
    newest run of a branch, base (as BASE) for what the rule chooses, or this for the run around.

    Ends with 0 whatever it finds, unless --fail-on or --strict says otherwise: 10 new failures,
    timeouts, out of memory; 11 confirmed regressions; 12 inconclusive; 13 incomplete.
    """
    words = _fail_on(fail_on)
    history = _history(invocation, place) if place is not None else _configured(invocation)
    comparison = _compared(invocation, (base, head), history, repository)
    answer = FORMATS[shape](comparison)
    if output is None or output == "-":
        console.out(answer)
    else:
        files.write(invocation.folder / output, answer.encode("utf-8", "backslashreplace"))
        console.out(comparison.headline)
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
    if not loaded.found:
        console.err(f"warning: {place}: there is no history yet")
    return loaded.history if loaded.found else None


def _configured(invocation: Invocation) -> History | None:
    """The configuration's history. Nobody asked for it by name, so its absence is a note."""
    if not (_has_configuration(invocation) or invocation.environ.get(CARRIER)):
        return None
    from ciguard.history.carriers import load, open_carrier, unusable  # noqa: PLC0415

    config = invocation.config()
    if not config.model_fields_set and not (invocation.folder / CONFIGURED[0]).exists():
        return None  # a pyproject.toml that says nothing of us
    place = config.history.carrier
    try:
        loaded = load(open_carrier(place, invocation.folder, invocation.environ))
    except CiguardError as error:
        console.err(f"note: {unusable(place, error, ALONE)}")
        return None
    if not loaded.found:
        console.err(f"note: there is no history at {place} yet: {ALONE}")
    return loaded.history if loaded.found else None


def _has_configuration(invocation: Invocation) -> bool:
    return any((invocation.folder / name).exists() for name in CONFIGURED)


NOTHING_READ: Final = Recorded(())


@dataclass(frozen=True, slots=True)
class _Side:
    """The runs that an argument names, oldest first; none of `base`: then the rule chooses."""

    runs: tuple[Run, ...]
    recorded: Recorded = NOTHING_READ


def _compared(
    invocation: Invocation, words: tuple[str, str], history: History | None, repository: str | None
) -> Comparison:
    lookup = Lookup(invocation.environ, invocation.folder, repository)
    finding = _Finding(lookup, history)
    references = [
        parse(word, side, lookup.exists) for word, side in zip(words, ("BASE", "HEAD"), strict=True)
    ]
    if isinstance(references[1], Base):
        fix = "give the candidate: a run, a folder of records, or this"
        raise UsageError("base is what a candidate is held against", where="HEAD: base", fix=fix)
    head = finding.side(references[1], words[1], "HEAD")
    base = finding.side(references[0], words[0], "BASE", head.runs[-1])
    for side in (base, head):
        for problem in (*side.recorded.problems, *_damages(side.recorded)):
            console.err(f"warning: {problem}")
    bases, heads = base.runs, head.runs
    if base.recorded.foreign != head.recorded.foreign or history is not None:
        bases, heads = _joined(base, head, history, words)
    around = _around(
        invocation, lookup, heads[-1], history, (base.recorded.jobs, head.recorded.jobs)
    )
    return compare_run(
        heads[-1],
        history,
        bases,
        previous=heads[-2] if len(heads) > 1 else None,
        around=around,
    )


@dataclass(frozen=True, slots=True)
class _Finding:
    lookup: Lookup
    history: History | None

    def side(self, reference: Reference, word: str, side: str, head: Run | None = None) -> _Side:
        """Find what an argument names; `head` is the candidate, where the base is looked for."""
        where = f"{side}: {word}"
        if isinstance(reference, Place):
            return _read(self.lookup.on_disk(reference), word)
        if isinstance(reference, RunId):
            return self._run(reference, word, where)
        if isinstance(reference, This):
            current = self.lookup.current(where)
            run_id = current.judged_run_id or current.run_id or 0
            return _read(self.lookup.on_github(RunId(run_id), where), word)
        if isinstance(reference, Branch):
            return self._newest(reference.name, word, where, head)
        if self.history is not None:
            return _Side(())
        around = self.lookup.around()
        branch = around.base_branch if around is not None else None
        if branch is None:
            what = "base is chosen from a history, and there is none"
            fix = "--history FILE or branch:NAME; or name a run, or branch:NAME of GitHub's runs"
            raise UsageError(what, where=where, fix=fix)
        return self._newest(branch, word, where, head)

    def _run(self, reference: RunId, word: str, where: str) -> _Side:
        # An address says where the run is; a number is of the history first.
        if self.history is not None and not reference.server:
            run = run_of_history(self.history, reference, word, where, strict=not self._can_ask)
            if run is not None:
                return _Side((run,))
        if self.history is None and not reference.server and not self._can_ask:
            what = "a run id is looked up in a history or on GitHub, and there is neither"
            fix = (
                "--history FILE or branch:NAME; --repo OWNER/NAME with a GITHUB_TOKEN; or name a "
                "folder of records"
            )
            raise UsageError(what, where=where, fix=fix)
        return _read(self.lookup.on_github(reference, where), word)

    @property
    def _can_ask(self) -> bool:
        return self.lookup.can_ask

    def _newest(self, branch: str, word: str, where: str, head: Run | None) -> _Side:
        if self.history is not None:
            run = newest_of_branch(self.history, branch, head, word, where)
            return _Side((run,))
        found = self.lookup.newest_of(branch, where)
        return _read(self.lookup.on_github(found, where), word)


def _damages(recorded: Recorded) -> Iterator[str]:
    """What is wrong with records that can be read in part, the first of each."""
    for record in recorded.records:
        more = len(record.damage) - 1
        for damage in record.damage[:1]:
            yield f"{damage} and {more} more" if more else damage


def _read(recorded: Recorded, name: str) -> _Side:
    """What was recorded.

    Raises:
        InputError: nothing of it could be read: it is of no format, or empty.
    """
    said = [damage for record in recorded.records for damage in record.damage]
    # A leg that was killed at its start has its first line, and is an answer.
    known = (one.results or (one.header and not recorded.foreign) for one in recorded.records)
    if said and not any(known):
        fix = "name a folder of records, or files in JUnit XML or TRX"
        raise InputError(said[0], fix=fix)
    runs = runs_of(recorded.records, name)
    return _Side(runs, recorded)


def _joined(
    base: _Side, head: _Side, history: History | None, words: tuple[str, str]
) -> tuple[tuple[Run, ...], tuple[Run, ...]]:
    """Runs of result files, with the names that the other side and the history have for tests."""
    found = []
    for side, other, name in ((base, head, words[0]), (head, base, words[1])):
        if not side.recorded.foreign:
            found.append(side.runs)
            continue
        told, said = joined(
            side.recorded.records, () if other.recorded.foreign else other.runs, history
        )
        if said:
            console.err(f"{name}: {said}")
        found.append(runs_of(told, name))
    return found[0], found[1]


def _around(
    invocation: Invocation,
    lookup: Lookup,
    head: Run,
    history: History | None,
    jobs: tuple[tuple[Job, ...], tuple[Job, ...]],
) -> Around:
    folder, environ = invocation.folder, invocation.environ
    commits = [run.sha for run in history.runs if run.sha] if history is not None else []
    return Around(
        lineage=lineage_of(folder, environ, base_commit(head), commits, lookup.asker()),
        prices=_prices(invocation),
        jobs_before=jobs[0],
        jobs_after=jobs[1],
        excused=_quarantined(invocation, head),
    )


def _quarantined(invocation: Invocation, head: Run) -> Mapping[CaseKey, Excuse]:
    """Failures that are quarantined; none where the folder quarantines nothing."""
    if not (invocation.folder / QUARANTINE).is_file():
        return {}
    # Imported here: it reads the configuration of the base, with pydantic.
    from ciguard.repository.policies import quarantine_of  # noqa: PLC0415

    return quarantined(head, quarantine_of(invocation).entries)


def _prices(invocation: Invocation) -> Mapping[str, float]:
    """What a minute costs, by pool; nothing where nobody configured any."""
    if not _has_configuration(invocation):
        return {}
    # Imported here: pydantic costs 0.1 s that a folder without configuration need not pay.
    from ciguard.configured import prices_of  # noqa: PLC0415

    return prices_of(invocation.config())
