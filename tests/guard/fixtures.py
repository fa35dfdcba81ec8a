"""A small planned run to damage: two suites' worth of units in three shards, as files."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import jsonschema

from ciguard.codec import plan_file as plan_codec
from ciguard.codec.record.lines import encode
from ciguard.codec.record.reader import read_records
from ciguard.guard.github_facts import NeededJob, RunFacts
from ciguard.guard.prove import prove
from ciguard.guard.verdict import Policy, Verdict
from ciguard.guard.view import document
from ciguard.model import (
    DefaultsLine,
    EndLine,
    EventLine,
    InventorySummary,
    LegPolicy,
    Line,
    Plan,
    PlannedUnit,
    Pool,
    Prediction,
    ProcessEndLine,
    ProcessLine,
    Result,
    SampleLine,
    Shard,
    ShardLine,
    StartLine,
    Suite,
    Variant,
)
from ciguard.render.plaintext import as_text

SCHEMA = json.loads(
    (Path(__file__).parents[2] / "docs/reference/schemas/verdict.schema.json").read_text("utf-8")
)
VERDICT_SCHEMA = jsonschema.Draft202012Validator(SCHEMA)
MIB = 1024 * 1024
SHARDS = {
    "01": ("a.t::one", "a.t::two", "b.t::three"),
    "02": ("c.t::four", "c.t::five"),
    "03": ("d.t::six", "d.t::seven", "d.t::eight"),
}


def make_plan(shards: dict[str, tuple[str, ...]] = SHARDS, **changes: Any) -> Plan:
    """A plan of these units, with the id that its file has; `change` has those of units by name."""
    change = changes.pop("change", {})
    planned = tuple(
        Shard(
            key=key,
            pool="default",
            units=tuple(
                PlannedUnit(unit, wall_s=1.0, change=change.get(unit, "")) for unit in units
            ),
            predicted=Prediction(float(len(units)), len(units) * 1.2, 512 * MIB),
            timeout_minutes=10,
        )
        for key, units in shards.items()
    )
    count = sum(len(units) for units in shards.values())
    plan = Plan(
        id="",
        suites={"": Suite("command", ("./all",), variants={"": Variant(), "x": Variant()})},
        pools={"default": Pool("ubuntu-latest", 4, 16384 * MIB)},
        policy=changes.pop("policy", LegPolicy()),
        shards=planned,
        lower_bound_s=3.0,
        gap=0.0,
        inventory=changes.pop("inventory", InventorySummary(count, {}, "0" * 64)),
    )
    return plan_codec.decode(plan_codec.encode(replace(plan, **changes)), "plan.json")


def two_suites() -> Plan:
    """Suites `api` and `web`, the second in two variants, of units that are called alike."""
    node = {"node 20": Variant(), "node 22": Variant()}
    suites = {
        "api": Suite("command", ("./api",), variants={"": Variant()}),
        "web": Suite("command", ("./web",), variants=node),
    }
    suite_keys = (("api", ""), ("web", "node 20"), ("web", "node 22"))
    complete = make_plan({"01": ("t",) * 3, "02": ("u",) * 3})
    shards = tuple(
        replace(
            shard,
            units=tuple(
                replace(unit, suite=suite, variant=variant)
                for unit, (suite, variant) in zip(shard.units, suite_keys, strict=True)
            ),
        )
        for shard in complete.shards
    )
    complete = replace(complete, suites=suites, shards=shards)
    return plan_codec.decode(plan_codec.encode(complete), "plan.json")


def passed(unit: str, **more: Any) -> Result:
    """A good result, unless `more` says something else."""
    return Result(**{"unit": unit, "outcome": "passed", "case": unit, "process": 1, **more})


@dataclass
class Leg:
    """What one leg writes; `header` and `tail` are the supervisor's own file around the rest."""

    header: ShardLine
    own: list[Line]
    inner: list[Line]
    folder: str

    def files(self) -> dict[str, bytes]:
        """Path -> content, as an artifact holds them."""
        return {
            f"{self.folder}/supervisor.jsonl": b"".join(map(encode, [self.header, *self.own])),
            f"{self.folder}/process-001.jsonl": b"".join(map(encode, self.inner)),
        }


def make_leg(plan: Plan, key: str, *, attempt: int = 1, run: int = 7) -> Leg:
    """A leg that did all it had to do."""
    units = next(shard.units for shard in plan.shards if shard.key == key)
    header = ShardLine(plan.id, key, run_id=run, run_attempt=attempt, job=f"tests ({key})")
    inner: list[Line] = [DefaultsLine(plan.id, key, run, attempt, process=1)]
    for at, unit in enumerate(units):
        suite, variant = unit.suite, unit.variant
        inner.append(StartLine(unit.unit, suite, variant, process=1, at_s=float(at)))
        inner.append(passed(unit.unit, suite=suite, variant=variant, wall_s=0.9, at_s=at + 0.9))
    count = len(units)
    own: list[Line] = [
        ProcessLine(1, count, at_s=0.0, reason="first"),
        SampleLine(0.5, tree_bytes=480 * MIB),
        ProcessEndLine(1, "completed", 0, float(count)),
        EndLine("completed", count + 0.1, 0, {"passed": count}),
    ]
    return Leg(header, own, inner, f"record-{key}-{attempt}")


@dataclass
class World:
    """A plan and the files that arrived; green until a test damages it."""

    plan: Plan = field(default_factory=make_plan)
    legs: dict[str, Leg] = field(default_factory=dict)
    extra: dict[str, bytes] = field(default_factory=dict)
    needs: tuple[NeededJob, ...] | None = None
    policy: Policy = field(default_factory=Policy)

    def __post_init__(self) -> None:
        self.legs = self.legs or {s.key: make_leg(self.plan, s.key) for s in self.plan.shards}

    def ran_as(self, run: int) -> World:
        return replace(self, legs={key: make_leg(self.plan, key, run=run) for key in self.legs})

    def files(self) -> dict[str, bytes]:
        """All that a download of all artifacts gives."""
        found = {p: c for leg in self.legs.values() for p, c in leg.files().items()}
        return {**found, **self.extra}

    def prove(self, platform: RunFacts | None = None) -> Verdict:
        """The verdict over what is there now."""
        records = read_records(self.files().items())
        return prove(self.plan, records, self.needs, policy=self.policy, platform=platform)

    def result(self, key: str, unit: str, **more: Any) -> None:
        leg = self.legs[key]
        leg.inner = [
            passed(unit, **more) if isinstance(line, Result) and line.unit == unit else line
            for line in leg.inner
        ]
        found = [line for line in (*leg.inner, *leg.own) if isinstance(line, Result)]
        counts: dict[str, int] = {}
        for line in found:
            counts[line.outcome] = counts.get(line.outcome, 0) + 1
        code = 10 if set(counts) & {"failed", "errored", "died"} else 0
        self.end(key, exit_code=code, counts=counts)

    def repeat(self, key: str, unit: str, letters: str, message: str = "no") -> None:
        """Let a leg repeat a unit after its end, in a process each: f for failed, "." for none."""
        leg = self.legs[key]
        leg.own += [EventLine("repeating", 9.0), EventLine("new_test", unit=unit, reason="new")]
        for letter in letters:
            number = 1 + sum(isinstance(line, ProcessLine) for line in leg.own)
            units = ["a neighbour", unit][number % 2 :]
            reason = "repeat_alone" if number % 2 else "repeat_after"
            leg.own.append(ProcessLine(number, len(units), at_s=9.0, reason=reason))
            leg.own.append(ProcessEndLine(number, "completed", 0, 9.0))
            run = (leg.header.run_id, leg.header.run_attempt)
            lines: list[Line] = [DefaultsLine(self.plan.id, key, *run, process=number)]
            for name in units:
                lines.append(StartLine(name, process=number))
                bad = {"outcome": "failed", "message": message} if letter == "f" else {}
                result = passed(name, process=number, **(bad if name == unit else {}))
                lines += [result] if letter != "." else []
            content = b"".join(map(encode, lines))
            self.extra[f"{leg.folder}/process-{number:03}.jsonl"] = content

    def drop(self, key: str, *kinds: type, unit: str = "") -> None:
        """Remove lines of these types, of all units or one."""
        leg = self.legs[key]

        def gone(line: Line) -> bool:
            return isinstance(line, kinds) and (not unit or getattr(line, "unit", "") == unit)

        leg.inner = [line for line in leg.inner if not gone(line)]
        leg.own = [line for line in leg.own if not gone(line)]

    def end(self, key: str, **changes: Any) -> None:
        """Change the last line of a leg."""
        leg = self.legs[key]
        leg.own = [
            replace(line, **changes) if isinstance(line, EndLine) else line for line in leg.own
        ]

    def write(self, folder: Path) -> tuple[Path, Path]:
        """To the disk: the plan's path and the records' folder."""
        records = folder / "records"
        records.mkdir(parents=True, exist_ok=True)
        for path, content in self.files().items():
            (records / path).parent.mkdir(parents=True, exist_ok=True)
            (records / path).write_bytes(content)
        (folder / "plan.json").write_bytes(plan_codec.encode(self.plan))
        return folder / "plan.json", records


def text_of(verdict: Verdict) -> str:
    """What `ciguard guard` prints of it."""
    return as_text(document(verdict))
