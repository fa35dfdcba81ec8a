"""What ciguard must know of a test framework: list the units, run some of them, spell their ids.

One file an adapter, one line in `table.py`. Standard library only, Python 3.8+ (travels in the
leg). An adapter builds command lines and reads answers; it starts nothing and opens nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Mapping

from ciguard.model import SLOTS

if TYPE_CHECKING:
    from typing import Protocol

    from ciguard.model import Suite


@dataclass(frozen=True, **SLOTS)
class Invocation:
    """A program to start: `env` is added to the environment; cwd is the suite's."""

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, **SLOTS)
class Batch:
    """The files through which a leg and one tested process talk.

    Attributes:
        units_file: JSON list of unit ids, in the order wanted.
        lines_file: the same ids, one a line, for programs that read nothing better; an id that
            holds a line feed is refused for frameworks that need this file.
        record_file: append-only JSON Lines, `process-NNN.jsonl`.
        stop_file: appears when the process is to stop behind the unit that it is at.
        inside_folder: holds the files of `run/inside/`, and nothing else.
        suite, variant, process: identity of the lines; tries_before: executions so far by unit.
        origin_s: the leg's start on the clock that cannot be set back.
    """

    units_file: str
    lines_file: str
    record_file: str
    stop_file: str
    inside_folder: str
    suite: str
    variant: str
    process: int
    origin_s: float
    tries_before: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, **SLOTS)
class ListedUnit:
    """A unit that exists. `file` is relative to the repository, with "/"; "" where unknown."""

    unit: str
    file: str = ""
    categories: tuple[str, ...] = ()


@dataclass(frozen=True, **SLOTS)
class Listing:
    """What a framework answered; with errors the units are not all there are."""

    units: tuple[ListedUnit, ...]
    errors: tuple[str, ...] = ()


if TYPE_CHECKING:

    class Framework(Protocol):
        """One test framework. Modules satisfy it by having the names."""

        NAME: str
        IS_DEFAULT: bool
        FILE_PATTERNS: tuple[str, ...]
        DEFAULT_COMMAND: tuple[str, ...]

        def listing(
            self, suite: Suite, variant: str, answer_file: str, inside_folder: str
        ) -> Invocation:
            """The program that lists the units; it may write `answer_file` or print."""

        def read_listing(self, suite: Suite, answer: bytes, printed: bytes, code: int) -> Listing:
            """Read its answer; a program that failed gives errors, never fewer units."""

        def execution(self, suite: Suite, variant: str, batch: Batch) -> Invocation:
            """The program that runs a batch and appends to its record file."""

        def is_clean(self, exit_code: int) -> bool:
            """Whether the framework ends so when it has said all it had to say."""

        def kin(self, unit: str) -> tuple[str, ...]:
            """Names of the groups a unit belongs to, nearest first: function, class, file, folders.

            Units that share a name are siblings; the last one is "" (all).
            """
