"""What the pytest plugin costs a test, and how true its peak delta is.

    .venv/bin/python benchmarks/plugin_overhead.py [--tests 2000] [--rounds 11] [--heaps 0 1000]
    .venv/bin/python benchmarks/plugin_overhead.py --suite CHECKOUT [--python PYTHON] \
        [--plugins FOLDER ...] [--rounds 5] [-- PYTEST ARGUMENTS]

Cost: the same suite of empty tests with and without the plugin, in pairs whose order alternates,
once per heap size (MB of ballast full of holes beside pytest's own ~45 MB); the time is that of
pytest's run loop alone. Truth: tests that allocate known sizes, as one block and as blocks of 1 KiB
which the heap would reuse without malloc_trim, in an order that makes that visible. There the
ballast has no holes: small blocks that fit into holes need no memory, and a true peak says so.

`--suite` takes a real suite instead, and CPU seconds of pytest's run loop, because others may use
the machine: without the plugin and with that of each folder, in turn, each time beginning with the
next one.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final, NamedTuple

PLUGINS: Final = Path(__file__).resolve().parents[1] / "ciguard" / "run" / "plugins"
MEGABYTE: Final = 1_000_000
CONFTEST: Final = """
import os, time
import pytest

def pytest_configure(config):
    blocks = [b"x" * size for size in (600, 1000, 3000) * (int(os.environ["BALLAST_MB"]) * 215)]
    if os.environ["HOLES"]:
        # A heap full of holes, as after hours of tests.
        blocks += [b"x" * len(block) for block in blocks]
        del blocks[::2]
    config.ballast = blocks

@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_runtestloop(session):
    start_s = time.perf_counter()
    yield
    with open(os.environ["LOOP_FILE"], "w") as stream:
        stream.write(repr(time.perf_counter() - start_s))
"""
LOOP_CPU: Final = """
import os, time
import pytest

@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_runtestloop(session):
    start_s = time.process_time()
    yield
    with open(os.environ["LOOP_FILE"], "w") as stream:
        stream.write(f"{time.process_time() - start_s} {len(session.items)}")
"""
SIZES: Final = """
import pytest

@pytest.mark.parametrize("turn", range(5))
@pytest.mark.parametrize("megabytes", (64, 16, 8, 4, 2, 1))
@pytest.mark.parametrize("kind", ("one block", "small blocks"))
def test_size(kind, megabytes, turn):
    size = megabytes * 1_000_000
    if kind == "one block":
        block = bytearray(size)
        for place in range(0, size, 4096):
            block[place] = 1
    else:
        length = 991  # 1,024 bytes asked for, 1,040 taken from the heap, 8 in the list
        blocks = [b"x" * length for _ in range(size // 1048)]
"""


class Pair(NamedTuple):
    """One suite's loop time without and with the plugin, seconds."""

    plain_s: float
    plugin_s: float


def run(folder: Path, *, plugin: bool, ballast_mb: int, holes: bool) -> float:
    """Run the suite in `folder` once; its loop time in seconds."""
    for record in folder.glob("*.jsonl"):
        record.unlink()
    environment = {
        **os.environ,
        "PYTHONPATH": str(PLUGINS),
        "BALLAST_MB": str(ballast_mb),
        "HOLES": "yes" if holes else "",
        "LOOP_FILE": str(folder / "loop_s"),
        **({"CIGUARD_RECORD_FILE": str(folder / "process-001.jsonl")} if plugin else {}),
    }
    options = ["-q", "-p", "no:cacheprovider", *(["-p", "ciguard_pytest"] if plugin else [])]
    subprocess.run(
        [sys.executable, "-m", "pytest", *options, str(folder)],
        env=environment,
        cwd=folder,
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return float((folder / "loop_s").read_text("ascii"))


def interval(values: list[float]) -> tuple[float, float, float]:
    """The narrowest pair of order statistics that holds the median with >= 95 %, its coverage.

    Where the values are too few for 95 %, the smallest and the largest.
    """
    ordered, n = sorted(values), len(values)

    def missed(k: int) -> float:
        return 2 * sum(math.comb(n, below) for below in range(k + 1)) / (1 << n)

    k = max((k for k in range(n // 2) if missed(k) <= 0.05), default=0)
    return ordered[k], ordered[n - 1 - k], 1 - missed(k)


def cost(folder: Path, tests: int, rounds: int, ballast_mb: int) -> None:
    """Print the cost of the plugin at one heap size."""
    pairs: list[Pair] = []
    for turn in range(rounds):
        times: dict[bool, float] = {}
        for plugin in (turn % 2 == 0, turn % 2 != 0):
            times[plugin] = run(folder, plugin=plugin, ballast_mb=ballast_mb, holes=True)
        pairs.append(Pair(times[False], times[True]))
    each_us = [(pair.plugin_s - pair.plain_s) / tests * 1e6 for pair in pairs]
    ratios = [pair.plugin_s / pair.plain_s for pair in pairs]
    low, high, coverage = interval(each_us)
    low_ratio, high_ratio, _ = interval(ratios)
    plain_us = statistics.median(pair.plain_s for pair in pairs) / tests * 1e6
    print(
        f"heap +{ballast_mb} MB: {statistics.median(each_us):.0f} us a test "
        f"({coverage:.0%} interval {low:.0f}..{high:.0f}), ratio {statistics.median(ratios):.2f} "
        f"({low_ratio:.2f}..{high_ratio:.2f}) of an empty test's {plain_us:.0f} us, "
        f"{rounds} pairs of {tests} tests"
    )


def truth(folder: Path, ballast_mb: int) -> None:
    """Print how far the recorded peak deltas are from what the tests allocated."""
    run(folder, plugin=True, ballast_mb=ballast_mb, holes=False)
    errors: dict[tuple[str, int], list[float]] = {}
    marks: set[str] = set()
    for text in (folder / "process-001.jsonl").read_text().splitlines():
        line = json.loads(text)
        if line["type"] == "result":
            # The id ends in [kind-megabytes-turn].
            kind, size, _ = line["unit"].rpartition("[")[2].split("-")
            error = line["peak_delta_bytes"] / MEGABYTE - int(size)
            errors.setdefault((kind, int(size)), []).append(error)
            marks.add(line["measured_by"])
    print(f"peak delta, heap +{ballast_mb} MB, measured by {', '.join(sorted(marks))}:")
    print(f"  {'allocated':24}{'median error MB':>16}{'worst error MB':>16}{'n':>4}")
    for (kind, size), found in sorted(errors.items()):
        worst = max(found, key=abs)
        name = f"{size:3} MB, {kind}"
        print(f"  {name:24}{statistics.median(found):16.3f}{worst:16.3f}{len(found):4}")


def loop_cpu(suite: Path, arguments: list[str], python: str, plugins: Path | None) -> list[float]:
    """Run a real suite once; the CPU seconds of its loop, and how many tests it has."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "loop_cpu.py").write_text(LOOP_CPU)
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([folder, str(suite / "src"), str(plugins or folder)]),
            "LOOP_FILE": f"{folder}/loop_cpu",
        }
        options = ["-q", "-p", "no:cacheprovider", "-p", "loop_cpu"]
        if plugins is not None:
            environment["CIGUARD_RECORD_FILE"] = f"{folder}/process-001.jsonl"
            environment["CIGUARD_STOP_FILE"] = f"{folder}/stop"
            options += ["-p", "ciguard_pytest"]
        subprocess.run(
            [python, "-m", "pytest", *options, *arguments],
            env=environment,
            cwd=suite,
            check=False,  # a test may fail here
            stdout=subprocess.DEVNULL,
        )
        return [float(word) for word in Path(folder, "loop_cpu").read_text("ascii").split()]


def suite_cost(
    suite: Path, arguments: list[str], python: str, folders: list[Path], rounds: int
) -> None:
    """Print what the plugin of each folder costs a real suite."""
    variants: list[Path | None] = [None, *folders]
    cpu_s: dict[Path | None, list[float]] = {variant: [] for variant in variants}
    tests = 1.0
    for turn in range(rounds):
        first = turn % len(variants)
        for variant in variants[first:] + variants[:first]:
            taken_s, tests = loop_cpu(suite, arguments, python, variant)
            cpu_s[variant].append(taken_s)
    plain_us = statistics.median(cpu_s[None]) / tests * 1e6
    print(f"{suite.name}: {rounds} rounds of {tests:.0f} tests of {plain_us:.0f} us CPU")
    for folder in folders:
        pairs = list(zip(cpu_s[folder], cpu_s[None], strict=True))
        each_us = [(plugin_s - plain_s) / tests * 1e6 for plugin_s, plain_s in pairs]
        ratios = [plugin_s / plain_s for plugin_s, plain_s in pairs]
        low, high, coverage = interval(each_us)
        low_ratio, high_ratio, _ = interval(ratios)
        best = min(cpu_s[folder]) / min(cpu_s[None])
        print(
            f"  {folder}: {statistics.median(each_us):.0f} us a test ({coverage:.0%} interval "
            f"{low:.0f}..{high:.0f}), ratio {statistics.median(ratios):.3f} "
            f"({low_ratio:.3f}..{high_ratio:.3f}), of the fastest runs {best:.3f}"
        )


def main() -> None:
    """Run both measurements at every heap size asked for, or a real suite."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tests", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--heaps", type=int, nargs="+", default=[0, 1000], metavar="MB")
    parser.add_argument("--suite", type=Path, metavar="CHECKOUT")
    parser.add_argument("--python", default=sys.executable, help="that can run the suite")
    parser.add_argument("--plugins", type=Path, nargs="+", default=[PLUGINS], metavar="FOLDER")
    parser.add_argument("arguments", nargs="*", help="of pytest, for the suite")
    options = parser.parse_args()
    if options.suite:
        folders = [folder.resolve() for folder in options.plugins]
        suite_cost(
            options.suite.resolve(), options.arguments, options.python, folders, options.rounds
        )
        return
    with tempfile.TemporaryDirectory() as root:
        empty, sizes = Path(root, "empty"), Path(root, "sizes")
        for folder in (empty, sizes):
            folder.mkdir()
            (folder / "conftest.py").write_text(CONFTEST)
        body = "".join(f"def test_{number}(): pass\n" for number in range(options.tests))
        (empty / "test_empty.py").write_text(body)
        (sizes / "test_sizes.py").write_text(SIZES)
        for ballast_mb in options.heaps:
            cost(empty, options.tests, options.rounds, ballast_mb)
            truth(sizes, ballast_mb)


if __name__ == "__main__":
    main()
