"""Damage at random to all that a guard is handed: one kind a function, which says what it did."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from random import Random
from typing import Any, Final

from guard.fake_jobs import FAILED, KILLED, job
from guard.oracle import HEAD, Run, moment, number, objects

CONCLUSIONS: Final = (
    *("success", "failure", "neutral", "cancelled", "skipped", "timed_out", "action_required"),
    *("evaporated", "", None),
)


def _some_file(dice: Random, run: Run) -> str:
    return dice.choice(sorted(run.files)) if run.files else ""


def _lines(run: Run, path: str) -> list[bytes]:
    return run.files[path].splitlines(keepends=True)


def _put(run: Run, path: str, at: int, new: bytes, instead: int = 0) -> None:
    lines = _lines(run, path)
    lines[at : at + instead] = [new]
    run.files[path] = b"".join(lines)


def _written(*lines: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


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
    rest = [one[word] for content in run.files.values() for one in objects(content) if word in one]
    odd: tuple[Any, ...] = (None, "", 0, 1, 2, -1, 13, "x", True, [], {}, 1e300)
    endings = ("failed", "errored", "died", "deadline", "cancelled", "timeout", "passed")
    before = line[word]
    line[word] = dice.choice((dice.choice(rest), dice.choice(odd), dice.choice(endings)))
    if dice.random() < 0.2:
        del line[word]
    _put(run, path, at, _written(line), instead=1)
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


def _lines_of(run: Run, *kinds: str) -> list[tuple[str, int, dict[str, Any]]]:
    """Every line of these types, with its file and place."""
    return [
        (path, at, one)
        for path in sorted(run.files)
        for at, line in enumerate(_lines(run, path))
        for one in objects(line)
        if one.get("type") in kinds
    ]


def append_after_end(dice: Random, run: Run) -> str:
    """A leg goes on behind its end: by any line of another file, or as another step would."""
    ends = _lines_of(run, "end")
    if not ends:
        return "no end"
    path, at, end = dice.choice(ends)
    own = (
        {"type": "event", "kind": "resumed", "at_s": moment(end), "process": 1},
        {"type": "process", "process": 2, "units": 1, "at_s": moment(end) + 1},
        {"type": "sample", "at_s": moment(end) + 2},
    )
    more = dice.choice((_written(dice.choice(own)), _written(*own), _lines(run, path)[0]))
    _put(run, path, at + dice.choice((0, 1, 1)), more)
    return f"{path}: {more!r:.60} beside the end"


def another_end(dice: Random, run: Run) -> str:
    """Better or worse than the one that is there, before or behind it, here or in another file."""
    ends = _lines_of(run, "end")
    if not ends:
        return "no end"
    path, at, end = dice.choice(ends)
    ending = dice.choice(("completed", "completed", "deadline", "cancelled", "crash"))
    code = dice.choice((0, 0, 10, 13, 143))
    at_s = moment(end) + dice.choice((-1, 0, 1))
    more = _written({**end, "ending": ending, "exit_code": code, "at_s": max(0, at_s)})
    if dice.random() < 0.5:
        _put(run, path, at + dice.randrange(2), more)
    else:
        run.files[f"{path.rpartition('/')[0]}/ends-{dice.randrange(9)}.jsonl"] = more
    return f"{path}: another end: {ending}, {code}, at {at_s:.1f}"


def as_process_2(dice: Random, run: Run) -> str:
    """A result goes wrong; another process says that it passed, with more or less of its lines."""
    found = _lines_of(run, "result")
    if not found:
        return "no result"
    path, at, result = dice.choice(found)
    bad = dice.choice(("failed", "failed", "errored", "died"))
    owner = [one for one in objects(run.files[path]) if one.get("type") == "defaults"][:1]
    _put(run, path, at, _written({**result, "outcome": bad}), instead=1)
    at_s = moment(result) + dice.choice((0, 0, 1))
    rerun = {**result, "process": 2, "at_s": at_s, "try": dice.choice((1, 2))}
    place = path.rpartition("/")[0]
    run.files[f"{place}/process-002.jsonl"] = _written(*({**one, "process": 2} for one in owner))
    run.files[f"{place}/process-002.jsonl"] += _written(rerun)
    concurrent = f"{place}/supervisor.jsonl"
    if dice.random() < 0.7 and concurrent in run.files:
        own = _lines(run, concurrent)
        begin = {"type": "process", "process": 2, "units": 1, "at_s": at_s - dice.choice((0, 0.5))}
        end = {"type": "process_end", "process": 2, "ending": "completed", "at_s": at_s + 0.1}
        run.files[concurrent] = b"".join([*own[:-1], _written(begin, end), *own[-1:]])
    return f"{path}: {result.get('unit')} {bad}, and passed in process 2 at {at_s:.2f}"


def copied_folder(dice: Random, run: Run) -> str:
    """A leg's files once more, with one value changed in one of the two."""
    path = _some_file(dice, run)
    place = path.rpartition("/")[0]
    for one in [one for one in run.files if one.startswith(f"{place}/")]:
        run.files[f"copy-of-{one}"] = run.files[one]
    return f"{place}: copied; {edit_line(dice, run)}"


def restart_after_result(dice: Random, run: Run) -> str:
    starts = _lines_of(run, "start")
    if not starts:
        return "no start"
    path, _, start = dice.choice(starts)
    start = {**start, "at_s": moment(start) + dice.choice((0, 9))}
    _put(run, path, dice.randrange(len(_lines(run, path)) + 1), _written(start))
    return f"{path}: {start.get('unit')} begins once more"


def other_process_end(dice: Random, run: Run) -> str:
    """A process dies without a word, never ends, or is one that nobody announced."""
    found = _lines_of(run, "process_end", "process")
    if not found:
        return "no process"
    path, at, line = dice.choice(found)
    changes = (
        {"ending": "crash", "exit_code": -9},
        {"exit_code": -9},
        {"ending": dice.choice(("timeout", "out_of_memory", "setup_failed"))},
        {"process": number(line, "process") + 1},
        {"type": "nothing"},
    )
    change = dice.choice(changes)
    instead = int(dice.random() < 0.7)
    _put(run, path, at + 1 - instead, _written({**line, **change}), instead)
    return f"{path}: {line['type']} {change}"


def other_commit(dice: Random, run: Run) -> str:
    found = _lines_of(run, "shard")
    if not found:
        return "no shard line"
    path, at, line = dice.choice(found)
    other = _written({**line, "head_sha": dice.choice(("b" * 40, "", HEAD))})
    _put(run, path, at, other, instead=1)
    return f"{path}: of another commit"


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
    *(
        append_after_end,
        another_end,
        as_process_2,
        copied_folder,
        restart_after_result,
        other_process_end,
    ),
    *(drop_folder, other_commit),
)
MUTATIONS: Final = (*OF_FILES, edit_plan, edit_jobs, edit_needs)


def mutated(dice: Random, original: Run) -> tuple[Run, list[str]]:
    """The run after one to three of them, and what they did."""
    run = original.copy()
    done = []
    for _ in range(dice.randint(1, 3)):
        kind: Callable[[Random, Run], str] = dice.choice(MUTATIONS)
        if run.files or kind not in OF_FILES:
            done.append(kind(dice, run))
    return run, done
