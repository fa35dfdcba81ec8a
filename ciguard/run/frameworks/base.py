"""Interface to a test framework: how to list its units, to run some of them, to read their ids.

An adapter is a row of type `Framework` (registry.py). It builds command lines and parses answers;
it starts no process and opens no file.
"""

from __future__ import annotations

import os
import re
import time
from dataclasses import dataclass, field
from typing import Callable, Final, Mapping

from ciguard.model import SLOTS, Suite


@dataclass(frozen=True, **SLOTS)
class Invocation:
    """A program to start in the suite's folder, with changes of its environment.

    Attributes:
        env: variables to set.
        paths: search path variable (PYTHONPATH) -> folder to put in front.
        options: variable with options -> separator and text to append.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    paths: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, tuple[str, str]] = field(default_factory=dict)


@dataclass(frozen=True, **SLOTS)
class ProcessFiles:
    """The files through which a leg and one tested process communicate.

    Attributes:
        units_file: JSON list of unit ids, in the order in which they are to run.
        tries_file: JSON object: unit -> executions in this leg. A file, because no variable of the
            environment takes more than 128 KiB.
        lines_file: the same ids as `units_file`, one a line; see `Framework.takes_id`.
        record_file: append-only JSON Lines, `process-NNN.jsonl`.
        stop_file: its existence asks the process to stop after its current unit.
        listing_file: the process writes the existing units here and waits for `units_file`; "" for
            no listing.
        stacks_file: prefix of the files into which processes write their stacks on request.
        inside_folder: folder of the extracted plugins, and of no other file.
        suite, variant, process: identity of the lines.
        origin_s: start of the leg on the monotonic clock.
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
    """A unit that exists. `file` is relative to the repository, with "/"; "" if not known."""

    unit: str
    file: str = ""
    group: str | None = None  # defined by the project: its units run in one shard
    timeout_ms: int | None = None  # instead of the suite's timeout; 0: no timeout


@dataclass(frozen=True, **SLOTS)
class Listing:
    """The answer of a framework; with errors the units are incomplete.

    `filters`: settings that select cases inside units, as in an `execution` event.
    `omitted`: number of tests left out, by reason and file; 0 for a file skipped as a whole.
    `untried`: properties of the suite's programs with which ciguard was not tried.
    """

    units: tuple[ListedUnit, ...]
    errors: tuple[str, ...] = ()
    filters: tuple[str, ...] = ()
    omitted: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    untried: tuple[str, ...] = ()


def loaded_before(unit: str) -> str:
    """Return the unit: it is a file, and all files are loaded before the first is announced."""
    return unit


def enclosing(file: str) -> tuple[str, ...]:
    """Return the file, its folders from the inside out, and "", which stands for all units."""
    folders = file.split("/")[:-1]
    outer = ["/".join(folders[:count]) + "/" for count in range(len(folders), 0, -1)]
    return (*filter(None, (file,)), *outer, "")


@dataclass(frozen=True, **SLOTS)
class Framework:
    """One test framework: a row of facts, and functions with defaults that suit most frameworks.

    Attributes:
        unit: noun for a unit, for people: "test", "file", "class".
        listing: returns the program that lists the units of a suite and variant. It may write the
            answer file, the third argument, or print. The fourth is the folder of the plugins.
        read_listing: parses the answer file, the output and the exit code; a failed program gives
            errors, never fewer units.
        execution: returns the program that runs a batch and appends to its record file.
        default_command: command of a suite that sets none.
        file_patterns: names of files that hold tests.
        is_default: framework of a project without any configuration; true for one framework.
        ignore_folder: argument that excludes the tests of folder {}; "" for none.
        plugin_files: files of `run/plugins/` that only this framework needs.
        has_parallel: the adapter reads `Suite.parallel`.
        has_overlap: units of one process may run side by side, not only parts of one unit.
        has_workers: its plugin reads `WORKERS_LIMIT`.
        reports_starts: a start line precedes each unit, in every project.
        closes_units: the end of each unit is reported: a unit that started and was not closed died.
        ids_one_per_line: the program reads `ProcessFiles.lines_file`: see `takes_id`.
        lists_in_tested_process: a tested process writes `ProcessFiles.listing_file`.
        passed_codes: exit codes of a process that has reported all its tests.
        failed_codes: further such codes, valid only with results: an interpreter that finds no
            framework ends with 1, too.
        hints: regular expressions for the output of a process without results, each with advice;
            ^ begins a line, and the first match counts.
        file_of: returns the file that is read before the unit is announced; "" if it may not be.
        hit_own_timeout: returns whether the process ended itself because its unit exceeded a limit
            of the framework, by exit code and output.
        junit_name: returns `classname` and `name` of a unit or case in the framework's JUnit XML.
        ancestors: returns the names of the groups of a unit, nearest first: function, class, file,
            folders. Units that share a name are siblings. Each name is a prefix of the unit's id;
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
    has_parallel: bool = False
    has_overlap: bool = False
    has_workers: bool = False
    reports_starts: bool = True
    closes_units: bool = True
    ids_one_per_line: bool = False
    lists_in_tested_process: bool = False
    passed_codes: tuple[int, ...] = (0,)
    failed_codes: tuple[int, ...] = (1,)
    hints: tuple[tuple[str, str], ...] = ()
    file_of: Callable[[str], str] = lambda _: ""
    hit_own_timeout: Callable[[int, str], bool] = lambda *_: False
    junit_name: Callable[[str], tuple[str, str]] = lambda unit: ("", unit)
    ancestors: Callable[[str], tuple[str, ...]] = enclosing

    def is_normal_exit(self, exit_code: int, *, had_results: bool) -> bool:
        """Return whether the framework ends with this code when it has reported all its tests."""
        return exit_code in self.passed_codes or (had_results and exit_code in self.failed_codes)

    def takes_id(self, unit: str) -> bool:
        """Return whether the framework can be given an id: a file with one id a line needs that."""
        return not (self.ids_one_per_line and "\n" in unit)

    def advice(self, output: str) -> str:
        """Return the advice of the first hint that matches the output; "" for none."""
        matching = (advice for pattern, advice in self.hints if re.search(pattern, output, re.M))
        return next(matching, "")


# The pid of the leg that may reset the memory marks of a process, or "self".
PEAK_RESET_BY: Final = "CIGUARD_PEAK_RESET_BY"
# Set to 1 by users whose tests read the mark themselves, as ru_maxrss: it is not reset then.
KEEP_PEAK: Final = "CIGUARD_KEEP_PEAK"

# Largest number of workers that a framework may choose; "" if none is known.
WORKERS_LIMIT: Final = "CIGUARD_WORKERS"
# Set in a process that runs tests again after the end of the leg: it writes no reports, which would
# replace those of all tests.
EXTRA_TRY: Final = "CIGUARD_EXTRA_TRY"

# Variables of a leg for its own processes: a leg inside a test must not pass on the outer leg's.
LEG_VARIABLES: Final = (
    "CIGUARD_CLAIMS_TOKEN",
    "CIGUARD_COLLECT_FILE",
    EXTRA_TRY,
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
    WORKERS_LIMIT,
)


def origin_variables(origin_s: float) -> dict[str, str]:
    """Return the leg's start for a program with another monotonic clock.

    On Windows the monotonic clock is another one since Python 3.13. `_CLOCK` names that of the leg;
    a program with another clock uses `_AT`, the start by the time of day in seconds.
    """
    return {
        "CIGUARD_ORIGIN_CLOCK": time.get_clock_info("monotonic").implementation,
        "CIGUARD_ORIGIN_AT": repr(time.time() - (time.monotonic() - origin_s)),
    }


def variant_args(suite: Suite, variant: str) -> tuple[str, ...]:
    added = suite.variants.get(variant)
    return (*suite.args, *(added.args if added else ()))


def environment(
    inherited: Mapping[str, str],
    suite: Suite,
    variant: str,
    invocation: Invocation,
    pool_env: Mapping[str, str] = {},  # never changed
) -> dict[str, str]:
    """Return the environment of a program of this suite; later sources replace earlier ones.

    Args:
        inherited: environment of the leg.
    """
    added = suite.variants.get(variant)
    env = {name: value for name, value in inherited.items() if name not in LEG_VARIABLES}
    env.update(pool_env)
    env.update(suite.env)
    env.update(added.env if added else {})
    env.update(invocation.env)
    for name, folder in invocation.paths.items():
        env[name] = os.pathsep.join(filter(None, (folder, env.get(name))))
    for name, (separator, text) in invocation.options.items():
        env[name] = separator.join(filter(None, (env.get(name), text)))
    return env
