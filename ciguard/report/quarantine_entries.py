"""Entries of `quarantine.toml` for the flaky failures of a run. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ciguard.codec.quarantine import MAX_PERIOD
from ciguard.compare.whose import evidence_text
from ciguard.document import LISTED_WIDTH, Listing, Section
from ciguard.report.answer import base_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import date

    from ciguard.compare.comparison import Comparison
    from ciguard.compare.whose import Answer
    from ciguard.model import CaseKey, UnitKey

MAX_ENTRIES: Final = 20
KNOWN: Final = ("known_rate", "passed_again")  # of a flaky test: it failed before


def entries_section(answers: Mapping[CaseKey, Answer], comparison: Comparison | None) -> Section:
    """Return ready entries for the flaky failures of a run, from the date of the run."""
    at = comparison.candidate.at if comparison is not None else None
    flaky = {key.unit_key: answer for key, answer in answers.items() if answer.why in KNOWN}
    texts = [
        _entry_text(unit, evidence_text(answer, base_of(comparison)), at.date())
        for unit, answer in list(flaky.items())[:MAX_ENTRIES]
        if at is not None
    ]
    text = "\n\n".join(filter(None, texts))
    blocks = (Listing(text, "toml"),) if text else ()
    return Section("entries", blocks, "Entries of quarantine.toml", drop=14)


def _entry_text(unit: UnitKey, reason: str, today: date) -> str:
    """Return an entry whose issue is to be filled in; "" for an id that no line can show."""
    lines = [f"{name} = {quoted(text)}" for name, text in unit._asdict().items() if text]
    # An id may be too long for a line of a report, or no valid Unicode.
    if any(len(line) > LISTED_WIDTH or r"\U0000d" in line for line in lines):
        return ""
    lines += [f"reason = {quoted(reason)}", 'issue = "" # fill in', f"until = {today + MAX_PERIOD}"]
    return "\n".join(["[[quarantine]]", *lines])


def quoted(text: str) -> str:
    """Quote for TOML, on one line: all characters but printable ones are escaped."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(c if c.isprintable() else f"\\U{ord(c):08x}" for c in escaped) + '"'
