"""What stands around the legs: `needs`, the event, the policy, an API that refuses."""

from __future__ import annotations

from fakegithub.state import Fault
from guard import damages
from guard.cases.case import Case
from guard.damages import record_removed as nothing_left
from guard.fake_jobs import FAILED, SUPERSEDED, cancelled, failed
from guard.fixtures import SHARDS
from guard.test_result_files import junit


def quarantined(unit: str) -> str:
    """An entry that holds on any day on which it is looked at: the runner puts the date in."""
    return f'[[quarantine]]\nunit = "{unit}"\nreason = "late mail"\nissue = 4711\nuntil = UNTIL\n'


NEEDS = {
    "needs failure, and no record says why": Case(
        "incomplete", (), "job legs failed, but no record explains it", legs="failure"
    ),
    "needs cancelled": Case("incomplete", (), "job legs is 'cancelled'", legs="cancelled"),
    "needs skipped": Case("incomplete", (), "job legs is 'skipped'", legs="skipped"),
    "needs a word that nobody knows": Case(
        "incomplete", (), "job legs is 'neutral'", legs="neutral"
    ),
    "needs cancelled, and a test failed": Case(
        "incomplete", (damages.failed,), "job legs is 'cancelled'; 1 of 8 tests failed",
        legs="cancelled",
    ),
}  # fmt: skip

XML = {f"a/{shard}/r.xml": junit(units) for shard, units in SHARDS.items()}
CUT = {**XML, "a/02/r.xml": XML["a/02/r.xml"][:-30]}
RESULTS = ("--results", "a/{shard}/*.xml")

EVENTS = {
    "quarantine edited in the pull request": Case(
        "failed",
        (damages.failed,),
        "1 of 8 tests failed; this pull request changes quarantine.toml",
        shard="01",
        change={"quarantine.toml": quarantined("a.t::two")},
    ),
    "a pull request that changes no policy": Case("passed", change={"shop.py": ""}),
    "a fork's run": Case(
        "incomplete",
        (nothing_left,),
        "shard 03 of 3 has no record (superseded)",
        "superseded",
        jobs=(cancelled(),),
        expected_texts=(SUPERSEDED,),
        change={"shop.py": ""},
        event=("pull_request", {"repo": {"full_name": "stranger/shop"}}),
    ),
    "merge_group": Case(
        "failed",
        (damages.failed,),
        "1 of 8 tests failed; this merge group changes quarantine.toml",
        change={"quarantine.toml": quarantined("a.t::two")},
        event=("merge_group", {}),
    ),
    "XML whole": Case("passed", files=XML, words=RESULTS),
    "XML cut": Case(
        "incomplete", (), "shard 02 of 3 did not end", "unknown", shard="02", files=CUT,
        words=RESULTS,
    ),
}  # fmt: skip

OUT_OF_REACH = {
    "API 403": Fault(path="/jobs", status=403, message="Resource not accessible by integration"),
    "API 404": Fault(path="/jobs", status=404, message="Not Found"),
    "API 429": Fault(path="/jobs", status=429, headers={"Retry-After": "9999"}),
    "API 502": Fault(path="/jobs", status=502, text="<html>", times=9),
    "API cut off": Fault(path="/jobs", status=0, times=9),
    "API hanging": Fault(path="/jobs", status=200, delay_s=60.0, times=9),
}

REFUSALS = {
    **{name: Case("passed", faults=(fault,)) for name, fault in OUT_OF_REACH.items()},
    **{
        f"{name}, a leg gone": Case(
            "incomplete",
            (nothing_left,),
            "shard 03 of 3 has no record;",
            "unknown",
            faults=(fault,),
        )
        for name, fault in OUT_OF_REACH.items()
    },
    "API 404, and a record of another commit": Case(
        "incomplete",
        (damages.of_no_commit,),
        "not aaaaaaaa",
        "unknown",
        faults=(OUT_OF_REACH["API 404"],),
    ),
    "API 403 for annotations": Case(
        "incomplete",
        (nothing_left,),
        ending="unknown",
        jobs=(failed(FAILED),),
        faults=(Fault(path="/annotations", status=403, message="Resource not accessible"),),
    ),
    "API 404 for a log": Case(
        "incomplete", (nothing_left,), ending="unknown", jobs=(failed(FAILED),), log=None
    ),
}
