"""What moving blocks during the run gains over the static plan, on real recordings.

    python benchmarks/moved_blocks.py [--choose]

Plans each recording with those before it, by ciguard's own packing, test by test; then runs the
next recording on paper: each leg its own part, then block by block as `choose_block` says. Judged
by makespan / lower bound, geometric means. Legs are 0, 10 or 20 % apart (standard deviation of the
logarithm of their speed; the bound knows the speeds). A claim takes 0.5 or 2 s, of which a leg
waits for what its last test does not cover; starting a process for a block takes nothing, or 2 s.

Faults: 5 % of the claims get no answer, or the service is away for a minute, from 0.8 of the
makespan on. A leg without an answer waits 2 s, runs all that it has and asks no more. It repeats
meanwhile that it does so, and once the service hears of it, nobody gets its blocks any more.

`--choose` prints what shares and numbers of blocks give on half of the recordings; else the other
half is judged, with what was chosen. Needs `../shared/data`.
"""

from __future__ import annotations

import argparse
import heapq
import itertools
import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from recordings import COUNTS, estimated, following, packed, pairs, require

from ciguard.plan.pool_shards import (
    HELD_BACK_RATIO,
    MAX_BLOCKS,
    PIECE_RATIO,
    Piece,
    cut_shard,
    neighbours,
)
from ciguard.serve.block_exchange import LegProgress, choose_block

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from recordings import Trial

SEED: Final = 7
DEPTH: Final = 8  # recordings that a plan may know
FIRST: Final = 4
PATIENCE_S: Final = 2.0
LOST_RATIO: Final = 0.05
AWAY_S: Final = 60.0
AWAY_FROM_RATIO: Final = 0.8
SPREADS: Final = (0.0, 0.1, 0.2)
CLAIMS_S: Final = (0.5, 2.0)
START_S: Final = 2.0
DRAWS: Final = 2  # of speeds and lost claims
SLOWER_RATIO: Final = 1.01


@dataclass(frozen=True, slots=True)
class Planned:
    """A plan of so many shards, and what its units really took."""

    trial: str
    count: int
    shards: tuple[tuple[Piece, ...], ...]
    walls_s: Sequence[float]
    bound_s: float


@dataclass(frozen=True, slots=True)
class Weather:
    """What is asked of the service, and how it fails."""

    claim_s: float
    start_s: float = 0.0
    spread: float = 0.0
    lost_ratio: float = 0.0
    away_s: float = 0.0

    @property
    def cost_s(self) -> float:
        """Of a block, besides its units."""
        return self.claim_s + self.start_s


class Outcome(NamedTuple):
    """What one run on paper came to."""

    static: float  # makespan / bound
    moved: float
    claims: float  # a leg
    repeated: float  # executions above one, of all
    static_s: float  # makespan


@dataclass(slots=True)
class Leg:
    """A leg of the run on paper."""

    speed: float
    own: tuple[int, ...]
    blocks: dict[str, tuple[int, ...]]  # its own that nobody has run yet, as far as it knows
    end_s: float = 0.0
    is_static: bool = False
    ran: list[int] = field(default_factory=list)


def plans() -> Iterator[Planned]:
    for trial in itertools.chain(pairs(), following(DEPTH, FIRST)):
        yield from _plans_of(trial)


def _plans_of(trial: Trial) -> Iterator[Planned]:
    ids = sorted(trial.later)
    walls_s = estimated(trial).wall_s.tolist()
    for count in trial.counts:
        shards = tuple(tuple(_pieces(ids, walls_s, shard)) for shard in packed(walls_s, count))
        real_s = [trial.later[unit] for unit in ids]
        yield Planned(f"{trial.suite} {trial.name}", count, shards, real_s, trial.bound_s(count))


def _pieces(ids: Sequence[str], walls_s: Sequence[float], shard: Sequence[int]) -> Iterator[Piece]:
    """As in a plan: neighbours in a file stay together up to a part of the shard."""
    most_s = PIECE_RATIO * math.fsum(walls_s[unit] for unit in shard)
    by_file = itertools.groupby(sorted(shard), key=lambda unit: ids[unit].partition("::")[0])
    for _, members in by_file:
        yield from neighbours(list(members), walls_s, most_s)


class PaperRun:
    """One run: legs in the order of their questions; the service's answers are the product's."""

    def __init__(
        self,
        plan: Planned,
        weather: Weather,
        speeds: Sequence[float],
        random: np.random.Generator,
        *,
        held_back: float = HELD_BACK_RATIO,
        max_blocks: int = MAX_BLOCKS,
    ) -> None:
        self.plan, self.weather, self.random = plan, weather, random
        self.legs: list[Leg] = []
        self.progress: dict[str, LegProgress] = {}
        self.unconfirmed: dict[str, list[tuple[str, float]]] = {}
        self.alone: list[tuple[float, str]] = []  # when the service hears of whom
        self.claims = 0
        self.away_from_s = math.inf
        for number, (shard, speed) in enumerate(zip(plan.shards, speeds, strict=True)):
            cut = cut_shard(
                shard,
                claim_s=weather.claim_s,
                start_s=weather.start_s,
                held_back=held_back,
                max_blocks=max_blocks,
            )
            blocks = {f"{number}.{place}": one for place, one in enumerate(cut.blocks)}
            self.legs.append(
                Leg(speed, cut.own, {name: one.members for name, one in blocks.items()})
            )
            walls_s = {name: one.wall_s for name, one in blocks.items()}
            own_s = math.fsum(one.wall_s for one in shard) - math.fsum(walls_s.values())
            self.progress[str(number)] = LegProgress("", own_s, walls_s, began_s=0.0)

    def static_s(self) -> float:
        return max(
            leg.speed * math.fsum(self.plan.walls_s[unit] for one in shard for unit in one.members)
            for leg, shard in zip(self.legs, self.plan.shards, strict=True)
        )

    def makespan_s(self) -> float:
        if self.weather.away_s:
            self.away_from_s = AWAY_FROM_RATIO * self.static_s()
        questions = [(self._run(leg, leg.own, 0.0), number) for number, leg in enumerate(self.legs)]
        heapq.heapify(questions)
        while questions:
            asks_s, number = heapq.heappop(questions)
            next_s = self._ask(number, asks_s)
            if next_s is not None:
                heapq.heappush(questions, (next_s, number))
        return max(leg.end_s for leg in self.legs)

    def _run(self, leg: Leg, units: Sequence[int], begin_s: float) -> float:
        """Run units; the time at which the last of them begins, when the leg asks for more."""
        walls_s = [leg.speed * self.plan.walls_s[unit] for unit in units]
        leg.ran += units
        leg.end_s = begin_s + math.fsum(walls_s)
        return leg.end_s - (walls_s[-1] if walls_s else 0.0)

    def _ask(self, number: int, asks_s: float) -> float | None:
        """One claim of a leg; the time of its next one, None where it asks no more."""
        leg, name, weather = self.legs[number], str(number), self.weather
        self.claims += 1
        is_away = self.away_from_s <= asks_s < self.away_from_s + weather.away_s
        fate = self.random.random() if weather.lost_ratio else 1.0
        is_heard = not is_away and fate >= weather.lost_ratio / 2
        self._hear_who_is_alone(asks_s)
        progress = self.progress[name]
        found = None
        if is_heard:
            if progress.ratio is None and progress.own_s > 0:
                progress.ratio = asks_s / progress.own_s
            self._give_back(name)
            progress.ready_s = max(leg.end_s, asks_s)
            found = choose_block(self.progress, name, asks_s, weather.cost_s, math.inf)
        owner = found.rpartition(".")[0] if found is not None else ""
        if not is_heard or fate < weather.lost_ratio:
            if found is not None:  # nobody confirms it: it stays its leg's
                lost = (found, self.progress[owner].blocks_s.pop(found))
                self.unconfirmed.setdefault(owner, []).append(lost)
            self._go_on_alone(leg, number, asks_s)
            return None
        if found is None:
            progress.ready_s = math.inf
            return None
        wall_s = self.progress[owner].blocks_s.pop(found)
        owner_leg = self.legs[int(owner)]
        units = owner_leg.blocks[found]
        if not owner_leg.is_static:
            del owner_leg.blocks[found]
        start_s = max(leg.end_s, asks_s + weather.claim_s) + weather.start_s
        progress.ready_s = start_s + wall_s
        return self._run(leg, units, start_s)

    def _give_back(self, name: str) -> None:
        """What was claimed of a leg and never confirmed is its own again when it asks."""
        for block, wall_s in self.unconfirmed.pop(name, ()):
            self.progress[name].blocks_s[block] = wall_s

    def _hear_who_is_alone(self, now_s: float) -> None:
        for _, name in (one for one in self.alone if one[0] <= now_s):
            self.progress[name].blocks_s.clear()

    def _go_on_alone(self, leg: Leg, number: int, asks_s: float) -> None:
        leg.is_static = True
        back_s = self.away_from_s + self.weather.away_s
        heard_s = asks_s + PATIENCE_S + self.weather.claim_s
        is_away = self.away_from_s <= heard_s < back_s
        self.alone.append((back_s if is_away else heard_s, str(number)))
        units = [unit for members in leg.blocks.values() for unit in members]
        self._run(leg, units, max(leg.end_s, asks_s + PATIENCE_S) + self.weather.start_s)

    def repeated_ratio(self) -> float:
        """Executions above one; every unit has run."""
        ran = [unit for leg in self.legs for unit in leg.ran]
        assert len(set(ran)) == len(self.plan.walls_s), "a unit was lost"
        return len(ran) / len(self.plan.walls_s) - 1


def replay(
    some: Sequence[Planned], weather: Weather, **cut: float | int
) -> list[tuple[Planned, Outcome]]:
    found = []
    draws = DRAWS if weather.spread or weather.lost_ratio else 1
    for place, plan in enumerate(some):
        for draw in range(draws):
            random = np.random.default_rng([SEED, place, draw])
            speeds = np.exp(random.normal(0, weather.spread, plan.count))
            run = PaperRun(plan, weather, speeds.tolist(), random, **cut)  # type: ignore[arg-type]
            bound_s = max(
                math.fsum(plan.walls_s) / math.fsum(1 / speeds),
                max(plan.walls_s) * float(speeds.min()),
            )
            makespan_s = run.makespan_s()
            found.append(
                (
                    plan,
                    Outcome(
                        run.static_s() / bound_s,
                        makespan_s / bound_s,
                        run.claims / plan.count,
                        run.repeated_ratio(),
                        run.static_s(),
                    ),
                )
            )
    return found


def geometric_mean(ratios: Sequence[float]) -> float:
    return float(np.exp(np.mean(np.log(ratios))))


def row(label: str, outcomes: Sequence[Outcome]) -> str:
    static, moved = (geometric_mean([one[place] for one in outcomes]) for place in (0, 1))
    slower = [one.moved / one.static for one in outcomes]
    slowest, place = max((ratio, place) for place, ratio in enumerate(slower))
    repeated = np.mean([one.repeated for one in outcomes])
    return (
        f"| {label} | {len(outcomes)} | {static:.3f} | {moved:.3f} | "
        f"{np.mean([one.claims for one in outcomes]):.1f} | {100 * repeated:.1f} % | "
        f"{sum(one > SLOWER_RATIO for one in slower)} | "
        f"{slowest:.3f} of {outcomes[place].static_s:.1f} s |"
    )


HEAD: Final = (
    "| | runs | static | moved | claims a leg | ran twice | over 1 % slower | slowest / static |\n"
    "|---|---|---|---|---|---|---|---|"
)


def choose(some: Sequence[Planned]) -> None:
    print(HEAD)
    for share in (0.1, 0.2, 0.3, 0.4, 0.5):
        for blocks in (5, 10, 15):
            found = replay(some, Weather(0.5), held_back=share, max_blocks=blocks)
            print(row(f"{share}, {blocks}", [one for _, one in found]), flush=True)


def judge(some: Sequence[Planned]) -> None:
    for claim_s in CLAIMS_S:
        print(f"\n## A claim of {claim_s} s\n\n{HEAD}")
        for spread in SPREADS:
            found = replay(some, Weather(claim_s, spread=spread))
            for count in (*COUNTS, None):
                ones = [one for plan, one in found if count in (None, plan.count)]
                label = f"legs {100 * spread:.0f} % apart, {count or 'all'}"
                print(row(label, ones), flush=True)
        for label, weather in _conditions(Weather(claim_s)).items():
            print(row(label, [one for _, one in replay(some, weather)]), flush=True)


def _conditions(calm: Weather) -> Mapping[str, Weather]:
    return {
        f"a start takes {START_S} s": replace(calm, start_s=START_S),
        "5 % of claims lost": replace(calm, lost_ratio=LOST_RATIO),
        "service away for a minute": replace(calm, away_s=AWAY_S),
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--choose", action="store_true")
    requested = parser.parse_args()
    require()
    some = list(plans())
    names = sorted({plan.trial for plan in some})
    half = set(names[0 if requested.choose else 1 :: 2])
    chosen = [plan for plan in some if plan.trial in half]
    (choose if requested.choose else judge)(chosen)


if __name__ == "__main__":
    main()
