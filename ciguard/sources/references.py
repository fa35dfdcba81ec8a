"""The grammar of references to runs, the same in all commands. Pure.

    123456, 123456/2                      a run id, with its run attempt
    https://HOST/OWNER/NAME/actions/runs/123456[/attempts/2][...]
    records/, leg.jsonl                   a record's folder, or a file of one
    out/junit.xml, artifacts/*/*.trx      result files
    branch:main                           the newest run of a commit on a branch
    base                                  the run that `compare` chooses for the candidate
    this                                  the run that this process is part of

An existing path is a path, even if it has another meaning too.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from ciguard.errors import InputError, UsageError
from ciguard.github.repository_ref import REPOSITORY

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
    """A run of the history or of GitHub; `server` and `repository` are "" without an address."""

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
    """The newest run of a commit on a branch."""

    name: str


@dataclass(frozen=True, slots=True)
class Base:
    """The run that `compare` chooses for the candidate."""


@dataclass(frozen=True, slots=True)
class CurrentRun:
    """The run that this process is part of."""


@dataclass(frozen=True, slots=True)
class PathReference:
    """A path: a record's folder or file, or result files; `wild`: the text is a pattern."""

    text: str
    wild: bool = False


Reference = RunId | Branch | Base | CurrentRun | PathReference
_KEYWORDS: Final[dict[str, Reference]] = {"base": Base(), "this": CurrentRun()}


def parse(text: str, side: str, exists: Callable[[str], bool]) -> Reference:
    """Read one reference.

    Args:
        side: name of the argument, for errors.
        exists: returns whether a path exists.

    Raises:
        UsageError: the address is not that of a run, or a branch has no name.
        InputError: the text is no reference, and no path.
    """
    where = f"{side}: {text}" if text else side
    if text and exists(text):
        return PathReference(text)
    if text in _KEYWORDS:
        return _KEYWORDS[text]
    if match := _RUN.fullmatch(text):
        return RunId(int(match[1]), int(match[2]) if match[2] else None)
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
    match = _PAGE.fullmatch(parts.path.rstrip("/"))
    if not match or not parts.hostname:
        raise UsageError("no run's address", where=where, fix=fix)
    return RunId(
        int(match[2]),
        int(match[3]) if match[3] else None,
        checked_repository(match[1], where),
        f"{parts.scheme}://{parts.netloc}",
    )


def parse_job(text: str) -> JobId | None:
    """Parse the address of a job's page, with or without a line; None for other texts."""
    try:
        parts = urlsplit(text)
    except ValueError:
        return None
    match = _JOB.fullmatch(parts.path.rstrip("/"))
    is_page = parts.hostname and parts.scheme in ("https", "http")
    if not match or not is_page or not REPOSITORY.fullmatch(match[1]):
        return None
    return JobId(int(match[3]), match[1], f"{parts.scheme}://{parts.netloc}")


def checked_repository(text: str, where: str) -> str:
    """Return `owner/name` if it is valid.

    Raises:
        UsageError: the text is no name of a repository.
    """
    if not REPOSITORY.fullmatch(text):
        raise UsageError(f'expected OWNER/NAME, found "{text}"', where=where)
    return text
