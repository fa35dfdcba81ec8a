"""`quarantine.toml`: tests that run and whose failures are shown, but do not fail a run. Pure.

    [[quarantine]]
    unit = "tests/test_mail.py::*"      # an id, or a pattern as `fnmatch` reads it
    suite = "unit"                      # also variant; default: any
    reason = "the mail server of the runners answers late"
    issue = 4711                        # or its address
    until = 2026-12-01                  # at most 30 days ahead

An entry with a mistake quarantines nothing, and is reported as a problem. An expired entry is one
in runs of the base branch, from `GRACE` after its last day: no pull request fails for a date.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, timedelta
from fnmatch import fnmatchcase
from typing import Annotated, Any, Final

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
from ciguard.model import UnitKey

FILE: Final = "quarantine.toml"
MAX_PERIOD: Final = timedelta(days=30)  # then a person must renew the entry or fix the tests
GRACE: Final = timedelta(days=7)  # of warnings before and after the last day
_ISSUE: Final = re.compile(r"#?[1-9][0-9]*|https?://\S+")


def _unit(value: str) -> str:
    if re.fullmatch(r"[*?]+", value):
        raise ValueError("would quarantine all tests: name those that fail")
    return value


def _issue(value: object) -> str:
    text = "" if isinstance(value, bool) else str(value).strip()
    if not _ISSUE.fullmatch(text):
        raise ValueError("expected the number of an issue, or its address")
    return f"#{text}" if text.isdigit() else text


def _until(value: object, info: ValidationInfo) -> object:
    """Return a date, also from text; for a file that is read, at most `MAX_PERIOD` ahead."""
    until = value
    if isinstance(value, str):
        until = date.fromisoformat(value)
    if type(until) is date and info.context is not None:
        today: date = info.context["today"]
        latest = f"{(today + MAX_PERIOD).isoformat()} is the latest"
        if info.context["is_base"] and until + GRACE < today:
            raise ValueError(f"expired on {until}: fix its tests, or renew the entry")
        if until > today + MAX_PERIOD:
            raise ValueError(f"{until} is more than {MAX_PERIOD.days} days ahead: {latest}")
    return until


class Entry(BaseModel):
    """Quarantined units; None for the suite or variant matches any."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    unit: Annotated[str, Field(pattern=r"\S"), AfterValidator(_unit)]
    reason: Annotated[str, Field(pattern=r"\S"), AfterValidator(str.strip)]
    issue: Annotated[str, BeforeValidator(_issue)]
    until: Annotated[date, BeforeValidator(_until)]
    suite: str | None = None
    variant: str | None = None

    @property
    def name(self) -> str:
        """The unit or pattern, with suite and variant."""
        return _name(self.model_dump())

    @property
    def reason_text(self) -> str:
        """The reason with issue and last day."""
        return f"{self.reason} ({self.issue}, until {self.until.isoformat()})"

    def matches(self, key: UnitKey) -> bool:
        """Return whether the entry quarantines a unit; an id with brackets matches literally."""
        if self.suite not in (None, key.suite) or self.variant not in (None, key.variant):
            return False
        return key.unit == self.unit or fnmatchcase(key.unit, self.unit)


def entry_of(entries: Iterable[Entry], key: UnitKey) -> Entry | None:
    """Return the first entry that quarantines a unit."""
    return next((entry for entry in entries if entry.matches(key)), None)


@dataclass(frozen=True, slots=True)
class Quarantine:
    """Valid entries, and the problems of the other entries as sentences without a full stop."""

    entries: tuple[Entry, ...] = ()
    problems: tuple[str, ...] = ()


def decode(content: bytes, today: date, *, is_base: bool, source: str = FILE) -> Quarantine:
    """Read the file; `is_base`: for a run of the base branch, in which entries end for good.

    Raises:
        InputError: the file is no TOML, or not a list of entries.
    """
    fix = "write [[quarantine]] tables with `unit`, `reason`, `issue` and `until`"
    try:
        values = tomllib.loads(content.decode("utf-8"))
    except (ValueError, RecursionError) as error:  # also for 5,000 digits
        raise InputError(f"no TOML: {error}", where=source, fix=fix) from error
    tables = values.pop("quarantine", [])
    if values:
        raise InputError(f"unknown key {min(values)!r:.60}", where=source, fix=fix)
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise InputError("`quarantine` is no list of tables", where=source, fix=fix)
    entries, problems, context = [], [], {"today": today, "is_base": is_base}
    for table in tables:
        try:
            entries.append(Entry.model_validate(table, context=context))
        except ValidationError as error:
            problems += [
                f"{source}: {_name(table)}: {'.'.join(map(str, mistake['loc']))}: "
                + mistake["msg"].removeprefix("Value error, ")
                for mistake in error.errors()
            ]
    return Quarantine(tuple(entries), tuple(problems))


def _name(table: dict[str, Any]) -> str:
    suite_key = [str(table[key]) for key in ("suite", "variant") if table.get(key) is not None]
    unit = table.get("unit")
    name = unit if isinstance(unit, str) and unit else "an entry without `unit`"
    return f"{name:.120}" + (f" of {'/'.join(suite_key):.60}" if suite_key else "")
