"""Any program that can list its units and run some of them: the framework of what has none here.

`list` prints one unit a line, or JSON lines with `unit` and, where known, `file`, `group` and
`timeout_ms`. The command is given the units in a file, one a line, and appends the record's `start`
and `result` lines to another one; `{"type":"result","unit":...,"outcome":...}` suffices, and a unit
may have several cases. A program that writes `start` lines gives a death its culprit at once; where
it does not, the leg searches for it, with ever fewer units in a process.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final, Mapping

from ciguard.codec.record.lines import CHECKS, LineSchema
from ciguard.run.frameworks.base import Invocation, ListedUnit, Listing, variant_args

if TYPE_CHECKING:
    from ciguard.model import Suite
    from ciguard.run.frameworks.base import ProcessFiles

NAME: Final = "command"
IS_DEFAULT: Final = False
FILE_PATTERNS: Final[tuple[str, ...]] = ()
DEFAULT_COMMAND: Final[tuple[str, ...]] = ()
IGNORE_FOLDER: Final = ""
UNIT: Final = "line of the list"
CLOSES_UNITS: Final = False  # `closes_units` of the suite says so
KEEPS_ORDER: Final = True
PLUGIN_FILES: Final[tuple[str, ...]] = ()
IDS_ONE_PER_LINE: Final = True
LISTS_IN_TESTED_PROCESS: Final = False
REPORTS_STARTS: Final = False  # the project's own program may or may not

PASSED, FAILED = 0, 1
_UNIT: Final = LineSchema(ListedUnit, CHECKS)


def _substitute(arguments: tuple[str, ...], values: Mapping[str, str]) -> tuple[str, ...]:
    """Put values for `{name}`; other braces (awk, JSON) stay as they are."""
    found = []
    for word in arguments:
        for name, value in values.items():
            word = word.replace("{" + name + "}", value)  # noqa: PLW2901
        found.append(word)
    return tuple(found)


def listing(suite: Suite, variant: str, answer_file: str, inside_folder: str) -> Invocation:  # noqa: ARG001
    """The suite's own list command; its answer is what it prints."""
    argv = _substitute(suite.list_command, {"variant": variant})
    return Invocation(argv, {"CIGUARD_VARIANT": variant})


def _unit(line: str) -> ListedUnit:
    """Read one line of a list. Raises ValueError with the reason."""
    if not line.startswith("{"):
        return ListedUnit(line)
    try:
        unit: ListedUnit = _UNIT.build(json.loads(line))
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if not unit.unit or "\n" in unit.unit:
        raise ValueError(f"unit: expected text in one line, found {unit.unit!r:.80}")
    return unit


def read_listing(suite: Suite, answer: bytes, printed: bytes, code: int) -> Listing:  # noqa: ARG001
    """Units in the order printed; blank lines are skipped."""
    units, errors = [], []
    lines = printed.decode("utf-8", "surrogateescape").split("\n")
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                units.append(_unit(line.rstrip("\r")))
            except ValueError as error:
                errors.append(f"line {number} of the list: {error}: {line:.80}")
    if code != 0:
        output_text = (
            "\n".join(line for line in lines if line.strip())[-2000:] or "it printed nothing"
        )
        errors.append(f"the list command ended with exit code {code}:\n{output_text}")
    return Listing(tuple(units), tuple(errors))


def execution(suite: Suite, variant: str, batch: ProcessFiles) -> Invocation:
    """The suite's command with its placeholders filled; the same values are in the environment."""
    values = {
        "units_file": batch.lines_file,
        "record_file": batch.record_file,
        "results_file": batch.record_file,
        "variant": variant,
    }
    argv = _substitute((*suite.command, *variant_args(suite, variant)), values)
    env = {
        "CIGUARD_UNITS_FILE": batch.lines_file,
        "CIGUARD_RECORD_FILE": batch.record_file,
        "CIGUARD_STOP_FILE": batch.stop_file,
        "CIGUARD_SUITE": batch.suite,
        "CIGUARD_VARIANT": batch.variant,
        "CIGUARD_PROCESS": str(batch.process),
        "CIGUARD_ORIGIN_S": repr(batch.origin_s),
    }
    return Invocation(argv, env)


def file_of(unit: str) -> str:  # noqa: ARG001
    """Nobody knows what the program reads, and when."""
    return ""


def advice(output: str) -> str:  # noqa: ARG001
    """The program is the project's own."""
    return ""


def hit_own_timeout(exit_code: int, output: str) -> bool:  # noqa: ARG001
    """Nobody knows how the program would say so, if not by a result."""
    return False


def is_normal_exit(exit_code: int, *, had_results: bool) -> bool:
    """Whether the program had said all that it had to say."""
    return exit_code == PASSED or (exit_code == FAILED and had_results)


def junit_name(unit: str) -> tuple[str, str]:
    """The id is all that is known."""
    return "", unit


def ancestors(unit: str) -> tuple[str, ...]:
    """Everything before each separator that test names use, from the right; at last all."""
    ends = [index for index, character in enumerate(unit) if character in "/.:[("]
    return (*(unit[:end] for end in reversed(ends) if end), "")
