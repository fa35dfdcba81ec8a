"""What ciguard must know of a test framework: list the units, run some of them, spell their ids.

An adapter is a row, a `Framework`, found by `registry.py`. Standard library only, Python 3.8+
(travels in the leg). It builds command lines and reads answers; it starts and opens nothing.
"""

from __future__ import annotations

import os
import re
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Callable, Final, Mapping, Tuple

from ciguard.model import SLOTS

if TYPE_CHECKING:
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


def announced_first(unit: str) -> str:  # noqa: ARG001
    """No file is read before its unit is announced, or nothing is known of that."""
    return ""


def loaded_before(unit: str) -> str:
    """A unit is a file, and all files are loaded before the first one is announced."""
    return unit


def reported_timeout(exit_code: int, output: str) -> bool:  # noqa: ARG001
    """A test over a limit of the framework has a result that says so, and the others run."""
    return False


def id_alone(unit: str) -> Tuple[str, str]:
    """The framework's JUnit XML names units as the plan does, if it names them at all."""
    return "", unit


def enclosing(file: str) -> tuple[str, ...]:
    """The file, its folders from the inside out, and at last all, as `ancestors` names them."""
    folders = file.split("/")[:-1]
    outer = ["/".join(folders[:count]) + "/" for count in range(len(folders), 0, -1)]
    return (*filter(None, (file,)), *outer, "")


@dataclass(frozen=True, **SLOTS)
class Framework:
    """One test framework: a row of facts, and the functions in which it differs from most.

    Attributes:
        unit: what a unit is, for people: "test", "file", "class".
        listing: gives the program that lists the units of a suite and variant; it may write the
            answer file, the third argument, or print. The fourth is the folder of `run/plugins/`.
        read_listing: reads that file, what was printed and the exit code; a program that failed
            gives errors, never fewer units.
        execution: gives the program that runs a batch and appends to its record file.
        default_command: of a suite that sets none.
        file_patterns: names of files that hold tests.
        is_default: what a project without any configuration has; true of one framework.
        ignore_folder: argument that keeps the tests of folder {} out; "" for none.
        plugin_files: those of `run/plugins/` that are not for every framework.
        reports_starts: whether a start line comes before each unit, whatever the project does.
        closes_units: whether it says when a unit is over: one that started and was not closed died.
        keeps_order: whether it runs the units of a process in the order given; else `read_listing`
            gives them in the framework's own order, in which the planner simulates them.
        ids_one_per_line: whether it reads `ProcessFiles.lines_file`: no id may hold a line feed.
        lists_in_tested_process: whether it writes `ProcessFiles.listing_file`.
        passed_codes: exit codes with which it ends when it has said all it had to say.
        failed_codes: the same, where it had results: an interpreter that finds no framework ends
            with 1, as one whose tests failed.
        hints: regular expressions for what a process printed before its first unit, each with what
            to do; ^ begins a line, and the first one that matches counts.
        file_of: the file that is read before the unit is announced; "" where it need not be.
        hit_own_timeout: whether something in the process has ended it, by its exit code and output,
            as its unit was over a limit there.
        junit_name: `classname` and `name` of a unit or case in the framework's own JUnit XML.
        ancestors: names of the groups a unit belongs to, nearest first: function, class, file,
            folders. Units that share a name are siblings. Each is the beginning of the unit's id;
            the last one is "" (all).
    """

    name: str
    unit: str
    listing: Callable[[Suite, str, str, str], Invocation]
    read_listing: Callable[[Suite, bytes, bytes, int], Listing]
    execution: Callable[[Suite, str, ProcessFiles], Invocation]
    default_command: tuple[str, ...] = ()
    file_patterns: tuple[str, ...] = ()
    is_default: bool = False
    ignore_folder: str = ""
    plugin_files: tuple[str, ...] = ()
    reports_starts: bool = True
    closes_units: bool = True
    keeps_order: bool = True
    ids_one_per_line: bool = False
    lists_in_tested_process: bool = False
    passed_codes: tuple[int, ...] = (0,)
    failed_codes: tuple[int, ...] = (1,)
    hints: tuple[tuple[str, str], ...] = ()
    file_of: Callable[[str], str] = announced_first
    hit_own_timeout: Callable[[int, str], bool] = reported_timeout
    junit_name: Callable[[str], Tuple[str, str]] = id_alone
    ancestors: Callable[[str], Tuple[str, ...]] = enclosing

    def is_normal_exit(self, exit_code: int, *, had_results: bool) -> bool:
        """Return whether the framework ends so when it has said all it had to say."""
        return exit_code in self.passed_codes or (had_results and exit_code in self.failed_codes)

    def takes_id(self, unit: str) -> bool:
        """Return whether the framework can be given an id: one that reads lines needs one line."""
        return not (self.ids_one_per_line and "\n" in unit)

    def advice(self, output: str) -> str:
        """The first hint for what a process printed; "" for none."""
        found = (advice for pattern, advice in self.hints if re.search(pattern, output, re.M))
        return next(found, "")


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
