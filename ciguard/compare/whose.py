"""Origin of a failure: this change, the base branch, the order of tests, or chance. Pure.

`decide` applies the first rule that fits; docs/explanation/whose.md has the table of cases. A Bayes
factor weighs the failures here against those of the base: the probability of the tries here if they
have a separate rate, divided by their probability at the rate of the base. Both rates have
Jeffreys' prior Beta(1/2, 1/2): a test that passed 20 times may still fail by chance.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import takewhile
from math import exp, lgamma, sqrt
from typing import Any, Final, Literal

from ciguard.document import first_line
from ciguard.render.notes import Words, fill
from ciguard.text import duration

# The origins of a failure, in the order of a report.
Whose = Literal[
    "this change",
    "likely this change",
    "new test",
    "order",
    "unknown",
    "infrastructure",
    "main",
    "flaky",
]
Why = Literal[
    "broken",  # the base passes it, and it failed here in several processes
    "one_try",  # the base passes it, and it failed here in the only try
    "rate",  # it failed before, but far less often
    "between",  # its rates here and on the base are neither alike nor far apart
    "new",
    "after",  # passes alone, fails after another test
    "order",  # passes alone, fails with the tests before it
    "alone_only",  # passes alone, and was not tried with the tests before it
    "skipped",
    "no_past",
    "few_runs",
    "no_space",
    "red",
    "known_rate",
    "passed_again",
    "new_flake",
    "first_flake",  # it passed again, and never failed before
]

DECISIVE: Final = 100.0  # Bayes factor of "this change"
STRONG: Final = 10.0  # of "likely this change"
RED_RUNS: Final = 3  # so many consecutive failures are a broken base, and not a flaky test
# Sentences of an answer: its evidence, and advice.
_HERE: Final = "failed in {failed} of {tries} tries here"
_RATE: Final = "failed in {failures} of {runs:run} of {base}"
_AGAIN: Final = "re-run; quarantine it if it fails again"
WORDS: Final[Mapping[Why, Words]] = {
    "broken": Words(f"passed in {{runs:run}} of {{base}}, {_HERE}", "fix"),
    "one_try": Words("passed in {runs:run} of {base}, failed in its only try here", "fix"),
    "rate": Words(f"{_RATE}, {_HERE} (likelihood ratio {{ratio:,}})", "fix"),
    "between": Words(f"{_RATE}, {_HERE}: too few tries to decide", "re-run"),
    "new": Words("in no run of {base}, so probably added here", "fix the test or the code"),
    "after": Words(
        "passes alone, fails after {after}[; {past}]", "reset what the other test changes"
    ),
    "order": Words(
        "passes alone, fails after the tests before it[; {past}]", "reproduce with its shard"
    ),
    "alone_only": Words(
        "passes alone; not tried after the tests before it", "reproduce with its shard"
    ),
    "skipped": Words("skipped in all runs of {base}", "fix, or skip it again"),
    "no_past": Words("no run of {base} to compare with", "compare once {base} has runs"),
    "few_runs": Words(
        "passed in only {runs:run} of {base}, failed here",
        "[re-run {once}][fix: it failed in all {again} tries]",
    ),
    "no_space": Words(
        "its message says that the disk was full", "free disk space of the runner, then re-run"
    ),
    "red": Words(
        "red[ since {since}] ([{commits:commit}, ]{red_runs:run}[, {age}][; first bad run {run}])",
        "[rebase when {other} is fixed][fix it on {own}]",
    ),
    "known_rate": Words(f"{_RATE}[ (95 % CI {{interval}})]", _AGAIN),
    "passed_again": Words(f"{_HERE}[; {{past}}]", _AGAIN),
    "new_flake": Words(f"{_HERE}, in no run of {{base}}", "repair it before it is merged"),
    "first_flake": Words(
        f"{_HERE}, in none of {{runs:run}} of {{base}}",
        "re-run; if it fails again, look for the cause in this change",
    ),
}
_NO_SPACE: Final = re.compile(
    r"(?!.*\b(assert|expect)).*(No space left on device|not enough space on the disk)", re.I
)


PastEnding = Literal["passed", "retried", "failed"]  # "retried": passed when tried again


@dataclass(frozen=True, slots=True)
class PastRun:
    """A run of the history."""

    run_id: int
    sha: str | None = None
    at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Past:
    """The results of a case in those baseline runs of the history that executed it.

    Attributes:
        ended: how the runs ended, the newest first.
        was_skipped: a run contains the case, and no run executed it.
        red_since: the oldest run of the newest consecutive failures; None if there are none.
    """

    ended: tuple[PastEnding, ...] = ()
    red_since: PastRun | None = None
    was_skipped: bool = False

    @property
    def red_runs(self) -> int:
        """The number of the newest consecutive failures."""
        return len(list(takewhile(lambda ended: ended == "failed", self.ended)))


@dataclass(frozen=True, slots=True)
class Tries:
    """The fresh processes of one run in which a test was tried, without retries by a plugin.

    Attributes:
        alone: how the test ended as the only test of a process; None if it was not tried alone.
        after: a test after which the test fails, found by halving those before it; "" if unknown.
        is_in_order: the test was also tried after the tests before it, or began its process.
    """

    failed: int = 1
    passed: int = 0
    alone: Literal["passed", "failed"] | None = None
    after: str = ""
    is_in_order: bool = False

    @property
    def total(self) -> int:
        return self.failed + self.passed


ONE_TRY: Final = Tries()


@dataclass(frozen=True, slots=True)
class Answer:
    """The origin of a failure, and the evidence.

    Attributes:
        runs, failures: number of the base's runs that executed the test, and in which it failed.
        likelihood_ratio: Bayes factor of a separate rate; None if no rates were compared.
        commits: number of commits since that of the first bad run; None if unknown.
    """

    whose: Whose
    why: Why
    tries: Tries = ONE_TRY
    runs: int = 0
    failures: int = 0
    likelihood_ratio: float | None = None
    red_runs: int = 0
    red_since: PastRun | None = None
    commits: int | None = None


def evidence_text(answer: Answer, base: str, now: datetime | None = None) -> str:
    """Return the evidence in words, as "failed in 4 of 20 runs of main (95 % CI 8..42 %)".

    Args:
        base: name of the base branch.
        now: time of the judged run.
    """
    return fill(WORDS[answer.why].message, _facts(answer, base, now))


def advice_text(answer: Answer, base: str, *, is_of_base: bool = False) -> str:
    """Return advice in words, for a run of the base itself or of another branch."""
    facts: dict[str, Any] = {"base": base, ("own" if is_of_base else "other"): base}
    failed = answer.tries.failed
    facts |= {"once": "once"} if failed == 1 else {"again": failed}
    return fill(WORDS[answer.why].fix, facts)


def _facts(answer: Answer, base: str, now: datetime | None) -> dict[str, Any]:
    tries, red = answer.tries, answer.red_since
    rate = {"failures": answer.failures, "runs": answer.runs, "base": base}
    facts: dict[str, Any] = {
        **rate,
        "failed": tries.failed,
        "tries": tries.total,
        "after": tries.after,
        "ratio": round(answer.likelihood_ratio or 0),
        "interval": interval_text(answer.failures, answer.runs) if answer.runs else "",
        "past": fill(_RATE, rate) if answer.runs else "",
        "red_runs": answer.red_runs,
        "commits": answer.commits or None,
    }
    if red is not None:
        age = now - red.at if now is not None and red.at is not None else None
        facts |= {
            "run": red.run_id,
            "since": (red.sha or "")[:7],
            "age": age and (f"{age.days} d" if age.days else duration(age.total_seconds())),
        }
    return facts


def interval_text(failures: int, runs: int) -> str:
    """Return Wilson's 95 % interval of a rate, as "8..42 %" (Wilson 1927)."""
    rate, z = failures / runs, 1.96
    middle = (rate + z * z / (2 * runs)) / (1 + z * z / runs)
    half = z / (1 + z * z / runs) * sqrt(rate * (1 - rate) / runs + z * z / (4 * runs * runs))
    return f"{100 * max(0, middle - half):.0f}..{100 * min(1, middle + half):.0f} %"


def decide(tries: Tries, past: Past | None, *, base_runs: int, message: str = "") -> Answer:
    """Return the origin of a test's failure by the first rule that fits. O(past results).

    Args:
        past: None if the history is not known.
        base_runs: number of the baseline's runs.
        message: message of the failure.
    """
    ended = past.ended if past is not None else ()
    failures = len(ended) - ended.count("passed")
    red_runs = past.red_runs if past is not None else 0

    def answer(whose: Whose, why: Why, ratio: float | None = None) -> Answer:
        red_since = past.red_since if past is not None else None
        return Answer(whose, why, tries, len(ended), failures, ratio, red_runs, red_since)

    if _NO_SPACE.match(first_line(message)):
        return answer("infrastructure", "no_space")
    was_stable = failures == red_runs
    # A test that has failed on the base may pass alone and fail after other tests by chance.
    if tries.alone == "passed" and tries.failed > 1 and not failures:
        return answer("order", "after" if tries.after else "order")
    if tries.alone == "passed" and not failures and not tries.is_in_order:
        return answer("unknown", "alone_only")
    is_new = bool(base_runs) and past is not None and not (ended or past.was_skipped)
    if tries.passed:
        known: Why = "passed_again" if failures or not ended else "first_flake"
        return answer("flaky", "new_flake" if is_new else known)
    if red_runs and (was_stable or red_runs >= RED_RUNS):
        return answer("main", "red")
    if not base_runs or past is None:
        return answer("unknown", "no_past")
    if past.was_skipped:
        return answer("unknown", "skipped")
    if not ended:
        return answer("new test", "new")
    ratio = bayes_factor(tries.failed, tries.total, failures, len(ended))
    if ratio >= DECISIVE and tries.failed > 1 and tries.alone == "failed":
        return answer("this change", "rate" if failures else "broken", ratio)
    if ratio >= STRONG and not failures:
        return answer("likely this change", "broken" if tries.failed > 1 else "one_try", ratio)
    if ratio >= STRONG:
        return answer("unknown", "between", ratio)
    return (
        answer("flaky", "known_rate", ratio) if failures else answer("unknown", "few_runs", ratio)
    )


def bayes_factor(failed: int, tries: int, past_failures: int, past_runs: int) -> float:
    """Return how much more probable the tries are at a separate rate than at the base's rate.

    The factor is the ratio of two beta-binomial probabilities of `failed` of `tries` (Kass and
    Raftery 1995). Values above 1 support a separate rate, values below 1 the rate of the base.
    """
    passed, past_passed = tries - failed, past_runs - past_failures
    own = _log_beta(failed + 0.5, passed + 0.5) - _log_beta(0.5, 0.5)
    same = _log_beta(past_failures + failed + 0.5, past_passed + passed + 0.5)
    same -= _log_beta(past_failures + 0.5, past_passed + 0.5)
    return exp(own - same)


def _log_beta(a: float, b: float) -> float:
    return lgamma(a) + lgamma(b) - lgamma(a + b)
