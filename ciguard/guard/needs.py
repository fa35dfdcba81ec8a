"""What GitHub says of the jobs before this one: `toJSON(needs)`. Pure.

A matrix is one job there. `continue-on-error` shows as success, a skipped or cancelled leg may show
as either: so it can only make a verdict worse, never better.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ciguard.errors import InputError
from ciguard.guard.verdict import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from collections.abc import Set as AbstractSet


LEGS: Final = "legs"  # likewise: of all jobs, what failed in the records is a reason for it alone
PLANNING: Final = "plan"  # the job that `init` writes: no record of a test explains its failure


@dataclass(frozen=True, slots=True)
class NeededJob:
    """A job that this one needed; `result` in GitHub's words."""

    name: str
    result: str


def decode(text: str | bytes, source: str = "--needs") -> tuple[NeededJob, ...]:
    """Read `toJSON(needs)`.

    Raises:
        InputError: it is no JSON object of objects.
    """
    fix = 'pass GitHub\'s own: NEEDS: ${{ toJSON(needs) }} in env, then --needs "$NEEDS"'
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"no JSON: {error}", where=source, fix=fix) from None
    if not isinstance(found, dict):
        raise InputError(f"expected an object, found {found!r:.60}", where=source, fix=fix)
    jobs = []
    for name, job in sorted(found.items()):
        if not isinstance(job, dict):
            what = f"expected an object with a result, found {job!r:.60}"
            raise InputError(what, where=f"{source}: {name}", fix=fix)
        result = job.get("result", "no result")
        # What is not a word is no result that anybody knows: judged below, and not passed.
        jobs.append(NeededJob(name, result if isinstance(result, str) else f"{result}"))
    return tuple(jobs)


def check_needs(
    jobs: Sequence[NeededJob],
    *,
    is_explained: bool,
    is_excused: bool = False,
    names: AbstractSet[str] = frozenset(),
) -> Iterator[Finding]:
    """Judge the jobs.

    Args:
        explained: the records hold a reason for a job to fail.
        excused: and that reason does not fail the run.
        names: as the records call the job of their legs.
    """
    if not jobs:
        what = "`needs` names no job, so how the jobs of the legs ended is not known from it"
        fix = "give this job `needs:` with the jobs of plan and legs, or leave --needs out"
        yield Finding("warning", "needs_empty", what, fix=fix)
    legs = {job.name for job in jobs} & {LEGS, *names}
    red = {job.name for job in jobs if job.result == "failure" and job.name != PLANNING}
    if not legs and len(red) == 1:
        legs = red  # nobody says which one it is, and no other needs an excuse
    for job in jobs:
        what = f"job {job.name} is {job.result!r}"
        if job.result == "success":
            continue
        if job.result == "failure" and is_excused and job.name in legs:
            what += ": its failed tests do not fail the run"
            yield Finding("warning", "job_failed", what)
        elif job.result == "failure" and is_explained and not is_excused and job.name != PLANNING:
            yield Finding("failed", "job_failed", what, fix="see the failed tests")
        elif job.result == "failure":
            what += ", and no record says why"
            yield Finding("incomplete", "job_failed", what, fix="look at its log")
        elif job.result in ("cancelled", "skipped"):
            fix = "look at its log, and run it again"
            yield Finding("incomplete", f"job_{job.result}", what, fix=fix)
        else:
            what += ": a word that this version does not know"
            yield Finding("incomplete", "job_unknown", what, fix="update ciguard")
