"""`quarantine.toml`: tests that run and are shown, and whose failures do not fail a run. Pure.

    [[quarantine]]
    unit = "tests/test_mail.py::*"      # an id, or a pattern as `fnmatch` reads it
    suite = "unit"                      # and variant, where not all are meant
    reason = "the mail server of the runners answers late"
    issue = 4711                        # or its address
    until = 2026-12-01                  # at most 30 days ahead

An entry with a mistake holds nothing, and is a problem that somebody has to mend.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final

from ciguard.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ciguard.model import UnitKey

FILE: Final = "quarantine.toml"
MAX_PERIOD: Final = timedelta(days=30)  # what is not mended by then is to be decided about again
KEYS: Final = ("unit", "suite", "variant", "reason", "issue", "until")


@dataclass(frozen=True, slots=True)
class Entry:
    """Units that are quarantined; a suite or variant of None is any."""

    unit: str
    reason: str
    issue: str
    until: date
    suite: str | None = None
    variant: str | None = None

    @property
    def name(self) -> str:
        """What a person calls it."""
        return _name({"unit": self.unit, "suite": self.suite, "variant": self.variant})

    @property
    def reason_text(self) -> str:
        """Its reason, with where that is worked on and how long it holds."""
        return f"{self.reason} ({self.issue}, until {self.until.isoformat()})"

    def matches(self, key: UnitKey) -> bool:
        """Say that the entry quarantines a unit. An id may hold brackets: itself it matches."""
        if self.suite not in (None, key.suite) or self.variant not in (None, key.variant):
            return False
        return key.unit == self.unit or fnmatchcase(key.unit, self.unit)


def entry_of(entries: Iterable[Entry], key: UnitKey) -> Entry | None:
    """The first entry that quarantines a unit."""
    return next((entry for entry in entries if entry.matches(key)), None)


@dataclass(frozen=True, slots=True)
class Quarantine:
    """What holds, and what is wrong with the rest: whole sentences without their stop."""

    entries: tuple[Entry, ...] = ()
    problems: tuple[str, ...] = ()


def decode(content: bytes, today: date, source: str = FILE) -> Quarantine:
    """Read the file; an entry holds up to and with its last day (UTC).

    Raises:
        InputError: it is no TOML, or not a list of entries.
    """
    fix = "write [[quarantine]] tables with unit, reason, issue and until"
    try:
        found = tomllib.loads(content.decode("utf-8"))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise InputError(f"no TOML: {error}", where=source, fix=fix) from error
    listed = found.pop("quarantine", [])
    if found:
        raise InputError(f"unknown key {min(found)!r:.60}", where=source, fix=fix)
    if not isinstance(listed, list) or not all(isinstance(one, dict) for one in listed):
        raise InputError("`quarantine` is no list of tables", where=source, fix=fix)
    quarantine = Quarantine()
    for table in listed:
        problems = tuple(
            f"{source}: {_name(table)} {problem}" for problem in _problems(table, today)
        )
        entries = () if problems else (_entry(table),)
        quarantine = replace(
            quarantine,
            entries=(*quarantine.entries, *entries),
            problems=(*quarantine.problems, *problems),
        )
    return quarantine


def _name(table: dict[str, Any]) -> str:
    suite_key = [str(table[key]) for key in ("suite", "variant") if table.get(key) is not None]
    unit = table.get("unit")
    named = unit if isinstance(unit, str) and unit else "an entry without a unit"
    return f"{named:.120}" + (f" of {'/'.join(suite_key):.60}" if suite_key else "")


def _entry(table: dict[str, Any]) -> Entry:
    issue = str(table["issue"]).strip()
    return Entry(
        unit=table["unit"],
        reason=table["reason"].strip(),
        issue=f"#{issue}" if issue.isdigit() else issue,
        until=_date(table["until"]) or date.min,
        suite=table.get("suite"),
        variant=table.get("variant"),
    )


def _date(value: object) -> date | None:
    if isinstance(value, date) and not isinstance(value, datetime):
        return value
    try:
        return date.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None


def _problems(table: dict[str, Any], today: date) -> Iterator[str]:
    unknown = sorted(table.keys() - set(KEYS))
    if unknown:
        yield f"has the unknown key {unknown[0]!r:.40}; there are {', '.join(KEYS)}"
    unit = table.get("unit")
    if not _is_text(unit):
        yield "says no unit: name one, or a pattern"
    elif re.fullmatch(r"[*?]+", str(unit)):
        yield "would quarantine every unit: name those that are meant"
    for key in ("suite", "variant"):
        if key in table and not isinstance(table[key], str):
            yield f"has a {key} that is no text"
    if not _is_text(table.get("reason")):
        yield "gives no reason"
    if not _is_issue(table.get("issue")):
        yield "names no issue: give its number, or its address"
    yield from _until_problems(table.get("until"), today)


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _is_issue(value: object) -> bool:
    if isinstance(value, int) and not isinstance(value, bool):
        return value > 0
    return isinstance(value, str) and bool(
        re.fullmatch(r"#?[1-9][0-9]*|https?://\S+", value.strip())
    )


def _until_problems(value: object, today: date) -> Iterator[str]:
    until = _date(value)
    latest = today + MAX_PERIOD
    if until is None:
        yield f"has no last day: until = {latest.isoformat()} is the latest"
    elif until < today:
        yield f"has expired on {until.isoformat()}: fix its tests, or renew the entry"
    elif until > latest:
        yield (
            f"holds until {until.isoformat()}, more than {MAX_PERIOD.days} days ahead: "
            f"{latest.isoformat()} is the latest"
        )


def is_changed(base: Sequence[Entry], own: Sequence[Entry]) -> bool:
    """Say whether two files quarantine different things, in whatever order."""
    return set(base) != set(own)
