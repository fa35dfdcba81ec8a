"""What ciguard must know of a test framework: list the units, run some of them, spell their ids.

One file an adapter, found by `registry.py`. Standard library only, Python 3.8+ (travels in the
leg). An adapter builds command lines and reads answers; it starts nothing and opens nothing.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Mapping, Tuple

from ciguard.model import SLOTS

if TYPE_CHECKING:
    from typing import Protocol

    from ciguard.model import Suite


@dataclass(frozen=True, **SLOTS)
class Invocation:
    """A program to start: `env` is added to the environment; cwd is the suite's.

    `paths` are folders put in front of the search path that a variable holds (PYTHONPATH);
    `options`, a separator and a text each, go behind what a variable of the framework holds.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    paths: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, Tuple[str, str]] = field(default_factory=dict)


@dataclass(frozen=True, **SLOTS)
class ProcessFiles:
    """The files through which a leg and one tested process talk.

    Attributes:
        units_file: JSON list of unit ids, in the order wanted.
        tries_file: JSON object, by unit the executions that it had in this leg; here and not in the
            environment, of which no variable takes more than 128 KiB.
        lines_file: the same ids, one a line, for programs that read nothing better; an id that
            holds a line feed is refused for frameworks that need this file.
        record_file: append-only JSON Lines, `process-NNN.jsonl`.
        stop_file: appears when the process is to stop after the unit that it is at.
        listing_file: where the process writes what exists, "" for no listing: then it waits for
            `units_file`.
        stacks_file: start of the names of files in which processes write their stacks when asked.
        inside_folder: holds the files of `run/plugins/`, and nothing else.
        suite, variant, process: identity of the lines.
        origin_s: the leg's start on the clock that cannot be set back.
    """

    units_file: str
    tries_file: str
    lines_file: str
    record_file: str
    stop_file: str
    stacks_file: str
    inside_folder: str
    suite: str
    variant: str
    process: int
    origin_s: float
    listing_file: str = ""


@dataclass(frozen=True, **SLOTS)
class ListedUnit:
    """A unit that exists. `file` is relative to the repository, with "/"; "" where unknown."""

    unit: str
    file: str = ""
    group: str | None = None  # of the project's own: its units run in one shard
    timeout_ms: int | None = None  # its own limit, in place of the suite's; 0: none


@dataclass(frozen=True, **SLOTS)
class Listing:
    """The answer of a framework; with errors the units are not all there are.

    `filters`: settings that select cases inside units, as an `execution` event names them.
    `omitted`: as `Suite` has it.
    """

    units: tuple[ListedUnit, ...]
    errors: tuple[str, ...] = ()
    filters: tuple[str, ...] = ()
    omitted: Mapping[str, Mapping[str, int]] = field(default_factory=dict)


if TYPE_CHECKING:

    class Executor(Protocol):
        """The part of a framework that running needs."""

        @property
        def REPORTS_STARTS(self) -> bool:
            """Whether a start line comes before each unit, whatever the project does."""

        def execution(self, suite: Suite, variant: str, batch: ProcessFiles) -> Invocation:
            """The program that runs a batch and appends to its record file."""

        def file_of(self, unit: str) -> str:
            """The file that is read before the unit is announced; "" where it need not be."""

        def advice(self, output: str) -> str:
            """What to do where what a process printed before its first unit says so; else ""."""

        def hit_own_timeout(self, exit_code: int, output: str) -> bool:
            """Whether something in the process has ended it as its unit was over a limit there."""

        def is_normal_exit(self, exit_code: int, *, had_results: bool) -> bool:
            """Whether the framework ends so when it has said all it had to say.

            An interpreter that finds no framework ends with 1, as one whose tests failed.
            """

    class Framework(Executor, Protocol):
        """One test framework. Modules satisfy it by having the names."""

        NAME: str
        IS_DEFAULT: bool
        FILE_PATTERNS: tuple[str, ...]
        DEFAULT_COMMAND: tuple[str, ...]
        IGNORE_FOLDER: str  # argument that keeps the tests of folder {} out; "" for none
        UNIT: str  # what a unit is, for people: "test", "file", "class"
        CLOSES_UNITS: bool  # says when a unit is over: one that started and was not closed died
        # Runs the units of a process in the order given; else `read_listing` gives them in the
        # framework's own order, in which the planner simulates them.
        KEEPS_ORDER: bool
        PLUGIN_FILES: tuple[str, ...]  # of `run/plugins/`, besides the Python modules
        IDS_ONE_PER_LINE: bool  # reads `ProcessFiles.lines_file`: no id of its may hold a line feed
        LISTS_IN_TESTED_PROCESS: bool  # writes `ProcessFiles.listing_file`

        def listing(
            self, suite: Suite, variant: str, answer_file: str, inside_folder: str
        ) -> Invocation:
            """The program that lists the units; it may write `answer_file` or print."""

        def read_listing(self, suite: Suite, answer: bytes, printed: bytes, code: int) -> Listing:
            """Read its answer; a program that failed gives errors, never fewer units."""

        def junit_name(self, unit: str) -> Tuple[str, str]:
            """`classname` and `name` of a unit or case in the framework's own JUnit XML."""

        def ancestors(self, unit: str) -> tuple[str, ...]:
            """Names of the groups a unit belongs to, nearest first: function, class, file, folders.

            Units that share a name are siblings. Each is the beginning of the unit's id; the last
            one is "" (all).
            """


def enclosing(file: str) -> tuple[str, ...]:
    """The file, its folders from the inside out, and at last all, as `ancestors` names them."""
    folders = file.split("/")[:-1]
    outer = ["/".join(folders[:count]) + "/" for count in range(len(folders), 0, -1)]
    return (*filter(None, (file,)), *outer, "")


# Who may reset the memory marks of a process: the leg with this pid, or "self".
PEAK_RESET_BY: Final = "CIGUARD_PEAK_RESET_BY"
# A user sets it to 1 for tests that read the mark themselves, as ru_maxrss: it is not reset then.
KEEP_PEAK: Final = "CIGUARD_KEEP_PEAK"

# What a leg says to its own process: one inside a tested process must not hand on the outer one's.
LEG_VARIABLES: Final = (
    "CIGUARD_CLAIMS_TOKEN",
    "CIGUARD_COLLECT_FILE",
    "CIGUARD_LISTING_FILE",
    PEAK_RESET_BY,
    "CIGUARD_OOM_FILE",
    "CIGUARD_ORIGIN_AT",
    "CIGUARD_ORIGIN_CLOCK",
    "CIGUARD_ORIGIN_S",
    "CIGUARD_PROCESS",
    "CIGUARD_RECORD_FILE",
    "CIGUARD_STACKS_FILE",
    "CIGUARD_STOP_FILE",
    "CIGUARD_SUITE",
    "CIGUARD_TAKEN_BY",
    "CIGUARD_TRIES_FILE",
    "CIGUARD_UNITS_FILE",
    "CIGUARD_VARIANT",
)


def origin_variables(origin_s: float) -> dict[str, str]:
    """The leg's start for a program whose own clock counts from elsewhere.

    On Windows that which cannot be set back is another one since Python 3.13. `_CLOCK` names the
    leg's; where it is not the program's own, `_AT` is the start by the time of day, in seconds.
    """
    return {
        "CIGUARD_ORIGIN_CLOCK": time.get_clock_info("monotonic").implementation,
        "CIGUARD_ORIGIN_AT": repr(time.time() - (time.monotonic() - origin_s)),
    }


def variant_args(suite: Suite, variant: str) -> tuple[str, ...]:
    """The suite's arguments and what its variant adds."""
    added = suite.variants.get(variant)
    return (*suite.args, *(added.args if added else ()))


def environment(
    inherited: Mapping[str, str],
    suite: Suite,
    variant: str,
    invocation: Invocation,
    pool_env: Mapping[str, str] = {},  # never changed
) -> dict[str, str]:
    """The whole environment of a program of this suite; the later source wins.

    Args:
        inherited: the leg's own environment.
    """
    added = suite.variants.get(variant)
    found = {name: value for name, value in inherited.items() if name not in LEG_VARIABLES}
    found.update(pool_env)
    found.update(suite.env)
    found.update(added.env if added else {})
    found.update(invocation.env)
    for name, folder in invocation.paths.items():
        found[name] = os.pathsep.join(filter(None, (folder, found.get(name))))
    for name, (separator, text) in invocation.options.items():
        found[name] = separator.join(filter(None, (found.get(name), text)))
    return found
