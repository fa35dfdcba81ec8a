"""All that a guard is handed, and what must hold if it passes.

The law knows nothing of the guard, nor of the readers: it looks for words in lines.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from guard.platform import Judged, Told, job

from ciguard.codec import plan as plan_codec
from ciguard.codec.gathering import read_records
from ciguard.errors import ExitCode, InputError
from ciguard.guard.asking import ask
from ciguard.guard.needs import Job as Needed
from ciguard.guard.proof import prove

if TYPE_CHECKING:
    from ciguard.guard.verdict import Verdict
    from ciguard.model.jobs import Job

HEAD: Final = "a" * 40  # the commit of the run
GOOD: Final = frozenset({"passed", "skipped"})
UNIT: Final = ("suite", "variant", "unit")
Key = tuple[str, str, str]


@dataclass
class Run:
    """A run as it reached the guard: the plan's file, all files of records, GitHub's words."""

    plan: bytes
    files: dict[str, bytes]
    jobs: list[Job] = field(default_factory=list)
    needs: dict[str, str] = field(default_factory=dict)

    @classmethod
    def green(cls, plan: bytes, files: dict[str, bytes]) -> Run:
        shards = [shard["key"] for shard in json.loads(plan)["shards"]]
        jobs = [replace(job(key), head_sha=HEAD) for key in shards]
        return cls(plan, dict(files), jobs, {"legs": "success"})

    def verdict(self) -> Verdict | None:
        """None where the plan cannot be read as one, which is an error of its own."""
        try:
            plan = plan_codec.decode(self.plan, "plan.json")
        except InputError:
            return None
        records = read_records(self.files.items())
        needs = [Needed(name, result) for name, result in self.needs.items()]
        platform = (
            ask(plan, records, Judged(Listed(listed=tuple(self.jobs)), None)) if self.jobs else None
        )
        return prove(plan, records, needs, platform=platform)


@dataclass
class Listed(Told):
    """Jobs of which nothing more is known."""

    listed: tuple[Job, ...] = ()

    def jobs(self) -> tuple[Job, ...]:
        return self.listed


def planned(plan: bytes) -> dict[str, set[Key]]:
    """Units by shard, of a plan that nobody touched."""
    return {
        shard["key"]: {(unit["suite"], unit["variant"], unit["unit"]) for unit in shard["units"]}
        for shard in json.loads(plan)["shards"]
    }


def objects(content: bytes) -> list[dict[str, Any]]:
    """The lines that are JSON objects."""
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
    """The lines that say they are of one leg.

    `odd` is why no leg wrote them; `ends` say whether each end was a good one.
    """

    header: bool = False
    ends: list[bool] = field(default_factory=list)
    odd: list[str] = field(default_factory=list)
    results: list[tuple[Key, dict[str, Any]]] = field(default_factory=list)
    begun: dict[int, list[float]] = field(default_factory=dict)
    gone: dict[int, list[dict[str, Any]]] = field(default_factory=dict)
    silent: set[int] = field(default_factory=set)

    @property
    def whole(self) -> bool:
        return self.header and bool(self.ends) and all(self.ends) and not self.oddity()

    def oddity(self) -> str:
        """Why no leg of a run in which nothing was tried again wrote this."""
        died = {
            number(line, "process") for _, line in self.results if line.get("outcome") == "died"
        }
        if self.begun.keys() != self.gone.keys():
            return "a process without a begin or an end"
        for process, ends in self.gone.items():
            for end in ends:
                code = number(end, "exit_code")
                crashed = end.get("ending") != "completed"
                if code < 0 or (crashed and process not in died | self.silent):
                    return f"process {process} died without a word"
        return self.odd[0] if self.odd else ""


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
        told: set[Key] = set()
        again: dict[Key, Leg] = {}  # units that begin behind their result
        for line in objects(content):
            kind = line.get("type")
            who = next(iter(named(line)), who)
            if kind in ("shard", "defaults"):
                defaults, over = (line if kind == "defaults" else {}), False
            leg = found.setdefault(who, Leg())
            if over:
                leg.odd.append("a line behind the end")
            if kind == "shard":
                leg.header = True
                if line.get("head_sha") not in (HEAD, None):
                    leg.odd.append("another commit")
            elif kind == "end":
                over = True
                good = line.get("ending") == "completed" and line.get("exit_code") in (0, None)
                leg.ends.append(good)
            elif kind == "process":
                leg.begun.setdefault(number(line, "process"), []).append(moment(line))
            elif kind == "process_end":
                leg.gone.setdefault(number(line, "process"), []).append(line)
            elif kind == "event" and line.get("kind") == "last_output":
                leg.silent.add(number(line, "process"))
            elif kind in ("start", "result"):
                words = [str(line.get(name) or defaults.get(name) or "") for name in UNIT]
                key = (words[0], words[1], words[2])
                if kind == "result":
                    # The file says whose it is, whatever a line claims.
                    own = {"process": defaults["process"]} if "process" in defaults else {}
                    leg.results.append((key, {**line, **own}))
                    told.add(key)
                    again.pop(key, None)
                elif key in told and not line.get("heard"):
                    again[key] = leg
        for leg in again.values():
            leg.odd.append("a unit that began again")
    return found


def is_good(line: dict[str, Any]) -> bool:
    return str(line.get("outcome")) in GOOD


def broken(original: Run, now: Run) -> str:
    """Why no guard may pass this; "" if it may."""
    legs = legs_of(now.files)
    whole = [leg for leg in legs.values() if leg.whole]
    passed = {key for leg in whole for key, line in leg.results if is_good(line)}
    for shard, units in planned(original.plan).items():
        if not units <= passed:
            lost = sorted(units - passed)[0][2]
            return f"{lost} of shard {shard} has no good result in a leg that ended"
        name = f"tests ({shard})"
        said = [one for one in now.jobs if one.name == name]
        fine = any(
            one.status == "in_progress" or (one.status, one.conclusion) == ("completed", "success")
            for one in said
        )
        if said and not fine:
            return f"no job {name} ended well"
    for leg in whole:
        for key, line in leg.results:
            if line.get("outcome") in GOOD or key not in set().union(
                *planned(original.plan).values()
            ):
                continue
            if not any(_mends(leg, other, line) for own, other in leg.results if own == key):
                return f"{key[2]} went wrong last"
    bad = [name for name, result in now.needs.items() if result != "success"]
    return f"needs.{bad[0]}" if bad else ""


def _mends(leg: Leg, other: dict[str, Any], line: dict[str, Any]) -> bool:
    """Whether a result is that of a later try: only what died may have another process."""
    if other.get("process") == line.get("process"):
        return number(other, "try", 1) > number(line, "try", 1)
    begun = leg.begun.get(number(other, "process"), [])
    ended = [moment(end) for end in leg.gone.get(number(line, "process"), [])]
    return line.get("outcome") == "died" and bool(begun and ended) and min(begun) >= max(ended)


def passes(run: Run) -> bool:
    verdict = run.verdict()
    return verdict is not None and verdict.exit_code == ExitCode.OK
