"""What the pytest plugin costs a test, and how true its peak delta is.

    .venv/bin/python benchmarks/plugin_overhead.py [--tests 2000] [--rounds 11] [--heaps 0 1000]
    .venv/bin/python benchmarks/plugin_overhead.py --suite CHECKOUT [--python PYTHON] \
        [--rounds 3] [-- PYTEST ARGUMENTS]

Cost: the same suite of empty tests with and without the plugin, in pairs whose order alternates,
once per heap size (MB of ballast full of holes beside pytest's own ~45 MB); the time is that of
pytest's run loop alone. Truth: tests that allocate known sizes, as one block and as blocks of 1 KiB
which the heap would reuse without malloc_trim, in an order that makes that visible. There the
ballast has no holes: small blocks that fit into holes need no memory, and a true peak says so.

`--suite` takes a real suite instead, and CPU seconds, because others may use the machine: in one
process the plugin is off and on for blocks of 20 tests in turn, in random order.
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
BLOCKS: Final = """
import json, os, random, time
import pytest

BLOCK = 20  # tests

@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session):
    manager, items = session.config.pluginmanager, session.items
    recorder = manager.unregister(name="ciguard-recorder")
    shuffle = random.Random(int(os.environ["BLOCKS_SEED"]))
    pairs = []
    for start in range(0, len(items) - 2 * BLOCK + 1, 2 * BLOCK):
        first = shuffle.random() < 0.5
        spent_s = {}
        for with_plugin, begin in ((first, start), (not first, start + BLOCK)):
            if with_plugin:
                manager.register(recorder, "ciguard-recorder")
            began_s = time.process_time()
            for number in range(begin, begin + BLOCK):
                following = items[number + 1] if number + 1 < len(items) else None
                hook = items[number].config.hook
                hook.pytest_runtest_protocol(item=items[number], nextitem=following)
            spent_s[with_plugin] = (time.process_time() - began_s) / BLOCK
            if with_plugin:
                manager.unregister(recorder)
        pairs.append([spent_s[False], spent_s[True]])
    with open(os.environ["LOOP_FILE"], "w") as stream:
        json.dump(pairs, stream)
    return True
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


def block_pairs(suite: Path, arguments: list[str], python: str, seed: int) -> list[Pair]:
    """Run a real suite once; CPU seconds a test of each pair of blocks."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "blocks.py").write_text(BLOCKS)
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([folder, str(suite / "src"), str(PLUGINS)]),
            "LOOP_FILE": f"{folder}/pairs",
            "BLOCKS_SEED": str(seed),
            "CIGUARD_RECORD_FILE": f"{folder}/process-001.jsonl",
            "CIGUARD_STOP_FILE": f"{folder}/stop",
        }
        options = ["-q", "-p", "no:cacheprovider", "-p", "ciguard_pytest", "-p", "blocks"]
        subprocess.run(
            [python, "-m", "pytest", *options, *arguments],
            env=environment,
            cwd=suite,
            check=False,  # a test may fail here
            stdout=subprocess.DEVNULL,
        )
        return [Pair(*pair) for pair in json.loads(Path(folder, "pairs").read_text("ascii"))]


def suite_cost(suite: Path, arguments: list[str], python: str, rounds: int) -> None:
    """Print what the plugin costs a test of a real suite."""
    pairs = [pair for seed in range(rounds) for pair in block_pairs(suite, arguments, python, seed)]
    each_us = [(pair.plugin_s - pair.plain_s) * 1e6 for pair in pairs]
    low, high, coverage = interval(each_us)
    plain_us = statistics.median(pair.plain_s for pair in pairs) * 1e6
    added_us = statistics.median(each_us)
    print(
        f"{suite.name}: {added_us:.0f} us a test ({coverage:.0%} interval {low:.0f}..{high:.0f}), "
        f"{added_us / plain_us:+.1%} of {plain_us:.0f} us CPU, {len(pairs)} pairs of blocks"
    )


def main() -> None:
    """Run both measurements at every heap size asked for, or a real suite."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tests", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--heaps", type=int, nargs="+", default=[0, 1000], metavar="MB")
    parser.add_argument("--suite", type=Path, metavar="CHECKOUT")
    parser.add_argument("--python", default=sys.executable, help="that can run the suite")
    parser.add_argument("arguments", nargs="*", help="of pytest, for the suite")
    options = parser.parse_args()
    if options.suite:
        suite_cost(options.suite.resolve(), options.arguments, options.python, options.rounds)
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
