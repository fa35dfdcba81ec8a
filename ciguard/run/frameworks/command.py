"""Framework `command`: any program that can list its units and run some of them.

`list` prints one unit a line, or JSON lines with `unit` and, if known, `file`, `group` and
`timeout_ms`. The command reads the units from a file, one a line, and appends `start` and `result`
lines to its record; `{"type":"result","unit":...,"outcome":...}` suffices, and a unit may have
several cases. With `start` lines, the culprit of a death is known at once; otherwise the leg
bisects the units.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final, Mapping

from ciguard.codec.record.lines import CHECKS, LineSchema
from ciguard.run.frameworks.base import Framework, Invocation, ListedUnit, Listing, variant_args
from ciguard.run.frameworks.id_limit import multiline
from ciguard.run.frameworks.plugin_protocol import batch_variables

if TYPE_CHECKING:
    from ciguard.model import Suite
    from ciguard.run.frameworks.base import ProcessFiles

_UNIT: Final = LineSchema(ListedUnit, CHECKS)


def _substitute(arguments: tuple[str, ...], values: Mapping[str, str]) -> tuple[str, ...]:
    """Replace each `{name}` by its value; other braces (awk, JSON) stay unchanged."""
    replaced = []
    for word in arguments:
        for name, value in values.items():
            word = word.replace("{" + name + "}", value)  # noqa: PLW2901
        replaced.append(word)
    return tuple(replaced)


def listing(suite: Suite, variant: str, answer_file: str, inside_folder: str) -> Invocation:  # noqa: ARG001
    """Return the suite's list command, which prints the units."""
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
    if not unit.unit:
        raise ValueError("unit: expected text, found ''")
    if not COMMAND.takes_id(unit.unit):
        raise ValueError(multiline(unit.unit))
    return unit


def read_listing(suite: Suite, answer: bytes, printed: bytes, code: int) -> Listing:  # noqa: ARG001
    """Parse the units in the order printed; blank lines are skipped."""
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
    """Return the suite's command with its placeholders replaced, and environment variables."""
    values = {
        "units_file": batch.lines_file,
        "record_file": batch.record_file,
        "results_file": batch.record_file,
        "variant": variant,
    }
    argv = _substitute((*suite.command, *variant_args(suite, variant)), values)
    return Invocation(argv, {**batch_variables(batch), "CIGUARD_UNITS_FILE": batch.lines_file})


def ancestors(unit: str) -> tuple[str, ...]:
    """Return the text before each separator of test names, from the right, and "" for all."""
    ends = [index for index, character in enumerate(unit) if character in "/.:[("]
    return (*(unit[:end] for end in reversed(ends) if end), "")


COMMAND: Final = Framework(
    "command",
    unit="line of the list",
    listing=listing,
    read_listing=read_listing,
    execution=execution,
    reports_starts=False,  # the project's program may write start lines
    closes_units=False,  # `closes_units` of the suite decides
    ids_one_per_line=True,
    ancestors=ancestors,
)
