"""Real recordings of test durations, as the product sees them: a history and an inventory.

They lie beside the project, not in it: `../shared/data`, or where `CIGUARD_SHARED_DATA` says. What
benchmarks ask about a plan of them is here too: how long each shard of it really takes.
"""

from __future__ import annotations

import gzip
import json
import math
import os
import sys
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ciguard.codec.inventory_file import InventoryUnit
from ciguard.history import file as codec
from ciguard.history.runs import HistoryLeg, HistoryRun
from ciguard.model import CaseKey
from ciguard.plan.estimates import estimate_units
from ciguard.plan.history_inputs import join_history, map_keys
from ciguard.plan.inventory import inventory
from ciguard.plan.packing import Costs, Preassigned, form_groups, lower_bound_s, pack_balanced
from ciguard.run.frameworks import command, pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from ciguard.plan.estimates import Estimates

    Durations = Mapping[str, float]
    Shards = Sequence[Sequence[int]]

FOLDER: Final = Path(
    os.environ.get("CIGUARD_SHARED_DATA") or Path(__file__).parents[2] / "shared" / "data"
)
COUNTS: Final = (4, 8, 16, 32, 64, 128)
LEAST_UNITS: Final = 4  # a shard: with fewer, the longest unit says how long any plan takes
COPIED_RATIO: Final = 0.5  # of a recording: more of it copied, and it is no other run


@dataclass(frozen=True, slots=True)
class Trial:
    """Plan with what is known, judge by what came then.

    Attributes:
        known: recordings, oldest first; lost ones have no entry.
        least: by unit, what it took at least in the last of them, where it did not complete.
        later: the next run, in the order in which its program ran it.
    """

    suite: str
    name: str
    known: tuple[Durations, ...]
    later: Durations
    least: Durations

    @property
    def counts(self) -> tuple[int, ...]:
        """Numbers of shards that mean something for so many units."""
        return tuple(count for count in COUNTS if count * LEAST_UNITS <= len(self.later))

    def bound_s(self, count: int) -> float:
        """What no plan of the later run can beat."""
        walls_s = self.later.values()
        return lower_bound_s(math.fsum(walls_s), max(walls_s), count)


def require() -> None:
    """Stop with a reason where the recordings are not there."""
    if not FOLDER.is_dir():
        print(f"no recordings in {FOLDER}: nothing to measure", file=sys.stderr)
        sys.exit(0)


def content(path: Path) -> Any:
    with gzip.open(path) as stream:
        return json.load(stream)


def pairs() -> Iterator[Trial]:
    """Two recordings of one suite: named `t0` (newest) ... consecutive, or `long`."""
    for path in sorted((FOLDER / "duration-pairs").glob("*.before.json.gz")):
        suite, name, *_ = path.name.split(".")
        after = path.with_name(path.name.replace(".before.", ".after."))
        yield Trial(
            suite, name, (content(path)["durations"],), content(after)["durations"], least={}
        )


def histories() -> dict[str, tuple[Durations, ...]]:
    """Recordings by suite, oldest first, without those that mostly repeat the one before.

    A duration that is the same to the last digit was copied, not measured.
    """
    found: dict[str, tuple[Durations, ...]] = {}
    for path in sorted((FOLDER / "duration-history").glob("*.json.gz")):
        runs: list[Durations] = []
        for recording in content(path):
            run = recording["durations"]
            before = runs[-1] if runs else {}
            copied = sum(before.get(unit) == wall_s for unit, wall_s in run.items())
            if copied < COPIED_RATIO * len(run):
                runs.append(run)
        found[path.name.partition(".")[0]] = tuple(runs)
    return found


def following(depth: int, begin: int = 1) -> Iterator[Trial]:
    """Each recording from the one at `begin` on, planned with up to `depth` before it."""
    for suite, runs in histories().items():
        for later in range(begin, len(runs)):
            known = runs[max(0, later - depth) : later]
            yield Trial(suite, f"run {later}", known, runs[later], least={})


def ancestors_of(ids: Sequence[str]) -> Callable[[str], tuple[str, ...]]:
    """How the adapter of such ids names their groups."""
    return pytest.ancestors if any("::" in unit for unit in ids) else command.ancestors


def history(known: Sequence[Durations], least: Durations) -> codec.History:
    """The recordings as the history file holds them: one leg a run, a second for what was lost."""
    keys = sorted({CaseKey("", "", unit, unit) for run in (*known, least) for unit in run})
    position = {key.unit: number for number, key in enumerate(keys)}
    rows = [
        (position[unit], number, 0, wall_s)
        for number, run in enumerate(known)
        for unit, wall_s in run.items()
    ]
    rows += [(position[unit], len(known) - 1, 1, wall_s) for unit, wall_s in least.items()]
    key, run, leg, wall_s = np.array(sorted(rows), np.float64).reshape(-1, 4).T
    values = codec.of_columns(
        {
            "key": key.astype(np.int32),
            "run": run.astype(np.int32),
            "leg": leg.astype(np.int32),
            "outcome": np.full(len(rows), codec.CODE_NAMES["outcome"].index("passed"), np.uint8),
            "ending": np.full(len(rows), codec.CODE_NAMES["ending"].index("completed"), np.uint8),
            "measured_by": np.zeros(len(rows), np.uint8),
            "try_number": np.ones(len(rows), np.uint8),
            "wall_s": wall_s,
        }
    )
    start = datetime(2026, 1, 1, tzinfo=UTC)
    legs = (
        HistoryLeg(shard="1", ending="completed", complete=True),
        HistoryLeg(shard="2", ending="cancelled", complete=False),
    )
    runs = tuple(
        HistoryRun(run_id=number + 1, at=start + timedelta(days=number), legs=legs)
        for number in range(len(known))
    )
    return codec.History(values, runs, tuple(keys))


def estimated(trial: Trial) -> Estimates:
    """What `ciguard plan` takes for the later run's units, sorted by id."""
    ids = sorted(trial.later)
    found = inventory([InventoryUnit(unit) for unit in ids], exclude={}, ordered=False)
    past = history(trial.known, trial.least)
    rows = join_history(past, map_keys(past, found))
    groups = {"": ancestors_of(ids)}
    return estimate_units(rows, len(ids), found.ancestors(groups), found.members(groups))


def packed(walls_s: Sequence[float], count: int) -> Shards:
    """What `ciguard plan --group none --shards count` makes of estimates."""
    costs = Costs(walls_s)
    return pack_balanced(form_groups(costs, None), [Preassigned()] * count, costs).shards


def makespan_s(shards: Shards, walls_s: Sequence[float]) -> float:
    """How long the longest shard takes."""
    return max(math.fsum(walls_s[position] for position in shard) for shard in shards)
