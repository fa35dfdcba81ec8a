"""Guards a run of 100 legs with 100,000 results; target: < 5 s, < 500 MB, the whole process.

    python benchmarks/guard_scale.py [LEGS] [RESULTS] [CHECKOUT]

Records on the disk as legs write them, with a sample a second, once all green, once with one in ten
failed and a stack each. CPU time stands beside wall time: on a shared machine only that compares.
With CHECKOUT the program of another checkout is measured, five times in turn with this one.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from guard.fixtures import make_leg, make_plan

from ciguard.codec import plan_file as plan_codec
from ciguard.model import EndLine, Plan, ProcessEndLine, Result, SampleLine

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from guard.fixtures import Leg

TURNS: Final = 5
HERE: Final = Path(__file__).parents[1]
STACK: Final = "\n".join(
    [
        "shop/tensor.py:{0}: MemoryError: could not allocate {0} bytes",
        "Traceback (most recent call last):",
        *(
            f'  File "/home/runner/work/shop/shop/layer_{at}.py", line {{0}}, in forward_{at}\n'
            "    return self.inner(value)"
            for at in range(12)
        ),
    ]
)


def plan_of(legs: int, results: int) -> Plan:
    units = [
        f"tests/unit/mod_{n % 997}/test_thing_{n % 9973}.py::test_{n}[p{n % 7}]"
        for n in range(results)
    ]
    return make_plan({f"{leg + 1:03}": tuple(units[leg::legs]) for leg in range(legs)})


def result_of(unit: str, number: int, at_s: float, *, red: bool) -> Result:
    found = Result(
        unit,
        "passed",
        case=unit,
        at_s=round(at_s, 6),
        wall_s=round(0.3 + number % 89 / 100, 6),
        cpu_s=0.25,
        setup_s=0.01,
        rss_before_bytes=100_000_000 + number * 4096,
        peak_bytes=150_000_000,
        peak_delta_bytes=number % 5000 * 4096,
        retained_bytes=0,
        measured_by="mark",
        concurrent=1,
        process=1,
        file=unit.partition("::")[0],
        line=number % 400,
    )
    message = STACK.format(number)
    return replace(found, outcome="failed", message=message) if red else found


def legs_of(plan: Plan, *, every: int, run: int = 7) -> Iterator[Leg]:
    """All legs of a run; of each `every` results of one, one is red, of 0 none."""
    for shard in plan.shards:
        leg = make_leg(plan, shard.key, run=run)
        results = [at for at, line in enumerate(leg.inner) if isinstance(line, Result)]
        red = set(results[::every]) if every else set()
        for number, at in enumerate(results):
            unit = shard.units[number].unit
            leg.inner[at] = result_of(unit, number, number + 0.9, red=at in red)
        count = len(results)
        leg.own[1:] = [
            *(SampleLine(float(at_s), 480 << 20, 9 << 30, 9 << 30) for at_s in range(count // 2)),
            ProcessEndLine(1, "completed", 1 if red else 0, float(count)),
            EndLine(
                "completed",
                count + 0.1,
                10 if red else 0,
                {"passed": count - len(red), "failed": len(red)},
            ),
        ]
        yield leg


def write(folder: Path, legs: Iterable[Leg]) -> None:
    """The records of legs, in a folder."""
    for leg in legs:
        for path, content in leg.files().items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(content)


def measured(checkout: Path, words: Sequence[str], expect: int) -> tuple[float, float, float]:
    """Wall time, CPU time, largest memory in MiB of `ciguard guard`."""
    program = [sys.executable, "-m", "ciguard", "guard", *words]
    environ = {**os.environ, "PYTHONPATH": str(checkout)}
    nowhere = os.open(os.devnull, os.O_WRONLY)
    actions = [(os.POSIX_SPAWN_DUP2, nowhere, 1)]
    begin = time.perf_counter()
    process = os.posix_spawn(program[0], program, environ, file_actions=actions)
    _, status, usage = os.wait4(process, 0)
    seconds = time.perf_counter() - begin
    os.close(nowhere)
    assert os.waitstatus_to_exitcode(status) == expect, os.waitstatus_to_exitcode(status)
    return seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def main(legs: int, results: int, other: str = "") -> None:
    checkouts = [HERE, *([Path(other).resolve()] if other else [])]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.chdir(folder)
        plan = plan_of(legs, results)
        (folder / "plan.json").write_bytes(plan_codec.encode(plan))
        write(folder / "green", legs_of(plan, every=0))
        write(folder / "red", legs_of(plan, every=10))
        size = sum(item.stat().st_size for item in folder.rglob("*.jsonl")) / (1 << 20)
        print(f"{legs} legs, {results:,} results, {size:.0f} MiB in two runs")
        for what, more, expect in (
            ("green", (), 0),
            ("red", (), 10),
            ("red", ("--format", "json"), 10),
        ):
            words = ("--plan", "plan.json", "--records", what, *more)
            turns = [
                [measured(one, words, expect) for one in checkouts]
                for _ in range(TURNS if other else 1)
            ]
            for at in range(len(checkouts)):
                wall_s, cpu_s, mib = (min(turn[at][n] for turn in turns) for n in range(3))
                which = f"{what} {' '.join(more)}".strip() + (" (other)" if at else "")
                print(f"{which:<24}{wall_s:7.2f} s{cpu_s:7.2f} s CPU{mib:7.0f} MiB", flush=True)
            if other:
                ratios = sorted(turn[1][1] / turn[0][1] for turn in turns)
                print(f"  other / this, CPU time: {ratios[len(ratios) // 2]:.2f}")


if __name__ == "__main__":
    given = sys.argv[1:]
    sizes = [int(word) for word in given[:2]]
    legs, results = (*sizes, *(100, 100_000)[len(sizes) :])
    main(legs, results, "".join(given[2:3]))
