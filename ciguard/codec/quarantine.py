"""`quarantine.toml`: tests that run and are shown, and whose failures do not fail a run. Pure.

    [[quarantine]]
    unit = "tests/test_mail.py::*"      # an id, or a pattern as `fnmatch` reads it
    suite = "unit"                      # and variant, where not all are meant
    reason = "the mail server of the runners answers late"
    issue = 4711                        # or its address
    until = 2026-12-01                  # at most 30 days ahead

An entry with a mistake holds nothing, and is a problem that somebody has to fix.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from datetime import date, timedelta
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
)

from ciguard.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ciguard.model import UnitKey

FILE: Final = "quarantine.toml"
MAX_PERIOD: Final = timedelta(days=30)  # what is not fixed by then is to be decided about again
_ISSUE: Final = re.compile(r"#?[1-9][0-9]*|https?://\S+")


def _unit(value: str) -> str:
    if re.fullmatch(r"[*?]+", value):
        raise ValueError("would quarantine every unit: name those that are meant")
    return value


def _issue(value: object) -> str:
    text = "" if isinstance(value, bool) else str(value).strip()
    if not _ISSUE.fullmatch(text):
        raise ValueError("expected the number of an issue, or its address")
    return f"#{text}" if text.isdigit() else text


def _until(value: object, info: ValidationInfo) -> object:
    """A date, also as text; in a file that is read, at most `MAX_PERIOD` ahead."""
    until = value
    if isinstance(value, str):
        until = date.fromisoformat(value)
    if type(until) is date and info.context is not None:
        today: date = info.context["today"]
        latest = f"{(today + MAX_PERIOD).isoformat()} is the latest"
        if until < today:
            raise ValueError(f"expired on {until}: fix its tests, or renew the entry")
        if until > today + MAX_PERIOD:
            raise ValueError(f"{until} is more than {MAX_PERIOD.days} days ahead: {latest}")
    return until


class Entry(BaseModel):
    """Units that are quarantined; a suite or variant of None is any."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    unit: Annotated[str, Field(pattern=r"\S"), AfterValidator(_unit)]
    reason: Annotated[str, Field(pattern=r"\S"), AfterValidator(str.strip)]
    issue: Annotated[str, BeforeValidator(_issue)]
    until: Annotated[date, BeforeValidator(_until)]
    suite: str | None = None
    variant: str | None = None

    @property
    def name(self) -> str:
        """What a person calls it."""
        return _name(self.model_dump())

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
    except (ValueError, RecursionError) as error:  # also of 5,000 digits
        raise InputError(f"no TOML: {error}", where=source, fix=fix) from error
    listed = found.pop("quarantine", [])
    if found:
        raise InputError(f"unknown key {min(found)!r:.60}", where=source, fix=fix)
    if not isinstance(listed, list) or not all(isinstance(one, dict) for one in listed):
        raise InputError("`quarantine` is no list of tables", where=source, fix=fix)
    entries, problems = [], []
    for table in listed:
        try:
            entries.append(Entry.model_validate(table, context={"today": today}))
        except ValidationError as error:
            problems += [
                f"{source}: {_name(table)}: {'.'.join(map(str, one['loc']))}: "
                + one["msg"].removeprefix("Value error, ")
                for one in error.errors()
            ]
    return Quarantine(tuple(entries), tuple(problems))


def _name(table: dict[str, Any]) -> str:
    suite_key = [str(table[key]) for key in ("suite", "variant") if table.get(key) is not None]
    unit = table.get("unit")
    named = unit if isinstance(unit, str) and unit else "an entry without a unit"
    return f"{named:.120}" + (f" of {'/'.join(suite_key):.60}" if suite_key else "")


def is_changed(base: Sequence[Entry], own: Sequence[Entry]) -> bool:
    """Say whether two files quarantine different things, in whatever order."""
    return set(base) != set(own)
