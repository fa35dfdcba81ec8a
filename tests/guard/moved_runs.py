"""A planned run of three shards whose legs claim blocks of each other, as files of records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from guard.fixtures import World, make_leg, make_plan

from ciguard.codec import plan_file
from ciguard.model import Block, EndLine, EventKind, EventLine, Line, Plan

SERVICE = "https://ci.example"
# The last two units of each shard are its blocks .1 and .2.
SHARDS: dict[str, tuple[str, ...]] = {
    "01": ("a.t::one", "a.t::two", "a.t::three", "a.t::four"),
    "02": ("b.t::one", "b.t::two", "b.t::three", "b.t::four"),
    "03": ("c.t::one", "c.t::two", "c.t::three", "c.t::four"),
}
MOVED = "a.t::four"  # block 01.2


def plan_with_blocks() -> Plan:
    """A plan whose shards hold back two blocks of one unit each."""
    plan = make_plan(SHARDS)
    blocks = (Block(1, 1.0), Block(1, 1.0))
    shards_ = tuple(replace(shard, blocks=blocks) for shard in plan.shards)
    plan = replace(plan, shards=shards_, claims=SERVICE)
    return plan_file.decode(plan_file.encode(plan), "plan.json")


@dataclass
class MovedRun:
    """Legs by what they ran and what they recorded of blocks; as planned until told otherwise."""

    plan: Plan = field(default_factory=plan_with_blocks)
    world: World = field(init=False)

    def __post_init__(self) -> None:
        self.world = World(self.plan)
        for shard in self.plan.shards:
            names = [f"{shard.key}.{number}" for number in (1, 2)]
            self.leg(shard.key, SHARDS[shard.key], claimed=names)

    def leg(
        self,
        key: str,
        units: tuple[str, ...],
        *,
        claimed: list[str] | None = None,
        taken: Mapping[str, str | None] | None = None,
        attempt: int = 1,
        dies: bool = False,
    ) -> None:
        """Write a leg that ran these units one after the other, a second each.

        `taken`: its blocks that another leg has, with that leg's shard.

        It asks as the last unit of its own part begins, at 1.0 s, and has each answer at once;
        the last one says that nothing is left. A leg that dies has no end, nor do its processes.
        """
        known = {unit.unit: unit for shard in self.plan.shards for unit in shard.units}
        shards = tuple(
            replace(shard, units=tuple(known[unit] for unit in units), blocks=())
            if shard.key == key
            else shard
            for shard in self.plan.shards
        )
        leg = make_leg(replace(self.plan, shards=shards), key, attempt=attempt)
        events: list[Line] = []

        def event(
            kind: EventKind, at_s: float, block: str | None = None, shard: str | None = None
        ) -> None:
            events.append(EventLine(kind, at_s, block=block, shard=shard))

        for number, block in enumerate(claimed or ()):
            event("claim_asked", 1.0 + number)
            event("claimed", 1.1 + number, block)
        for block, shard in (taken or {}).items():
            event("taken", len(units) - 0.5, block, shard)
        event("claim_asked", len(units) - 1.0)
        event("claims_ended", len(units) - 0.5)
        leg.own[1:1] = events
        if dies:
            leg.own = [line for line in leg.own if isinstance(line, EventLine)] + [leg.own[0]]
        older = {path: text for path, text in self.files_of(key).items() if attempt > 1}
        self.world.extra |= older
        self.world.legs[key] = leg

    def files_of(self, key: str) -> dict[str, bytes]:
        return self.world.legs[key].files()

    def fail(self, key: str, unit: str) -> None:
        self.world.result(key, unit, outcome="failed", message="assert 1 == 2", at_s=1.5)

    def ended(self, key: str) -> EndLine:
        (found,) = [line for line in self.world.legs[key].own if isinstance(line, EndLine)]
        return found


def run_with_a_move() -> MovedRun:
    """Shard 03 ran block 01.2 after its own."""
    found = MovedRun()
    found.leg("01", SHARDS["01"][:3], claimed=["01.1"], taken={"01.2": "03"})
    found.leg("03", (*SHARDS["03"], MOVED), claimed=["03.1", "03.2", "01.2"])
    return found
