"""Any command as a shard of one unit, so that it is measured and guarded like a shard of tests."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Final, Sequence

from ciguard.model import LegPolicy, PlannedUnit, Prediction, Shard, Suite
from ciguard.run.frameworks.base import Invocation
from ciguard.run.process.exit_status import fatal_signal

if TYPE_CHECKING:
    from ciguard.run.frameworks.base import ProcessFiles

NAME: Final = "wrapped"
POLICY: Final = LegPolicy()


def unit_of(command: Sequence[str]) -> str:
    """The command line as a shell would read it."""
    return " ".join(map(shlex.quote, command))


def shard_of(command: Sequence[str]) -> Shard:
    """A shard without a key, of the one unit that the command is."""
    unit = PlannedUnit(unit_of(command), has_history=False)
    return Shard(key="", pool="", units=(unit,), predicted=Prediction(0.0, 0.0))


def suite_of(command: Sequence[str], results: Sequence[str] = ()) -> Suite:
    """The suite "" that runs it in the current folder, where it writes `results`."""
    return Suite(framework=NAME, command=tuple(command), results=tuple(results))


class CommandExecutor:
    """An executor whose program owes nothing: `supervisor` itself writes the result.

    What the program may add is numbers of its own, as `metric` lines.
    """

    REPORTS_STARTS: Final = False

    def execution(self, suite: Suite, variant: str, batch: ProcessFiles) -> Invocation:  # noqa: ARG002
        """The command itself, which is told where its record is."""
        return Invocation(suite.command, {"CIGUARD_RECORD_FILE": batch.record_file})

    def file_of(self, unit: str) -> str:  # noqa: ARG002
        """None."""
        return ""

    def advice(self, output: str) -> str:  # noqa: ARG002
        """None."""
        return ""

    def hit_own_timeout(self, exit_code: int, output: str) -> bool:  # noqa: ARG002
        """Its exit code says all."""
        return False

    def is_normal_exit(self, exit_code: int, *, had_results: bool) -> bool:  # noqa: ARG002
        """An exit code is an answer; a signal is not."""
        return fatal_signal(exit_code) is None
