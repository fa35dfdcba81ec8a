"""Any command as a shard of one unit, so that it is measured and guarded like a shard of tests."""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Sequence

from ciguard.model import LegPolicy, PlannedUnit, Prediction, Shard, Suite
from ciguard.run.frameworks.base import Invocation
from ciguard.run.frameworks.command import COMMAND

if TYPE_CHECKING:
    from ciguard.run.frameworks.base import ProcessFiles

NAME: Final = "wrapped"
POLICY: Final = LegPolicy()


def unit_of(words: Sequence[str]) -> str:
    """The command line as a shell would read it."""
    return " ".join(map(shlex.quote, words))


def shard_of(words: Sequence[str]) -> Shard:
    """A shard without a key, of the one unit that the command is."""
    unit = PlannedUnit(unit_of(words), has_history=False)
    return Shard(key="", pool="", units=(unit,), predicted=Prediction(0.0, 0.0))


def suite_of(words: Sequence[str], results: Sequence[str] = ()) -> Suite:
    """The suite "" that runs it in the current folder, where it writes `results`."""
    return Suite(framework=NAME, command=tuple(words), results=tuple(results))


def _execution(suite: Suite, variant: str, batch: ProcessFiles) -> Invocation:  # noqa: ARG001
    """The command itself, which is told where its record is."""
    return Invocation(suite.command, {"CIGUARD_RECORD_FILE": batch.record_file})


# The program need not report: `supervisor` itself writes the result. It may add numbers of its own,
# as `metric` lines.
WRAPPED: Final = replace(COMMAND, name=NAME, execution=_execution)
