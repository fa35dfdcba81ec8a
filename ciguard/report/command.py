"""`ciguard report`: guard and compare, told once: on stdout, in the summary, in the comment."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Final

import click
from pydantic import SecretStr

from ciguard import console, files
from ciguard.codec.placing import HELP
from ciguard.compare.around import Around
from ciguard.compare.as_json import as_json
from ciguard.compare.comparing import compare_run
from ciguard.compare.confirmed import read_confirmed, updated
from ciguard.compare.failing import exit_code
from ciguard.compare.lineage import base_commit
from ciguard.compare.records import runs_of
from ciguard.configured import configured_suites
from ciguard.errors import CiguardError, ExitCode, InputError
from ciguard.github.client import GitHub
from ciguard.github.commands import annotation, outputs
from ciguard.github.payload import current_run
from ciguard.github.previous import artifact_name, previous_values
from ciguard.guard import needs as jobs_needed
from ciguard.guard.annotations import annotations_of, outputs_of
from ciguard.guard.asking import ask
from ciguard.guard.existing import existing
from ciguard.guard.proof import prove
from ciguard.guard.refused import refused
from ciguard.history.carriers import load, open_carrier, unusable
from ciguard.lookup.fetched import RUN, Sources, fetched
from ciguard.lookup.records import Lookup
from ciguard.report.answer import NOT_JUDGED, Answer
from ciguard.report.contents import Contents, Judging, excuses_of
from ciguard.report.markdown import Limit, octets
from ciguard.report.page import html
from ciguard.report.site import Site, site_of, site_of_named
from ciguard.report.telling import tell
from ciguard.report.values import values_of, worth_keeping
from ciguard.repository.lineages import lineage_of
from ciguard.repository.policies import applied

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ciguard.codec.history import History
    from ciguard.compare.changes import Excuse
    from ciguard.compare.comparison import Comparison
    from ciguard.compare.confirmed import Confirmed
    from ciguard.compare.runs import Run
    from ciguard.github.events import ActionsRun
    from ciguard.github.judged import JudgedRun
    from ciguard.guard.asking import Platform
    from ciguard.guard.needs import Job
    from ciguard.invocation import Invocation
    from ciguard.model import CaseKey, Plan, Record

SUMMARY: Final = Limit(1024 * 1024 - 4096, octets)  # GitHub takes 1 MiB a step, with the notes
NO_PAST: Final = "the run is judged without past runs"
NOT_CONFIRMED: Final = (
    "Nothing could be confirmed: the run of this pull request before this one is not to be had "
    "({why})."
)

OWN_CONFIRMATION: Final = (
    "What was run again was run by the judged run itself: it is its own claim."
)


@click.command()
@click.option("--plan", "plan_path", metavar="FILE", help="The plan of the run.")
@click.option("--records", metavar="DIR", help="All records, in any folders.")
@click.option("--run", "run", metavar="ID|URL", help=RUN)
@click.option("--repo", metavar="OWNER/NAME", default="", help="Whose run; else origin's.")
@click.option("--results", metavar="GLOB", multiple=True, help=HELP)
@click.option(
    "--needs", metavar="JSON", help="GitHub's toJSON(needs): the text, a file that holds it, or -."
)
@click.option(
    "--history",
    "place",
    metavar="FILE|branch:NAME",
    help="Past runs to compare with; else as configured.",
)
@click.option(
    "--forgive",
    type=click.Choice(["none", "base"]),
    help="base: what fails on the base too does not fail a pull request.",
)
@click.option("--comment", "comments", is_flag=True, help="Keep one comment on the pull request.")
@click.option("--check", "checks", is_flag=True, help="Add a check with annotations.")
@click.option("--issue", "issues", is_flag=True, help="Keep one issue while the base is red.")
@click.option("--html", "page", metavar="FILE", help="Write all of it as one page.")
@click.option("--comparison", metavar="FILE", help="Write the comparison, as compare does as JSON.")
@click.option(
    "--confirmation", metavar="FILE", help="What `ciguard experiment` said of suspects, as JSON."
)
@click.option("--values", metavar="FILE", help="Write what this pull request's next run needs.")
@click.option("--github", is_flag=True, help="Write the job's summary, annotations, outputs.")
@click.option(
    "--format",
    "shape",
    type=click.Choice(["markdown", "html"]),
    default="markdown",
    help="Of what is printed. JSON: --comparison here, and `ciguard guard --format json`.",
)
@click.option("-o", "--output", metavar="FILE", help="Write it there, and print the verdict only.")
@click.pass_obj
def command(
    invocation: Invocation,
    /,
    *,
    plan_path: str | None,
    records: str | None,
    run: str | None,
    repo: str,
    results: tuple[str, ...],
    needs: str | None,
    place: str | None,
    forgive: str | None,
    comments: bool,
    checks: bool,
    issues: bool,
    page: str | None,
    comparison: str | None,
    confirmation: str | None,
    values: str | None,
    github: bool,
    shape: str,
    output: str | None,
) -> int:
    """Guard a run, compare it with the history, and say so once.

    Ends as `guard` does; where that is 0, as `compare` with the policy's fail_on.
    """
    sources = Sources(plan_path, records, results, run, repo)
    try:
        past = _Past(invocation, place, github=github)
        answer = _answer(
            *(invocation, sources, past),
            place=place,
            needs=needs,
            forgive=forgive,
            confirmation=confirmation,
        )
    except CiguardError as error:
        if not (comments or checks or issues) or current_run(invocation.environ) is None:
            raise
        # What an earlier push left there must not stay green.
        console.err(f"ciguard report: {error}")
        answer = Answer(None, int(error.exit_code), _in_words(error), lacking=NOT_JUDGED)
    text = answer.text(SUMMARY)
    told_as = {"markdown": text}
    if page is not None or shape == "html":
        told_as["html"] = html(
            answer.contents, answer.records, headline=answer.headline, why=answer.why
        )
    is_kept = output not in {None, "-"}
    console.out(answer.headlines if is_kept else told_as[shape])
    for path, form in ((output if is_kept else None, shape), (page, "html")):
        if path is not None:
            files.write(invocation.folder / path, told_as[form].encode("utf-8", "replace"))
    told = tell(invocation.environ, answer, comment=comments, check=checks, issue=issues)
    for line in (*told.done, *told.notes):
        console.err(line)
    more = {
        "values_artifact": _keep_values(invocation, answer, values) if values is not None else "",
        "suspects": _keep_comparison(invocation, answer, comparison) if comparison else "",
    }
    if github:
        _write_summary(invocation, "\n\n".join([text.rstrip(), *told.notes]) + "\n")
        if answer.contents is not None:
            _annotate(invocation, answer.contents, more)
    return answer.exit_code or told.exit_code


class _Past:
    """The history, read once, when somebody asks. One out of reach does not hide the verdict."""

    def __init__(self, invocation: Invocation, place: str | None, *, github: bool) -> None:
        self._invocation, self._github = invocation, github
        self._where = place if place is not None else invocation.config().history.carrier

    @cached_property
    def found(self) -> tuple[History | None, str]:
        """The history; else None and why."""
        where = self._where
        try:
            loaded = load(open_carrier(where, self._invocation.folder, self._invocation.environ))
        except CiguardError as error:
            why = unusable(where, error, NO_PAST)
            return None, self._told(why, annotated=True)
        if not loaded.found:
            return None, self._told(f"there is no history at {where} yet: {NO_PAST}")
        return loaded.history, ""

    def at(self, where: str) -> History | None:
        """The history of that place, which is another one where a proposal changes it."""
        other = _Past(self._invocation, where, github=self._github)
        return (self if where == self._where else other).found[0]

    def _told(self, why: str, *, annotated: bool = False) -> str:
        if annotated and self._github:
            console.tell_runner(annotation("warning", why, title="ciguard report"))
        else:
            console.err(f"warning: {why}")
        return why


def _answer(
    invocation: Invocation,
    sources: Sources,
    past: _Past,
    *,
    place: str | None,
    needs: str | None,
    forgive: str | None,
    confirmation: str | None,
) -> Answer:
    confirmed = _confirmed(invocation, confirmation) if confirmation is not None else None
    note = ""
    said = files.read_argument(invocation.folder, "--needs", needs) if needs is not None else None
    jobs = None if said is None else jobs_needed.decode(*said)
    with fetched(invocation, sources) as told:
        plan, arrived = told.plan, told.arrived
        if isinstance(plan, InputError):
            if jobs is None and sources.run is None:
                raise plan
            # The job that plans failed: the run is not judged, and its comment must not stay green.
            console.err(f"ciguard report: {plan}")
            return Answer(None, ExitCode.INCOMPLETE, _in_words(plan, jobs or ()))
        if arrived.missing:
            console.err(f"warning: {arrived.missing}")
        others = existing(plan, arrived.results)
        found = [*arrived.records, *others.records]
        platform = ask(plan, found, None if sources.results else told.asked)
        if confirmed is None:
            confirmed, note = _own_confirmation(told.asked)
    now = configured_suites(invocation.config()) if plan.policy.remainder else None
    judged = applied(invocation, forgive, past.at, place=place, count=True)
    verdict = prove(
        plan,
        found,
        jobs,
        configured=now,
        platform=platform,
        policy=judged.policy,
        also=(*refused(arrived.problems), *others.findings),
    )
    comparison, why = _compare(invocation, plan, found, past, excuses_of(verdict))
    if comparison is not None and confirmed is not None:
        comparison = updated(comparison, confirmed)
    if comparison is not None and note:
        comparison = replace(comparison, notes=(*comparison.notes, note))
    code = int(verdict.exit_code)
    if not code and comparison is not None:
        code = exit_code(comparison, judged.fail_on)
    run = current_run(invocation.environ)
    contents = Contents(
        plan,
        verdict,
        comparison,
        why,
        site=_site(run, told.asked, platform),
        judging=Judging(judged.source, judged.fail_on, judged.footer),
        claim=run is not None and run.judges_fork,
    )
    return Answer(contents, code, records=tuple(found))


def _in_words(error: CiguardError, jobs: Sequence[Job] = ()) -> str:
    """An error as a sentence of a comment, with what the jobs before came to."""
    where = f"{error.where}: " if error.where else ""
    bad = ", ".join(f"job {job.name} is {job.result!r}" for job in jobs if job.result != "success")
    parts = [f"{where}{error.what}", bad, f"Fix: {error.fix}" if error.fix else ""]
    return ". ".join(part for part in parts if part) + "."


def _site(run: ActionsRun | None, asked: JudgedRun | None, platform: Platform | None) -> Site:
    around = run.told_run if run is not None else None
    if asked is not None and asked.page and (around is None or around[0] != asked.run_id):
        return site_of_named(asked.page, asked.run_id, asked.run_attempt, platform)
    return site_of(run, platform) if run is not None else Site("")


def _compare(
    invocation: Invocation,
    plan: Plan,
    records: Sequence[Record],
    past: _Past,
    excused: Mapping[CaseKey, Excuse],
) -> tuple[Comparison | None, str]:
    """Against the history; else None and why."""
    candidates = runs_of(_of_plan(plan, records), "this run")
    if not candidates:
        return None, "no leg left a record"
    history, why = past.found
    if history is None:
        return None, why
    run = current_run(invocation.environ)
    head = candidates[-1]
    around = replace(_around(invocation, head, history, plan, run), excused=excused)
    again = candidates[-2] if len(candidates) > 1 else None
    found = compare_run(head, history, previous=again, plan=plan, around=around)
    if again is not None or run is None or not found.can_be_confirmed:
        return found, ""
    earlier, note = _earlier(invocation, run)
    if earlier is not None:
        found = compare_run(head, history, previous=earlier, plan=plan, around=around)
    return (replace(found, notes=(*found.notes, note)) if note else found), ""


def _around(
    invocation: Invocation, head: Run, history: History, plan: Plan, run: ActionsRun | None
) -> Around:
    commits = [one.sha for one in history.runs if one.sha]
    lookup = Lookup(invocation.environ, invocation.folder, None)
    prices = {name: pool.usd_per_minute for name, pool in plan.pools.items()}
    return Around(
        branch=run.base_branch if run is not None else None,
        lineage=lineage_of(
            *(invocation.folder, invocation.environ, base_commit(head), commits, lookup.asker())
        ),
        prices={name: price for name, price in prices.items() if price is not None},
    )


def _earlier(invocation: Invocation, run: ActionsRun) -> tuple[Run | None, str]:
    """The run of this pull request before this one, which may confirm it; else why not."""
    token = invocation.environ.get("GITHUB_TOKEN") or invocation.environ.get("GH_TOKEN") or ""
    judged = run.judged_run_id or run.run_id
    if judged is None or not token:
        return None, ""
    try:
        with GitHub(run.api_url, SecretStr(token)) as github:
            found = previous_values(github, run, judged)
    except CiguardError as error:
        console.err(f"warning: the run before this one: {error}")
        return None, NOT_CONFIRMED.format(why=error.what)
    if found is None:
        return None, ""
    runs = runs_of(found.records, f"run {found.run_id}")
    return (runs[-1] if runs else None), ""


def _keep_values(invocation: Invocation, answer: Answer, path: str) -> str:
    """Write what the next run of the pull request needs; what its artifact is called, else ""."""
    run, contents = current_run(invocation.environ), answer.contents
    # Whoever judges another run leaves it to that one: its successor looks there.
    if run is None or run.judged_run_id is not None or contents is None:
        return ""
    name = artifact_name(run)
    if not name or not worth_keeping(contents.verdict):
        return ""
    ours = _of_plan(contents.plan, answer.records)
    files.write(invocation.folder / path, values_of(ours))
    return name


def _confirmed(invocation: Invocation, path: str) -> Confirmed:
    return read_confirmed(files.read(invocation.folder / path), path)


def _own_confirmation(asked: JudgedRun | None) -> tuple[Confirmed | None, str]:
    """What a run that is named ran again by itself, and whose word that is; else why not.

    It is as much its own claim as its records are: whoever made those up could make up this.
    """
    if asked is None or asked.artifacts is None:
        return None, ""
    try:
        found = asked.artifacts.confirmation()
        return (read_confirmed(*found), OWN_CONFIRMATION) if found is not None else (None, "")
    except CiguardError as error:
        console.err(f"warning: {error}")
        return None, f"Suspects were run again, and what came of it cannot be read: {error.what}."


def _keep_comparison(invocation: Invocation, answer: Answer, path: str) -> str:
    """Write it as JSON; how many suspects are worth running again, "" for none."""
    found = answer.contents.comparison if answer.contents is not None else None
    if found is None:
        return ""
    content = json.dumps(as_json(found), indent=2, allow_nan=False) + "\n"
    files.write(invocation.folder / path, content.encode("utf-8", "backslashreplace"))
    suspects = sum(len(one.of_tier("suspect")) for one in (found.memory, found.durations))
    return str(suspects) if suspects else ""


def _of_plan(plan: Plan, records: Sequence[Record]) -> list[Record]:
    return [one for one in records if one.header is not None and one.header.plan_id == plan.id]


def _write_summary(invocation: Invocation, text: str) -> None:
    target = invocation.environ.get("GITHUB_STEP_SUMMARY")
    if target:
        files.append(target, text)


def _annotate(invocation: Invocation, contents: Contents, more: Mapping[str, str]) -> None:
    for one in annotations_of(contents.verdict, contents.plan.suites):
        # The runner reads commands from both streams; stdout stays the answer.
        spelled = annotation(one.level, one.message, file=one.file, line=one.line, title=one.title)
        console.tell_runner(spelled)
    files.append_output(invocation.environ, outputs({**outputs_of(contents.verdict), **more}))
