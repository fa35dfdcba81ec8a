"""What a person calls a run, on every command line: one grammar, read here. Pure.

    123456, 123456/2                      a run id, with its run attempt
    https://HOST/OWNER/NAME/actions/runs/123456[/attempts/2][...]
    records/, leg.jsonl                   a record's folder, or a file of one
    out/junit.xml, artifacts/*/*.trx      result files
    branch:main                           the newest run of a branch
    base                                  what the candidate is to be held against by rule
    this                                  the run that this process is part of

What is there on the disk is a path, whatever else it might mean.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from ciguard.errors import InputError, UsageError
from ciguard.github.repository_ref import REPOSITORY

if TYPE_CHECKING:
    from collections.abc import Callable

POSSIBLE: Final = (
    "a run id (123456, 123456/2), a run's address, a folder or file of a record, result files "
    "('out/*.xml'), branch:NAME, base, or this"
)
_RUN: Final = re.compile(r"([1-9]\d{0,17})(?:/([1-9]\d{0,8}))?")
_PAGE: Final = re.compile(
    r"/([\w.-]+/[\w.-]+)/actions/runs/([1-9]\d{0,17})(?:/attempts/([1-9]\d{0,8}))?(?:/.*)?"
)
_JOB: Final = re.compile(
    r"/([\w.-]+/[\w.-]+)/(?:actions/)?runs/([1-9]\d{0,17})/(?:attempts/[1-9]\d{0,8}/)?jobs?/"
    r"([1-9]\d{0,17})"
)
_WILD: Final = re.compile(r"[*?]|\{\w+\}")


@dataclass(frozen=True, slots=True)
class RunId:
    """A run of the history or of GitHub; `server` and `repository` are "" unless it was a link."""

    run_id: int
    run_attempt: int | None = None
    repository: str = ""
    server: str = ""


@dataclass(frozen=True, slots=True)
class JobId:
    """A job of GitHub, by the address of its page."""

    job_id: int
    repository: str
    server: str


@dataclass(frozen=True, slots=True)
class Branch:
    """The newest run of a branch."""

    name: str


@dataclass(frozen=True, slots=True)
class Base:
    """What the candidate is to be held against, by rule."""


@dataclass(frozen=True, slots=True)
class CurrentRun:
    """The run that this process is part of."""


@dataclass(frozen=True, slots=True)
class PathReference:
    """What lies on the disk: a record's folder or file, or result files; `wild` is a pattern."""

    text: str
    wild: bool = False


Reference = RunId | Branch | Base | CurrentRun | PathReference
_KEYWORDS: Final[dict[str, Reference]] = {"base": Base(), "this": CurrentRun()}


def parse(text: str, side: str, exists: Callable[[str], bool]) -> Reference:
    """Read one reference.

    Args:
        side: what the argument is called, for errors.
        exists: says whether a path is there.

    Raises:
        UsageError: an address that is no run's, or a branch without a name.
        InputError: not found.
    """
    where = f"{side}: {text}" if text else side
    if text and exists(text):
        return PathReference(text)
    if text in _KEYWORDS:
        return _KEYWORDS[text]
    if found := _RUN.fullmatch(text):
        return RunId(int(found[1]), int(found[2]) if found[2] else None)
    if text.startswith(("https://", "http://")):
        return _page(text, where)
    kind, colon, name = text.partition(":")
    if colon and kind == "branch":
        if not name:
            raise UsageError("a branch without a name", where=where, fix="write branch:main")
        return Branch(name)
    if _WILD.search(text):
        return PathReference(text, wild=True)
    raise InputError("not found", where=where, fix=f"name {POSSIBLE}")


def _page(text: str, where: str) -> RunId:
    fix = "copy that of a run: https://github.com/OWNER/NAME/actions/runs/123456"
    try:
        parts = urlsplit(text)
    except ValueError as error:
        raise UsageError(f"no address: {error}", where=where, fix=fix) from None
    found = _PAGE.fullmatch(parts.path.rstrip("/"))
    if not found or not parts.hostname:
        raise UsageError("no run's address", where=where, fix=fix)
    return RunId(
        int(found[2]),
        int(found[3]) if found[3] else None,
        checked_repository(found[1], where),
        f"{parts.scheme}://{parts.netloc}",
    )


def parse_job(text: str) -> JobId | None:
    """The job whose page has this address, at whatever line; None of anything else."""
    try:
        parts = urlsplit(text)
    except ValueError:
        return None
    found = _JOB.fullmatch(parts.path.rstrip("/"))
    if not found or not parts.hostname or parts.scheme not in ("https", "http"):
        return None
    if not REPOSITORY.fullmatch(found[1]):
        return None
    return JobId(int(found[3]), found[1], f"{parts.scheme}://{parts.netloc}")


def checked_repository(text: str, where: str) -> str:
    """`owner/name` as it may stand in a path.

    Raises:
        UsageError: it is none.
    """
    if not REPOSITORY.fullmatch(text):
        raise UsageError(f'expected OWNER/NAME, found "{text}"', where=where)
    return text
