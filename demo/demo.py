"""A small real suite: its plan, and a pull request that hangs, crashes and needs more memory.

`make demo`. Everything happens in `.demo/`: a copy of `demo/suite`, then the files of
`demo/pull_request` over it. Each command must end with the exit code that is expected. Needs no
network.
"""

from __future__ import annotations

import html
import json
import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from textwrap import TextWrapper
from typing import Final

HERE: Final = Path(__file__).resolve().parent
WORK: Final = HERE.parent / ".demo"
SHOP: Final = WORK / "shop"
CIGUARD: Final = Path(sys.executable).with_name("ciguard")
# By the pull request: what its comment says after the name of each test.
HURT: Final = {
    "test_index_of_all_products": " +",
    "test_settles": " | timeout: ",
    "test_cookie": " | crash: ",
}
SCRUBBED: Final = ("CI", "GITHUB_", "RUNNER_", "CIGUARD_", "PYTEST_", "NO_COLOR", "FORCE_COLOR")


def environment() -> dict[str, str]:
    """Ours without what a CI machine adds; `python` is the one that runs this file."""
    stored = {name: value for name, value in os.environ.items() if not name.startswith(SCRUBBED)}
    stored["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{stored.get('PATH', '')}"
    stored["PYTHONDONTWRITEBYTECODE"] = "1"
    return stored


def call(*words: str | Path, expect: tuple[int, ...] = (0,)) -> str:
    """Return what a command prints in the shop's folder; stop at an exit code not expected."""
    done = subprocess.run(
        [CIGUARD, *map(str, words)],
        cwd=SHOP,
        # Records of GitHub Actions name their repository; those of a desk do not.
        env={
            **environment(),
            **({"GITHUB_REPOSITORY": "example/shop"} if words[0] == "site" else {}),
        },
        check=False,
        capture_output=True,
        text=True,
    )
    if done.returncode not in expect:
        print(done.stdout, done.stderr)
        sys.exit(f"demo: expected exit code {expect}, found {done.returncode}")
    return done.stdout


def record(run: int, *, expect: tuple[int, ...] = (0,)) -> tuple[Path, str]:
    """Plan with what the history knows, and run all shards, two at a time.

    Returns:
        The folder of the records, and what `ciguard plan` printed.
    """
    artifact, records = WORK / f"plan-{run}", WORK / f"run-{run}"
    printed = call("plan", "--history", WORK / "history", "--artifact", artifact)
    shards = json.loads((artifact / "plan.json").read_bytes())["shards"]

    def run_shard(key: str) -> None:
        where = ("--plan", artifact, "--shard", key, "--record", records / key)
        call("run", *where, expect=expect)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(run_shard, [shard["key"] for shard in shards]))
    return records, printed


def remember(records: Path, run: int) -> None:
    """Add a run to the history, as the last job of a run on the base branch does."""
    call(
        *("history", "add", records, "--history", WORK / "history"),
        *("--run-id", str(run), "--run-attempt", "1", "--sha", f"{run:040x}", "--branch", "main"),
        *("--event", "push", "--at", f"2026-11-0{run}T10:00:00Z"),
    )


def lose_a_record(run: int) -> None:
    """Remove the record of a shard that holds none of the three tests which the change hurts."""
    plan = json.loads((WORK / f"plan-{run}" / "plan.json").read_bytes())
    spared = next(
        shard["key"]
        for shard in plan["shards"]
        if not any(unit["unit"].endswith(tuple(HURT)) for unit in shard["units"])
    )
    shutil.rmtree(WORK / f"run-{run}" / spared)


def for_terminal(markdown: str) -> str:
    """Return a comment as a terminal shows it: folds closed, without markup."""
    text = re.sub(r"<details><summary>(.*?)</summary>.*?</details>", r"> \1", markdown, flags=re.S)
    text = re.sub(r"^\|[-:| ]+\|\n", "", text, flags=re.M)
    text = re.sub(r"^\| (.*) \|$", lambda row: row[1].replace(" | ", "  "), text, flags=re.M)
    text = re.sub(r"<[^>]+>|\*\*|^#+ ", "", text, flags=re.M)
    text = re.sub(r"\n{2,}(?=> |\w+  )", "\n", re.sub(r"\n{3,}", "\n\n", text))
    lines = html.unescape(text.replace(":warning:", "!")).splitlines()
    wrap = TextWrapper(78, initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False)
    return "\n".join("\n".join(wrap.wrap(line)) for line in lines)


def main() -> None:
    """The story, in order."""
    shutil.rmtree(WORK, ignore_errors=True)
    shutil.copytree(HERE / "suite", SHOP)
    history = ("--history", WORK / "history")

    print(
        "Three runs of the base branch are recorded; from them a fourth is planned:\n", flush=True
    )
    for run in (1, 2, 3):
        remember(record(run)[0], run)
    _, printed = record(4)
    heading, table = printed.split("\n\n")[:2]
    print(f"{heading.splitlines()[-1]}\n\n{table}\n")

    print("A pull request adds 60 % memory to one test, one that hangs and one that crashes; the")
    print("record of a job is lost as well. The check, `ciguard guard`:\n", flush=True)
    shutil.copytree(HERE / "pull_request", SHOP, dirs_exist_ok=True)
    records, _ = record(5, expect=(0, 10))
    lose_a_record(5)
    judged = ("--plan", WORK / "plan-5", "--records", records)
    print(call("guard", *judged, expect=(13,)).partition("\n\n")[0])

    print("\nThe comment on the pull request, `ciguard report`:\n", flush=True)
    files = [WORK / name for name in ("comment.md", "page.html")]
    call("report", *judged, *history, "-o", files[0], "--html", files[1], expect=(13,))
    comment = files[0].read_text("utf-8")
    print(for_terminal(comment))
    text = html.unescape(comment.replace("<wbr>", ""))
    missing = {name: word for name, word in HURT.items() if f"{name}</code>{word}" not in text}
    if missing:
        sys.exit(f"demo: the comment does not say {missing}")

    call("site", *history, "--out", WORK / "site")
    files.append(WORK / "site" / "index.html")
    print("\nOpen:", *(file.relative_to(HERE.parent) for file in files))


if __name__ == "__main__":
    main()
