"""Damage at random to all that a guard is handed, and what must hold if it passes all the same.

The law below knows nothing of the guard, nor of the readers: it looks for words in lines.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from guard.platform import FAILED, KILLED, Judged, Told, job

from ciguard.codec import plan as plan_codec
from ciguard.codec.gathering import read_records
from ciguard.errors import ExitCode, InputError
from ciguard.guard.asking import ask
from ciguard.guard.needs import Job as Needed
from ciguard.guard.proof import prove

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from ciguard.guard.verdict import Verdict
    from ciguard.model.jobs import Job

GOOD: Final = frozenset({"passed", "skipped"})
CONCLUSIONS: Final = (
    *("success", "failure", "neutral", "cancelled", "skipped", "timed_out", "action_required"),
    *("evaporated", "", None),
)
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
        return cls(plan, dict(files), [job(key) for key in shards], {"legs": "success"})

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
    """The lines that say they are of one leg."""

    header: bool = False
    ended: bool = False
    results: list[tuple[Key, dict[str, Any]]] = field(default_factory=list)


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
        for line in objects(content):
            kind = line.get("type")
            who = next(iter(named(line)), who)
            if kind in ("shard", "defaults"):
                defaults = line if kind == "defaults" else {}
            leg = found.setdefault(who, Leg())
            leg.header = leg.header or kind == "shard"
            if kind == "end" and line.get("ending") == "completed":
                leg.ended = leg.ended or line.get("exit_code") in (0, None)
            if kind == "result":
                words = [str(line.get(name) or defaults.get(name) or "") for name in UNIT]
                leg.results.append(((words[0], words[1], words[2]), line))
    return found


def is_good(line: dict[str, Any]) -> bool:
    return str(line.get("outcome")) in GOOD


def broken(original: Run, now: Run) -> str:
    """Why no guard may pass this; "" if it may."""
    legs = legs_of(now.files)
    whole = [leg for leg in legs.values() if leg.header and leg.ended]
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
            if not any(_order(other) > _order(line) for own, other in leg.results if own == key):
                return f"{key[2]} went wrong last"
    bad = [name for name, result in now.needs.items() if result != "success"]
    return f"needs.{bad[0]}" if bad else ""


def _order(line: dict[str, Any]) -> tuple[int, int]:
    def number(word: str, absent: int) -> int:
        value = line.get(word)
        return int(value) if isinstance(value, (int, float)) else absent

    return number("process", 1), number("try", 1)


def _some_file(dice: Random, run: Run) -> str:
    return dice.choice(sorted(run.files)) if run.files else ""


def _lines(run: Run, path: str) -> list[bytes]:
    return run.files[path].splitlines(keepends=True)


def drop_lines(dice: Random, run: Run) -> str:
    path = _some_file(dice, run)
    lines = _lines(run, path)
    at = dice.randrange(len(lines) + 1)
    count = dice.choice((1, 1, 1, 2, 5))
    run.files[path] = b"".join(lines[:at] + lines[at + count :])
    return f"{path}: {count} lines from {at} dropped"


def swap_lines(dice: Random, run: Run) -> str:
    path = _some_file(dice, run)
    lines = _lines(run, path)
    if len(lines) > 1:
        one, other = dice.sample(range(len(lines)), 2)
        lines[one], lines[other] = lines[other], lines[one]
    run.files[path] = b"".join(lines)
    return f"{path}: lines swapped"


def double_line(dice: Random, run: Run) -> str:
    path = _some_file(dice, run)
    lines = _lines(run, path)
    if lines:
        lines.insert(dice.randrange(len(lines) + 1), dice.choice(lines))
    run.files[path] = b"".join(lines)
    return f"{path}: a line doubled"


def move_line(dice: Random, run: Run) -> str:
    path, other = _some_file(dice, run), _some_file(dice, run)
    lines = _lines(run, path)
    if lines:
        line = lines.pop(dice.randrange(len(lines)))
        run.files[path] = b"".join(lines)
        there = _lines(run, other)
        there.insert(dice.randrange(len(there) + 1), line)
        run.files[other] = b"".join(there)
    return f"{path}: a line moved to {other}"


def edit_line(dice: Random, run: Run) -> str:
    """Give a key another value: one that stands elsewhere, one of another type, or none."""
    path = _some_file(dice, run)
    lines = _lines(run, path)
    found = [(at, one) for at, line in enumerate(lines) for one in objects(line)]
    if not found:
        return f"{path}: nothing to edit"
    at, line = dice.choice(found)
    # Words that decide something are tried more often than sizes.
    words = [word for word in line if not word.endswith(("_s", "_bytes"))] or list(line)
    word = dice.choice(words)
    others = [
        one[word] for content in run.files.values() for one in objects(content) if word in one
    ]
    odd: tuple[Any, ...] = (None, "", 0, 1, 2, -1, 13, "x", True, [], {}, 1e300)
    endings = ("failed", "errored", "died", "deadline", "cancelled", "timeout", "passed")
    before = line[word]
    line[word] = dice.choice((dice.choice(others), dice.choice(odd), dice.choice(endings)))
    if dice.random() < 0.2:
        del line[word]
    lines[at] = json.dumps(line).encode() + b"\n"
    run.files[path] = b"".join(lines)
    return f"{path}:{at + 1}: {word} {before!r:.40} -> {line.get(word)!r:.40}"


def cut_file(dice: Random, run: Run) -> str:
    path = _some_file(dice, run)
    size = len(run.files[path])
    begin, end = (dice.randrange(size + 1), size) if dice.random() < 0.3 else (0, 0)
    end = end or dice.randrange(size + 1)
    run.files[path] = run.files[path][begin:end]
    return f"{path}: only {begin}..{end} of {size}"


def hole(dice: Random, run: Run) -> str:
    path = _some_file(dice, run)
    content = run.files[path]
    at, length = dice.randrange(len(content) + 1), dice.choice((1, 4, 200))
    fill = dice.choice((b"", b"\0" * length, bytes([dice.randrange(256)]), b"\n"))
    run.files[path] = content[:at] + fill + content[at + length :]
    return f"{path}: {length} bytes at {at} -> {fill[:4]!r}"


def drop_file(dice: Random, run: Run) -> str:
    path = _some_file(dice, run)
    del run.files[path]
    return f"{path}: dropped"


def empty_file(dice: Random, run: Run) -> str:
    path = _some_file(dice, run)
    run.files[path] = b""
    return f"{path}: emptied"


def swap_files(dice: Random, run: Run) -> str:
    path, other = _some_file(dice, run), _some_file(dice, run)
    run.files[path], run.files[other] = run.files[other], run.files[path]
    return f"{path} and {other} swapped"


def double_file(dice: Random, run: Run) -> str:
    path, other = _some_file(dice, run), _some_file(dice, run)
    place = dice.choice((path.rpartition("/")[0], other.rpartition("/")[0], "elsewhere"))
    run.files[f"{place}/copy-{dice.randrange(9)}.jsonl"] = run.files[path]
    return f"{path}: doubled into {place}"


def join_files(dice: Random, run: Run) -> str:
    path, other = _some_file(dice, run), _some_file(dice, run)
    if path != other:
        run.files[path] += run.files.pop(other)
    return f"{other}: appended to {path}"


def move_file(dice: Random, run: Run) -> str:
    path, other = _some_file(dice, run), _some_file(dice, run)
    place = dice.choice((other.rpartition("/")[0], "elsewhere"))
    name = path.rpartition("/")[2]
    run.files[f"{place}/{name}"] = run.files.pop(path)
    return f"{path}: moved to {place}"


def drop_folder(dice: Random, run: Run) -> str:
    place = _some_file(dice, run).partition("/")[0]
    for path in [one for one in run.files if one.startswith(f"{place}/")]:
        del run.files[path]
    return f"{place}: dropped"


def edit_plan(dice: Random, run: Run) -> str:
    """With or without an id that fits: a plan that fits is another plan than that of the run."""
    try:
        plan = json.loads(run.plan)
        shards = plan["shards"]
    except (ValueError, TypeError, KeyError):
        return "plan: nothing to edit"
    if not shards:
        return "plan: no shard to edit"
    shard = dice.choice(shards)
    kind = dice.choice(("unit", "shard", "twice", "name", "byte"))
    if kind == "unit" and shard["units"]:
        shard["units"].pop(dice.randrange(len(shard["units"])))
    elif kind == "shard":
        shards.remove(shard)
    elif kind == "twice" and shard["units"]:
        dice.choice(shards)["units"].append(dice.choice(shard["units"]))
    elif kind == "name" and shard["units"]:
        dice.choice(shard["units"])["unit"] += "x"
    run.plan = json.dumps(plan).encode()
    if kind == "byte":
        at = dice.randrange(len(run.plan))
        run.plan = run.plan[:at] + bytes([dice.randrange(256)]) + run.plan[at + 1 :]
    return f"plan: {kind}"


def edit_jobs(dice: Random, run: Run) -> str:
    if not run.jobs:
        return "jobs: none"
    at = dice.randrange(len(run.jobs))
    one = run.jobs[at]
    kind = dice.choice(("drop", "end", "end", "status", "name", "again", "twice"))
    if kind == "drop":
        del run.jobs[at]
    elif kind == "end":
        steps = dice.choice((FAILED, KILLED, ()))
        run.jobs[at] = replace(
            one, conclusion=dice.choice(CONCLUSIONS), steps=job("01", steps=steps).steps
        )
    elif kind == "status":
        run.jobs[at] = replace(
            one, status=dice.choice(("queued", "in_progress", "dreaming")), conclusion=None
        )
    elif kind == "name":
        run.jobs[at] = replace(one, name=dice.choice(("other", dice.choice(run.jobs).name)))
    elif kind == "again" and one.completed_at is not None:
        began = one.completed_at + timedelta(hours=1)
        run.jobs.append(
            replace(
                one,
                run_attempt=one.run_attempt + 1,
                started_at=began,
                completed_at=began,
                conclusion=dice.choice(CONCLUSIONS),
            )
        )
    else:
        run.jobs.append(replace(one, id=one.id + 1000, conclusion=dice.choice(CONCLUSIONS)))
    return f"jobs: {kind} {one.name}"


def edit_needs(dice: Random, run: Run) -> str:
    run.needs["legs"] = dice.choice(("failure", "cancelled", "skipped", "neutral", "", "success"))
    return f"needs: {run.needs}"


OF_FILES: Final = (
    *(drop_lines, swap_lines, double_line, move_line, edit_line, edit_line, edit_line),
    *(cut_file, hole, drop_file, empty_file, swap_files, double_file, join_files, move_file),
    drop_folder,
)
MUTATIONS: Final = (*OF_FILES, edit_plan, edit_jobs, edit_needs)


def mutated(dice: Random, original: Run) -> tuple[Run, list[str]]:
    """The run after one to three of them, and what they did."""
    run = Run(original.plan, dict(original.files), list(original.jobs), dict(original.needs))
    done = []
    for _ in range(dice.randint(1, 3)):
        kind: Callable[[Random, Run], str] = dice.choice(MUTATIONS)
        if run.files or kind not in OF_FILES:
            done.append(kind(dice, run))
    return run, done


def passes(run: Run) -> bool:
    verdict = run.verdict()
    return verdict is not None and verdict.exit_code == ExitCode.OK
