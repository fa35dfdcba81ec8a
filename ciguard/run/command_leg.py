"""Any command as a shard of one unit, so that it is measured and guarded like a shard of tests."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Final, Sequence

from ciguard.model import LegPolicy, PlannedUnit, Prediction, Shard, Suite
from ciguard.run.frameworks import command
from ciguard.run.frameworks.base import Invocation
from ciguard.run.process.ending import fatal_signal

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


class CommandExecutor:
    """An executor whose program need not report: `supervisor` itself writes the result.

    The program may add numbers of its own, as `metric` lines.
    """

    REPORTS_STARTS: Final = False

    def execution(self, suite: Suite, variant: str, batch: ProcessFiles) -> Invocation:  # noqa: ARG002
        """The command itself, which is told where its record is."""
        return Invocation(suite.command, {"CIGUARD_RECORD_FILE": batch.record_file})

    file_of = staticmethod(command.file_of)
    advice = staticmethod(command.advice)
    hit_own_timeout = staticmethod(command.hit_own_timeout)

    def is_normal_exit(self, exit_code: int, *, had_results: bool) -> bool:  # noqa: ARG002
        """An exit code is an answer; a signal is not."""
        return fatal_signal(exit_code) is None
