"""The whole loop on a small real suite: record, plan, run, guard; then a pull request that hurts.

`make demo`. Everything happens in `.demo/`: a copy of `demo/suite`, then the files of
`demo/pull_request` over it. Each command is printed before it runs, and its exit code is checked
against the one that it must have. Needs no network.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).resolve().parent
WORK: Final = HERE.parent / ".demo"
SHOP: Final = WORK / "shop"
CIGUARD: Final = Path(sys.executable).with_name("ciguard")
SCRUBBED: Final = ("CI", "GITHUB_", "RUNNER_", "CIGUARD_", "PYTEST_", "NO_COLOR", "FORCE_COLOR")


def environment() -> dict[str, str]:
    """Ours without what a CI machine adds; `python` is the one that runs this file."""
    stored = {name: value for name, value in os.environ.items() if not name.startswith(SCRUBBED)}
    stored["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{stored.get('PATH', '')}"
    stored["PYTHONDONTWRITEBYTECODE"] = "1"
    return stored


def print_line(text: str) -> None:
    """A heading between the commands."""
    print(f"\n\033[1m{text}\033[0m" if sys.stdout.isatty() else f"\n== {text}", flush=True)


def call(*words: str | Path, expect: tuple[int, ...] = (0,), shown: bool = True) -> None:
    """Run a command of the demo in the shop's folder; stop if it ends with another exit code."""
    arguments = [str(word).replace(f"{WORK}{os.sep}", "../") for word in words]
    print(f"$ {shlex.join(['ciguard', *arguments])}", flush=True)
    done = subprocess.run(
        [CIGUARD, *arguments],
        cwd=SHOP,
        env=environment(),
        check=False,
        stdout=None if shown else subprocess.DEVNULL,
    )
    if done.returncode not in expect:
        sys.exit(f"demo: expected exit code {expect}, found {done.returncode}")
    if done.returncode:
        print(f"(exit code {done.returncode}, as it must be)", flush=True)


def record(run: int, *, shown: bool = False, expect: tuple[int, ...] = (0,)) -> Path:
    """Plan with what history knows, and run all shards with the program that legs are given."""
    artifact, records = WORK / f"plan-{run}", WORK / f"run-{run}"
    call("plan", "--history", WORK / "history", "--artifact", artifact, shown=shown)
    for shard in json.loads((artifact / "plan.json").read_bytes())["shards"]:
        key = shard["key"]
        call(
            *("run", "--plan", artifact, "--shard", key, "--record", records / key),
            expect=expect,
            shown=False,
        )
    return records


def remember(records: Path, run: int) -> None:
    """Add a run to the history, as the last job of a run on the base branch does."""
    call(
        *("history", "add", records, "--history", WORK / "history"),
        *("--run-id", str(run), "--run-attempt", "1", "--sha", f"{run:040x}", "--branch", "main"),
        *("--event", "push", "--at", f"2026-11-0{run}T10:00:00Z"),
    )


def lose_a_record(run: int) -> None:
    """Remove the record of a shard that holds none of the three tests which the change hurts."""
    hurt = ("index_of_all_products", "test_settles", "test_cookie")
    plan = json.loads((WORK / f"plan-{run}" / "plan.json").read_bytes())
    spared = next(
        shard["key"]
        for shard in plan["shards"]
        if not any(unit["unit"].endswith(hurt) for unit in shard["units"])
    )
    print(f"$ rm -r ../run-{run}/{spared}", flush=True)
    shutil.rmtree(WORK / f"run-{run}" / spared)


def main() -> None:
    """The story, in order."""
    shutil.rmtree(WORK, ignore_errors=True)
    shutil.copytree(HERE / "suite", SHOP)

    print_line("Three runs on the base branch are recorded; the first plan knows nothing")
    for run in (1, 2, 3):
        remember(record(run), run)

    print_line("A fourth, planned from their history, and guarded")
    base = record(4, shown=True)
    call("guard", "--plan", WORK / "plan-4", "--records", base)

    print_line(
        "A pull request: +60 % memory, a test that hangs, one that crashes; a record is lost"
    )
    shutil.copytree(HERE / "pull_request", SHOP, dirs_exist_ok=True)
    head = record(5, expect=(0, 10))
    lose_a_record(5)
    call("guard", "--plan", WORK / "plan-5", "--records", head, expect=(13,))
    call("compare", base, head, "--history", WORK / "history")

    print_line("What the pull request is told")
    call(
        *("report", "--plan", WORK / "plan-5", "--records", head, "--history", WORK / "history"),
        *("-o", WORK / "comment.md"),
        expect=(13,),
    )
    print("$ cat ../comment.md", flush=True)
    print((WORK / "comment.md").read_text("utf-8"))


if __name__ == "__main__":
    main()
