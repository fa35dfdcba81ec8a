"""Entries of `quarantine.toml` to add or to remove, by the past runs of the base branch. Pure."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

import numpy as np

from ciguard.codec.quarantine import MAX_PERIOD, entry_of
from ciguard.compare.whose import evidence_text
from ciguard.document import LISTED_WIDTH, Listing, Paragraph, Section
from ciguard.history.file import VALUES_PER_KEY
from ciguard.history.query import recent_reliability, units_of_keys
from ciguard.report.answer import base_of
from ciguard.text import count_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import date

    from ciguard.codec.quarantine import Entry
    from ciguard.compare.comparison import Comparison
    from ciguard.compare.whose import Answer
    from ciguard.history.file import History
    from ciguard.history.query import BaseQuery
    from ciguard.model import CaseKey, UnitKey

MIN_STRETCHES: Final = 2  # of failures, with passes between: a single one is a bug that was fixed
MAX_PROPOSED: Final = 20
KNOWN: Final = ("known_rate", "passed_again")  # of a flaky test: it failed before
_INTRODUCTION: Final = (
    "By the last runs of the base branch. ciguard changes no file, and an added entry is invalid "
    "until its issue is filled in."
)


def proposals_section(
    history: History, query: BaseQuery, entries: Sequence[Entry], today: date
) -> Section:
    """Propose lines of TOML, the least reliable test first; empty without a proposal. O(values)."""
    units, unit_of_key = units_of_keys(history)
    failures, stretches, passes, runs = recent_reliability(history, query)
    worst: dict[UnitKey, tuple[int, int]] = {}
    for row in (stretches >= MIN_STRETCHES).nonzero()[0].tolist():
        unit, rate = units[unit_of_key[row]], (int(failures[row]), int(runs[row]))
        worst[unit] = max(worst.get(unit, rate), rate)
    same_id = Counter(unit.unit for unit in units) if worst else {}
    added = []
    for unit, (bad, all_) in sorted(worst.items(), key=lambda item: (-item[1][0], item[0])):
        reason = f"failed in {bad} of {all_} runs of {query.branch}"
        key = unit._asdict() if same_id[unit.unit] > 1 else {"unit": unit.unit}
        if entry_of(entries, unit) is None and (text := _entry_text(key, reason, today)):
            added.append(text)
    removed = []
    for entry in entries:
        rows = np.array([entry.matches(unit) for unit in units], np.bool_)[unit_of_key]
        if rows.any() and passes[rows].min() == VALUES_PER_KEY:
            passed = f"passed in each of its last {VALUES_PER_KEY} runs"
            removed.append(f"# remove the entry of {quoted(entry.name)}: {passed}")
    text = "\n\n".join([*added[:MAX_PROPOSED], *removed])
    title = f"quarantine.toml: {count_of(len(added), 'test')} to add, {len(removed)} to remove"
    blocks = (Paragraph(_INTRODUCTION), Listing(text, "toml")) if text else ()
    return Section("proposals", blocks, title, drop=15, formats=("markdown", "html"), folded=True)


def entries_section(answers: Mapping[CaseKey, Answer], comparison: Comparison | None) -> Section:
    """Return ready entries for the flaky failures of a run, from the date of the run."""
    at = comparison.candidate.at if comparison is not None else None
    flaky = {key.unit_key: answer for key, answer in answers.items() if answer.why in KNOWN}
    texts = [
        _entry_text(unit._asdict(), evidence_text(answer, base_of(comparison)), at.date())
        for unit, answer in list(flaky.items())[:MAX_PROPOSED]
        if at is not None
    ]
    text = "\n\n".join(filter(None, texts))
    blocks = (Listing(text, "toml"),) if text else ()
    return Section("entries", blocks, "Entries of quarantine.toml", drop=14)


def _entry_text(key: Mapping[str, str], reason: str, today: date) -> str:
    """Return an entry whose issue is to be filled in; "" for an id that no line can show."""
    lines = [f"{name} = {quoted(text)}" for name, text in key.items() if text]
    # An id may be too long for a line of a report, or no valid Unicode.
    if any(len(line) > LISTED_WIDTH or r"\U0000d" in line for line in lines):
        return ""
    lines += [f"reason = {quoted(reason)}", 'issue = "" # fill in', f"until = {today + MAX_PERIOD}"]
    return "\n".join(["[[quarantine]]", *lines])


def quoted(text: str) -> str:
    """Quote for TOML, on one line: all characters but printable ones are escaped."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(c if c.isprintable() else f"\\U{ord(c):08x}" for c in escaped) + '"'
