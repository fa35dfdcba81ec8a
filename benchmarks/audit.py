"""`ciguard audit`: CPU and peak memory of whole commands, over generated and real matrices.

Generated: 100,000 tests of 2,000 classes, 100 shards with 20 terms each, half of which match
nothing. Real: the matrices in the recordings beside the project, where they are. Every command is a
process of its own; the fastest of three counts.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

from recordings import FOLDER

TESTS, CLASSES, SHARDS, TERMS = 100_000, 2_000, 100, 20
ROUNDS = 3


def generate(folder: Path) -> tuple[Path, Path]:
    random_ = random.Random(1)
    words = ["Cart", "Order", "User", "Page", "Net", "Image", "Audio", "Graph", "Solver", "Codec"]
    classes = [
        f"Company.Product.Tests.{random_.choice(words)}.{random_.choice(words)}{number}Tests"
        for number in range(CLASSES)
    ]
    tests = [
        {
            "id": f"{classes[number % CLASSES]}.{random_.choice(words)}_Case{number}",
            "categories": [],
        }
        for number in range(TESTS)
    ]
    shards = [
        {
            "name": f"shard {shard}",
            "filter": "Category!=Slow&("
            + "|".join(
                f"FullyQualifiedName~{classes[(shard * TERMS + term) % CLASSES]}"
                f"{'' if term % 2 else 'Gone'}"
                for term in range(TERMS)
            )
            + ")",
        }
        for shard in range(SHARDS)
    ]
    paths = folder / "shards.json", folder / "tests.json"
    for path, content in zip(paths, (shards, tests), strict=True):
        path.write_text(json.dumps(content), "utf-8")
    return paths


def measure(matrix: Path, tests: Path) -> tuple[float, float, str]:
    """CPU in seconds, peak memory in MiB, and the first line of the answer."""
    command = [sys.executable, "-m", "ciguard", "audit"]
    with subprocess.Popen(
        [*command, "--matrix", str(matrix), "--tests", str(tests)],
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        answer = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, answer.partition("\n")[0]


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        cases = {"generated": generate(Path(folder))}
        real = FOLDER / "aidotnet"
        for name, date in (("real, April", "2026-04-14"), ("real, August", "head")):
            paths = real / f"shards_{date}.json", real / f"tests_{date}.json.gz"
            if all(path.is_file() for path in paths):
                cases[name] = paths
        print(f"{'matrix':14} {'CPU':>7} {'peak':>9}")
        for name, (matrix, tests) in cases.items():
            cpu_s, peak_mib, answer = min(measure(matrix, tests) for _ in range(ROUNDS))
            print(f"{name:14} {cpu_s:5.2f} s {peak_mib:5.0f} MiB  {answer}")


if __name__ == "__main__":
    main()
