"""Tests of the base branch that have not run for a long time. Pure.

A skip is no run, and incomplete runs do not count. The history stores an expected failure as a
skip: only the records of a run tell them apart.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from operator import itemgetter
from typing import Final

from ciguard.document import Block, Bullets, Item, Paragraph
from ciguard.history.file import History
from ciguard.history.query import SKIPPED, BaseQuery, days_since_execution
from ciguard.history.runs import HistoryRun
from ciguard.model import CaseKey, Record
from ciguard.text import case_name, count_of, name_some, one_line

DAYS: Final = 7  # a weekly run keeps its tests fresh
MAX_NAMED: Final = 3  # groups or tests in a sentence
_test: Final = itemgetter(0, 2, 3)  # of a key: the test without its variant


@dataclass(frozen=True, slots=True)
class StaleTests:
    """Tests that last ran so many days ago; None: never, as far as is known.

    `variant` is None for tests that did not run in any variant; their keys then have none.
    """

    days: int | None
    variant: str | None
    reason: str
    tests: tuple[CaseKey, ...]

    @property
    def words(self) -> str:
        """Return "37 tests never ran in variant windows (skipped: fork)"."""
        ago = "never ran" if self.days is None else f"did not run for {count_of(self.days, 'day')}"
        where = f" in variant {one_line(self.variant, 80)}" if self.variant else ""
        reason = f" (skipped: {one_line(self.reason, 80)})" if self.reason else ""
        return f"{count_of(len(self.tests), 'test')} {ago}{where}{reason}"


@dataclass(frozen=True, slots=True)
class AgeOfGreen:
    """The numbers of listed and executed cases of a run, and its stale tests, the oldest first.

    `branch` is None for a proposal. `new`: tests that ran nowhere and that no past run has.
    """

    branch: str | None
    listed: int
    executed: int
    stale: tuple[StaleTests, ...]
    new: tuple[CaseKey, ...] = ()


def listed_cases(records: Iterable[Record]) -> dict[CaseKey, str | None]:
    """Return the cases of a run, each with the reason of its skip; None if it executed."""
    listed: dict[CaseKey, str | None] = {}
    for result in (result for record in records for result in record.results):
        if listed.get(key := result.key, "") is not None:
            listed[key] = result.skip_reason
    return listed


def listed_on_base(history: History, run: HistoryRun) -> dict[CaseKey, str | None]:
    """Return the cases of a past run as `listed_cases` does; no reason is known."""
    values = history.values
    rows = values.run == history.run_positions[run.run_id]
    cases = zip(values.key[rows].tolist(), (values.outcome[rows] == SKIPPED).tolist(), strict=True)
    return {history.keys[key]: "" if is_skipped else None for key, is_skipped in cases}


def age_of_green(
    history: History,
    branch: str | None,
    listed: Mapping[CaseKey, str | None],
    at: datetime,
    days: int = DAYS,
) -> AgeOfGreen:
    """Return the age of a run that began at a time, by its `listed_cases`. O(values)."""
    ages = days_since_execution(history, BaseQuery(branch), at).tolist()
    last = dict(zip(history.keys, ages, strict=True))
    last |= {key: 0 for key, reason in listed.items() if reason is None}
    anywhere: dict[tuple[str, ...], float] = {}  # by test
    for key, age in last.items():
        anywhere[_test(key)] = min(age, anywhere.get(_test(key), math.inf))
    groups: dict[tuple[float, str | None, str], set[CaseKey]] = defaultdict(set)
    for key, reason in listed.items():
        own, least = last.get(key, math.inf), anywhere.get(_test(key), math.inf)
        if least >= days:
            groups[least, None, reason or ""].add(key._replace(variant=""))
        elif own >= days:
            groups[own, key.variant, reason or ""].add(key)
    stale = [
        StaleTests(None if age == math.inf else int(age), variant, reason, tuple(sorted(tests)))
        for (age, variant, reason), tests in groups.items()
    ]
    stale.sort(key=lambda group: (group.days is not None, -(group.days or 0), group.tests))
    executed = sum(reason is None for reason in listed.values())
    new = {key._replace(variant="") for key in listed if _test(key) not in anywhere}
    return AgeOfGreen(branch, len(listed), executed, tuple(stale), tuple(sorted(new)))


def sentence(age: AgeOfGreen, state: str) -> str:
    """Return "main is green; 37 tests never ran in variant windows (skipped: fork)."; "" for none.

    Of a proposal return "2 new tests ran nowhere: a, b.".
    """
    if age.branch is None:
        names = name_some(age.new, lambda key: case_name(key, 120), MAX_NAMED)
        return f"{count_of(len(age.new), 'new test')} ran nowhere: {names}." if age.new else ""
    parts = [group.words for group in sorted(age.stale, key=lambda group: -len(group.tests))]
    del parts[MAX_NAMED:]
    if age.executed < age.listed and state != "incomplete":  # tests without a result are not listed
        percent = math.floor(1000 * age.executed / age.listed) / 10  # 100 % would be all
        parts.append(f"executed {percent} % of {count_of(age.listed, 'listed test')}")
    lead = f"{age.branch} is green; " if state == "passed" else f"{age.branch}: "
    return f"{lead}{'; '.join(parts)}." if parts else ""


def document(age: AgeOfGreen) -> tuple[Block, ...]:
    """Return the sentence of an age, and the list of its stale tests."""
    items = [Item(f"{group.words}: {name_some(group.tests, case_name)}") for group in age.stale]
    return Paragraph(sentence(age, "")), Bullets(tuple(items), "group")
