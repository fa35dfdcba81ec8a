"""What a proof comes to: the values that `guard` prints and `report` renders. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

from ciguard.errors import ExitCode
from ciguard.model import ENDINGS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ciguard.guard.log_patterns import Evidence
    from ciguard.model import Ending, Outcome, Result, UnitKey

State = Literal["passed", "failed", "incomplete"]
Level = Literal["incomplete", "failed", "warning"]

EXIT_CODE: Final[Mapping[State, ExitCode]] = {
    "passed": ExitCode.OK,
    "failed": ExitCode.TESTS_FAILED,
    "incomplete": ExitCode.INCOMPLETE,
}


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that a person should know; all but warnings decide the state.

    `what` is a whole sentence without its stop, `fix` says what to do about it. Of a leg that died,
    `evidence` shows why, and the `culprits` had begun when it did.
    """

    level: Level
    kind: str
    message: str
    shard: str = ""
    units: tuple[UnitKey, ...] = ()
    fix: str = ""
    evidence: tuple[Evidence, ...] = ()
    culprits: tuple[UnitKey, ...] = ()


@dataclass(frozen=True, slots=True)
class Leg:
    """A planned shard and what its record says.

    `recorded` is False where there is no record; then at most its ending is known. `ended` counts
    planned units with a final result, `counts` final cases by outcome. `bad` are those that went
    wrong: what was stopped with its leg died, and is none of them. `endings` are those that went
    wrong otherwise than by a failure, by how. `wall_s` is a lower bound where the record was cut; a
    prediction is None where the plan knew no unit of the shard.
    """

    shard: str
    recorded: bool
    ending: Ending
    planned: int
    with_result: int
    predicted_wall_s: float | None
    predicted_peak_bytes: int | None
    wall_s: float | None = None
    peak_bytes: int | None = None
    peak_measured_by: str | None = None
    run_attempt: int | None = None
    counts: Mapping[Outcome, int] = field(default_factory=dict)
    endings: Mapping[Ending, int] = field(default_factory=dict)
    bad: int = 0


@dataclass(frozen=True, slots=True)
class Failure:
    """A case whose final result is bad; a unit that died is one, with how."""

    shard: str
    result: Result


@dataclass(frozen=True, slots=True)
class Excused:
    """A failure that does not fail the run, and why."""

    shard: str
    result: Result
    reason: str


@dataclass(frozen=True, slots=True)
class FailureGroup:
    """Failures that have one root, as far as their messages tell.

    Attributes:
        kind: the exception's short name, or how the tests ended.
        place: the frame that is to blame, "" where none is known.
        said: the first line of a message; what differs between them is a mark.
        failures: by shard, then key; at least one.
    """

    kind: str
    frame: str
    message: str
    failures: tuple[Failure, ...]

    @property
    def shards(self) -> int:
        """How many shards it is in."""
        return len({failure.shard for failure in self.failures})


@dataclass(frozen=True, slots=True)
class Hotspot:
    """A class, file or whatever the framework's units have in common, and its bad cases."""

    name: str
    timeouts: int = 0
    out_of_memory: int = 0
    failures: int = 0
    died: int = 0

    @property
    def counts(self) -> tuple[int, int, int, int]:
        """Timeouts, out of memory, failures, died."""
        return self.timeouts, self.out_of_memory, self.failures, self.died

    @property
    def total(self) -> int:
        """All of them."""
        return sum(self.counts)


@dataclass(frozen=True, slots=True)
class Flaky:
    """A unit that went wrong first and right in its last try.

    `first` is its first result for which not memory is to blame, if there is any.
    """

    key: UnitKey
    shard: str
    first: Result

    @property
    def ran_out_of_memory(self) -> bool:
        """Say that it was memory that went wrong."""
        return self.first.ran_out_of_memory


@dataclass(frozen=True, slots=True)
class Missing:
    """A planned unit without a final result, and why."""

    key: UnitKey
    shard: str
    reason: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer. `planned` counts units, `ended` those with a final result.

    Attributes:
        legs: one for each shard of the plan, in its order.
        failures, flaky, starved, missing: by shard, then key; starved are those that only memory
            kept from passing at once.
        quarantined, failing_on_base: bad cases that are not among the failures, in the same order.
        causes, offenders: of the failures, the largest first.
        findings: what makes it incomplete first, then what makes it fail, then warnings.
        counts: final cases by outcome.
        notes: what the headline says of the policy.
    """

    state: State
    plan_id: str
    planned: int
    with_result: int
    legs: tuple[Leg, ...]
    failures: tuple[Failure, ...]
    flaky: tuple[Flaky, ...]
    missing: tuple[Missing, ...]
    findings: tuple[Finding, ...]
    counts: Mapping[Outcome, int]
    quarantined: tuple[Excused, ...] = ()
    failing_on_base: tuple[Excused, ...] = ()
    failure_groups: tuple[FailureGroup, ...] = ()
    hotspots: tuple[Hotspot, ...] = ()
    notes: tuple[str, ...] = ()
    passed_after_oom: tuple[Flaky, ...] = ()

    @property
    def endings(self) -> Mapping[Ending, int]:
        """Final cases that went wrong otherwise than by a failure, by how, over all legs."""
        found: Counter[Ending] = Counter()
        for leg in self.legs:
            found.update(leg.endings)
        return {ending: found[ending] for ending in ENDINGS if found[ending]}

    @property
    def exit_code(self) -> ExitCode:
        """Incomplete outranks failed outranks passed."""
        return EXIT_CODE[self.state]
