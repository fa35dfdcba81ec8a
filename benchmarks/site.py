"""Writes the site of a history of 40,000 tests and 20 runs; target: < 5 s and < 20 MB.

    python benchmarks/site.py [KEYS] [RUNS]

The history is that of history_add.py, written by the code's own writer; the whole process counts.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from history_add import run_records

from ciguard.history import file as history_codec
from ciguard.history.file import empty
from ciguard.history.ingest import history_of
from ciguard.history.merge import merge


def main(keys: int, runs: int) -> None:
    history = empty()
    for run in range(runs):
        history = merge(history, history_of(run_records(keys, run)))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "history.ciguard").write_bytes(history_codec.encode(history))
        words = ("site", "--out", "site", "--history", "history.ciguard")
        begin = time.perf_counter()
        subprocess.run([sys.executable, "-m", "ciguard", *words], cwd=folder, check=True)
        print(f"{'whole process':<44}{time.perf_counter() - begin:8.2f} s")
        sizes = [path.stat().st_size for path in (folder / "site").rglob("*") if path.is_file()]
        print(f"{f'{len(sizes)} files':<44}{sum(sizes) / 1e6:8.2f} MB")


if __name__ == "__main__":
    main(*(int(word) for word in [*sys.argv[1:], "40000", "20"][:2]))
