"""One row of what a run can come to; `test_cases.py` puts each through the real command."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from fakegithub.state import Fault
from guard.fixtures import World

from ciguard.guard.verdict import State
from ciguard.model import Ending
from ciguard.model.jobs import Job


@dataclass(frozen=True)
class Case:
    """One row.

    Attributes:
        happens: to what three green legs left.
        says: part of the first line, or of what is said of `shard`.
        ending: of `shard`.
        jobs: in place of those of their name and attempt, or beside them; all others ended as the
            last line of their leg says.
        said, log: of the newest job of `shard`.
        legs: what `needs` says of the matrix; "" for what the jobs come to.
        shows: part of the first evidence.
        calls: beside the list of jobs, for the one leg; None: not looked at.
        files, words: in the folder, and in place of `--records`.
        change: what a pull request changes; None: it is a push.
        event: another event of it, or other keys of its payload.
    """

    verdict: State
    happens: tuple[Callable[[World], None], ...] = ()
    expected_headline: str = ""
    ending: Ending = "completed"
    shard: str = "03"
    jobs: tuple[Job, ...] = ()
    expected_texts: tuple[str, ...] = ()
    log: str | None = None
    legs: str = ""
    shows: str = ""
    calls: tuple[str, ...] | None = None
    without: tuple[str, ...] = ()
    faults: tuple[Fault, ...] = ()
    attempt: int = 1
    files: Mapping[str, bytes] = field(default_factory=dict)
    words: tuple[str, ...] = ()
    change: Mapping[str, str] | None = None
    event: tuple[str, Mapping[str, Any]] = ("", {})
