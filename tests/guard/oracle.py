"""All that a guard is handed, and what must hold if it passes.

The law knows nothing of the guard, nor of the readers: it looks for words in lines.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import date
from functools import lru_cache
from typing import Any, Final

from guard.fake_jobs import FakeEvaluatedRun, FakeRunApi, job

from ciguard.codec import plan_file as plan_codec
from ciguard.codec.quarantine import Entry
from ciguard.codec.record.reader import read_records
from ciguard.errors import ExitCode, InputError
from ciguard.guard.github_facts import NeededJob as Needed
from ciguard.guard.github_facts import query_jobs
from ciguard.guard.prove import prove
from ciguard.guard.verdict import Policy, Verdict
from ciguard.model.jobs import Job

HEAD: Final = "a" * 40  # the commit of the run
GOOD: Final = frozenset({"passed", "skipped"})
UNIT: Final = ("suite", "variant", "unit")
VERDICTS: Final = frozenset({"completed", "timeout", "crash", "out_of_memory", "memory_guard"})
TESTS_FAILED: Final = 10
KINDS: Final = frozenset({"shard", "defaults", "process", "start", "result", "peak", "sample"}) | {
    *("metric", "event", "process_end", "end")
}
Key = tuple[str, str, str]


def job_of(shard: str, conclusion: str | None = "success", **more: Any) -> Job:
    return replace(job(shard, conclusion, **more), head_sha=HEAD)


@dataclass
class Run:
    """A run as it reached the guard: the plan's file, all files of records, GitHub's words.

    `attempt` is the run's now.
    """

    plan: bytes
    files: dict[str, bytes]
    jobs: list[Job] = field(default_factory=list)
    needs: dict[str, str] = field(default_factory=dict)
    attempt: int = 1
    quarantined: frozenset[Key] = frozenset()

    @classmethod
    def green(cls, plan: bytes, files: dict[str, bytes]) -> Run:
        shards = [shard["key"] for shard in json.loads(plan)["shards"]]
        return cls(plan, dict(files), [job_of(key) for key in shards], {"legs": "success"})

    def copy(self) -> Run:
        return replace(self, files=dict(self.files), jobs=list(self.jobs), needs=dict(self.needs))

    def verdict(self) -> Verdict | None:
        """None where the plan cannot be read as one, which is an error of its own."""
        try:
            plan = plan_codec.decode(self.plan, "plan.json")
        except InputError:
            return None
        records = read_records(self.files.items())
        needs = [Needed(name, result) for name, result in self.needs.items()]
        evaluated = FakeEvaluatedRun(Listed(listed=tuple(self.jobs)), self.attempt)
        entries = tuple(
            Entry(
                unit=unit,
                reason="known",
                issue="#7",
                until=date(2026, 12, 1),
                suite=suite,
                variant=variant,
            )
            for suite, variant, unit in sorted(self.quarantined)
        )
        platform = query_jobs(plan, records, evaluated) if self.jobs else None
        return prove(plan, records, needs, platform=platform, policy=Policy(quarantine=entries))


@dataclass
class Listed(FakeRunApi):
    """Jobs of which nothing more is known."""

    listed: tuple[Job, ...] = ()

    def jobs(self) -> tuple[Job, ...]:
        return self.listed


@lru_cache(maxsize=2)
def tries_of(plan: bytes) -> int:
    """Executions that a unit may have, of a plan that nobody touched."""
    return int(json.loads(plan)["policy"].get("max_tries", 1))


@lru_cache(maxsize=2)
def planned(plan: bytes) -> dict[str, set[Key]]:
    """Units by shard, of a plan that nobody touched."""
    return {
        shard["key"]: {(unit["suite"], unit["variant"], unit["unit"]) for unit in shard["units"]}
        for shard in json.loads(plan)["shards"]
    }


def objects(content: bytes) -> list[dict[str, Any]]:
    found = []
    for line in content.splitlines():
        try:
            value = json.loads(line)
        except ValueError:
            continue
        if isinstance(value, dict):
            found.append(value)
    return found


@dataclass
class Leg:
    """The lines that say they are of one leg; `odd` is why no leg wrote them."""

    header: bool = False
    ends: list[dict[str, Any]] = field(default_factory=list)
    odd: list[str] = field(default_factory=list)
    results: list[tuple[Key, dict[str, Any]]] = field(default_factory=list)
    starts: list[tuple[Key, int]] = field(default_factory=list)
    started: dict[int, list[float]] = field(default_factory=dict)
    process_ends: dict[int, list[dict[str, Any]]] = field(default_factory=dict)
    silent: set[int] = field(default_factory=set)
    steps: list[tuple[float, int]] = field(default_factory=list)

    @property
    def step(self) -> tuple[float, int]:
        """When its last step went on from others, and the last process of those."""
        return max(self.steps, default=(-1.0, 0))

    def is_complete(self, quarantined: frozenset[Key]) -> bool:
        """Whether it ended by itself, and well but for what is quarantined."""
        ends = [end for end in self.ends if moment(end) > self.step[0]]
        good = all(
            end.get("ending") == "completed"
            and (end.get("exit_code") in (0, None) or self.excused(end, quarantined))
            for end in ends
        )
        return self.header and bool(ends) and good and not self.oddity()

    def excused(self, end: dict[str, Any], quarantined: frozenset[Key]) -> bool:
        """Say that it failed for a quarantined unit: others must be good all the same."""
        return end.get("exit_code") == TESTS_FAILED and any(
            key in quarantined and is_bad(line) for key, line in self.results
        )

    def oddity(self) -> str:
        """Why no leg wrote this; of what went before its last step much may be lost."""
        at_s, before = self.step
        died = {
            number(line, "process") for _, line in self.results if line.get("outcome") == "died"
        }
        if {one for one in self.started if one > before} != {
            one for one in self.process_ends if one > before
        }:
            return "a process without a begin or an end"
        for process, ends in self.process_ends.items():
            for end in ends:
                code = number(end, "exit_code")
                crashed = end.get("ending") != "completed"
                if process <= before:
                    if moment(end) > at_s:
                        return f"process {process} ends behind the step after it"
                elif code < 0 or (crashed and process not in died | self.silent):
                    return f"process {process} died without a word"
        return self.odd[0] if self.odd else ""

    def open(self, key: Key) -> bool:
        """Say that a unit began in a process behind the last that has a result of it."""
        reported = [number(line, "process") for own, line in self.results if own == key]
        return max((one for own, one in self.starts if own == key), default=0) > max(
            reported, default=0
        )


def number(line: dict[str, Any], word: str, absent: int = 0) -> int:
    return int(moment(line, word, absent))


def moment(line: dict[str, Any], word: str = "at_s", absent: float = 0.0) -> float:
    value = line.get(word)
    return value if isinstance(value, (int, float)) else absent


Who = tuple[str, ...]


def named(line: dict[str, Any]) -> list[Who]:
    """The leg that a line names; none where it is no such line."""
    if line.get("type") not in ("shard", "defaults"):
        return []
    return [tuple(str(line.get(name)) for name in ("plan_id", "shard", "run_id", "run_attempt"))]


def legs_of(files: dict[str, bytes]) -> dict[Who | None, Leg]:
    """By who they say they are; lines above the first name are of it, without any the folder's."""
    found: dict[Who | None, Leg] = {}
    by_file = {
        path: [who for line in objects(content) for who in named(line)]
        for path, content in files.items()
    }
    for path, content in files.items():
        place = path.rpartition("/")[0]
        near = {who for other, all_ in by_file.items() for who in all_ if other.startswith(place)}
        who: Who | None = next(iter(near)) if len(near) == 1 else None
        who = next(iter(by_file[path]), who)
        defaults: dict[str, Any] = {}
        over = False
        reported: set[tuple[Who | None, int, Key]] = set()
        rerun: dict[tuple[Who | None, int, Key], Leg] = {}  # units that begin behind their result
        for line in objects(content):
            kind = str(line.get("type"))  # damaged lines have any JSON value here
            who = next(iter(named(line)), who)
            if kind in ("shard", "defaults"):
                defaults, over = (line if kind == "defaults" else {}), False
            leg = found.setdefault(who, Leg())
            if over and kind in KINDS:  # of what a reader does not know nothing is said
                leg.odd.append("a line behind the end")
            if kind == "shard":
                leg.header = True
                if line.get("head_sha") not in (HEAD, None):
                    leg.odd.append("another commit")
            elif kind == "end":
                over = True
                leg.ends.append(line)
            elif kind == "process":
                leg.started.setdefault(number(line, "process"), []).append(moment(line))
            elif kind == "process_end":
                leg.process_ends.setdefault(number(line, "process"), []).append(line)
            elif kind == "event" and line.get("kind") == "last_output":
                leg.silent.add(number(line, "process"))
            elif kind == "event" and line.get("kind") == "resumed":
                leg.steps.append((moment(line), number(line, "process")))
            elif kind in ("start", "result"):
                words = [str(line.get(name) or defaults.get(name) or "") for name in UNIT]
                key = (words[0], words[1], words[2])
                # The file says whose it is, whatever a line claims.
                own = {"process": defaults["process"]} if "process" in defaults else {}
                here = who, number({**line, **own}, "process"), key
                if kind == "result":
                    leg.results.append((key, {**line, **own}))
                    reported.add(here)
                    rerun.pop(here, None)
                    continue
                leg.starts.append((key, here[1]))
                if here in reported and not line.get("received"):
                    rerun[here] = leg
        for leg in rerun.values():
            leg.odd.append("a unit that began again")
    return found


def is_good(line: dict[str, Any]) -> bool:
    return (
        str(line.get("outcome")) in GOOD and str(line.get("ending") or "completed") == "completed"
    )


def is_bad(line: dict[str, Any]) -> bool:
    """A verdict, and no good one: what somebody stopped has none."""
    return str(line.get("outcome")) in ("failed", "errored") or (
        line.get("outcome") == "died" and str(line.get("ending") or "completed") in VERDICTS
    )


def ran_last(jobs: Iterable[Job]) -> list[Job]:
    """Of jobs of one name those of the last attempt that it ran in, and is not only listed in."""
    ran: list[Job] = []
    for one in sorted(jobs, key=lambda one: one.run_attempt):
        seen = [other.started_at for other in ran if other.run_attempt < one.run_attempt]
        if one.started_at is None or one.started_at not in seen:
            ran.append(one)
    return [one for one in ran if one.run_attempt == ran[-1].run_attempt]


def counted(shard: str, now: Run, legs: dict[Who | None, Leg]) -> list[Leg]:
    """The legs of which one may be what a shard came to: of the attempt that it ran last in."""
    jobs = ran_last(one for one in now.jobs if one.name == f"tests ({shard})")
    attempt = str(jobs[0].run_attempt) if len(jobs) == 1 else None
    return [
        leg
        for who, leg in legs.items()
        if who is not None and who[1] == shard and attempt in (None, who[3])
    ]


def broken(original: Run, now: Run) -> str:
    """Why no guard may pass this; "" if it may."""
    legs = legs_of(now.files)
    known, tries = original.quarantined, tries_of(original.plan)
    shards = planned(original.plan)
    all_units = set().union(*shards.values())
    results = {
        shard: [leg for leg in counted(shard, now, legs) if leg.is_complete(known)]
        for shard in shards
    }
    complete = [leg for found in results.values() for leg in found]
    ended = {
        key
        for leg in complete
        for key, line in leg.results
        if (is_good(line) or (key in known and is_bad(line))) and not leg.open(key)
    }
    for shard, units in shards.items():
        if not units <= ended:
            lost = sorted(units - ended)[0][2]
            return f"{lost} of shard {shard} has no good result in a leg that ended"
        name = f"tests ({shard})"
        output = ran_last(one for one in now.jobs if one.name == name)
        well = {"success", "failure"} if any(map(_ended_red, results[shard])) else {"success"}
        fine = any(
            one.status == "in_progress" or (one.status == "completed" and one.conclusion in well)
            for one in output
        )
        if output and not fine:
            return f"no job {name} ended well"
    for leg in complete:
        for key, line in leg.results:
            if is_good(line) or key not in all_units or (key in known and is_bad(line)):
                continue
            if not any(
                _is_later_pass(leg, other, line, tries) for own, other in leg.results if own == key
            ):
                return f"{key[2]} went wrong last"
    well = {"success", "failure"} if any(map(_ended_red, complete)) else {"success"}
    bad = [name for name, result in now.needs.items() if result not in well]
    return f"needs.{bad[0]}" if bad else ""


def _ended_red(leg: Leg) -> bool:
    return any(end.get("exit_code") == TESTS_FAILED for end in leg.ends)


def _is_later_pass(leg: Leg, other: dict[str, Any], line: dict[str, Any], tries: int) -> bool:
    """Whether a result is that of a later try: one that failed has another process if it may."""
    here, there = number(line, "process"), number(other, "process")
    if here == there:
        return number(other, "try", 1) > number(line, "try", 1)
    if tries == 1 and line.get("outcome") != "died" and is_bad(line):
        return False
    if here <= leg.step[1]:
        return there > here  # what says when they ran may be lost
    started = leg.started.get(there, [])
    ended = [moment(end) for end in leg.process_ends.get(here, [])]
    return bool(started and ended) and min(started) >= max(ended)


def passes(run: Run) -> bool:
    verdict = run.verdict()
    return verdict is not None and verdict.exit_code == ExitCode.OK
