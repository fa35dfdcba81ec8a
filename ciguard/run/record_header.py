"""First line of a leg's record, the shard line: its run, commit and machine.

Source: docs.github.com, "Variables reference"; the event file is the webhook's payload.
"""

from __future__ import annotations

import json
import subprocess
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Mapping, Sequence

from ciguard.model import Runner, ShardLine
from ciguard.model.jobs import is_github_actions

if TYPE_CHECKING:
    from ciguard.run.platforms.base import Headroom, Platform

NO_CONDITIONS: Mapping[str, str] = {}
GIT_S = 5.0  # git takes 5 ms; a broken disk must not delay the tests
PROBE_ROUNDS = 3  # the fastest round counts: the others were disturbed
PROBE_BYTES = 1 << 19
MAX_CONDITION = 1000  # characters; a variable may have 128 KiB, and a line of a record 1 MiB


def integer(text: str | None) -> int | None:
    """Parse a number; None if it is absent or no number."""
    return int(text) if text is not None and text.isdigit() else None


def workflow_file(reference: str) -> str | None:
    """Return `tests.yml` from `o/r/.github/workflows/tests.yml@refs/heads/main`."""
    return reference.partition("@")[0].rpartition("/")[2] or None


def read_event(path: str | None) -> Mapping[str, Any]:
    """Read the payload of the event that started the workflow; empty if it cannot be read."""
    if not path:
        return {}
    try:
        with open(path, encoding="utf-8") as stream:
            event = json.load(stream)
    except (OSError, ValueError, RecursionError):
        return {}
    return event if isinstance(event, dict) else {}


def head_sha_of(event: Mapping[str, Any]) -> str | None:
    """Return the head SHA of a pull request; None for another kind of event."""
    pull_request = event.get("pull_request")
    head = pull_request.get("head") if isinstance(pull_request, dict) else None
    sha = head.get("sha") if isinstance(head, dict) else None
    return sha if isinstance(sha, str) else None


def parse_commit(answer: bytes) -> tuple[str | None, tuple[str, ...]]:
    """Parse id and parents from `git cat-file --batch`; (None, ()) for no commit."""
    head, _, body = answer.partition(b"\n")
    words = head.split()
    if len(words) != 3 or words[1] != b"commit":  # noqa: PLR2004  # id, type, size
        return None, ()
    fields = body.partition(b"\n\n")[0].splitlines()
    parents = [line[7:].decode("ascii") for line in fields if line.startswith(b"parent ")]
    return words[0].decode("ascii"), tuple(parents)


def checked_out() -> tuple[str | None, tuple[str, ...]]:
    """Return the commit in the current folder and its parents.

    They are read from the stored object: in a shallow clone, as of `actions/checkout`, git's
    `HEAD^@` finds no parents.
    """
    try:
        done = subprocess.run(
            ["git", "cat-file", "--batch"],
            input=b"HEAD\n",
            capture_output=True,
            check=False,
            timeout=GIT_S,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None, ()
    return parse_commit(done.stdout)


def _branch(ref_type: str | None, name: str | None) -> str | None:
    """Return the branch; for a tag its whole ref, so that it never equals a base branch."""
    return f"refs/tags/{name}" if ref_type == "tag" and name else name


def conditions_of(names: Sequence[str], environ: Mapping[str, str]) -> Mapping[str, str]:
    """Return those of the named variables that are set; a long value is cut."""
    return {name: environ[name][:MAX_CONDITION] for name in names if name in environ}


def header(
    environ: Mapping[str, str],
    *,
    plan_id: str,
    shard: str,
    runner: Runner,
    shards: int | None = None,
    script: str = "",
    folder: str | None = None,
    root: str | None = None,
    conditions: Mapping[str, str] = NO_CONDITIONS,
) -> ShardLine:
    """Return the shard line; outside of GitHub Actions it has no run and no commit."""
    started_at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    line = ShardLine(plan_id, shard, shards=shards, started_at=started_at, runner=runner)
    line = replace(line, script=script or None, folder=folder, root=root, conditions=conditions)
    if not is_github_actions(environ):
        return line
    get_variable = environ.get
    tested, parents = checked_out()
    sha = get_variable("GITHUB_SHA")
    event = read_event(get_variable("GITHUB_EVENT_PATH"))
    return replace(
        line,
        repository=get_variable("GITHUB_REPOSITORY"),
        workflow=workflow_file(get_variable("GITHUB_WORKFLOW_REF", ""))
        or get_variable("GITHUB_WORKFLOW"),
        run_id=integer(get_variable("GITHUB_RUN_ID")),
        run_attempt=integer(get_variable("GITHUB_RUN_ATTEMPT")),
        # GitHub gives a job its id only; the workflow passes the displayed name.
        job=get_variable("CIGUARD_JOB") or get_variable("GITHUB_JOB"),
        event=get_variable("GITHUB_EVENT_NAME"),
        branch=get_variable("GITHUB_HEAD_REF")
        or _branch(get_variable("GITHUB_REF_TYPE"), get_variable("GITHUB_REF_NAME")),
        head_sha=head_sha_of(event) or sha,
        tested_sha=tested or sha,
        tested_parents=parents,
    )


def describe_runner(platform: Platform, guardrail: Headroom, pool: str = "") -> Runner:
    """Return the machine that the leg runs on."""
    return Runner(pool, platform.cpus(), guardrail.memory_bytes(), cpu_benchmark_s())


def cpu_benchmark_s() -> float | None:
    """Measure the time of a fixed piece of CPU work, < 0.1 s in all: it compares runners.

    The work is compression of fixed bytes: C code that hardly differs between Python versions.
    None if Python was built without zlib.
    """
    try:
        import zlib  # noqa: PLC0415  # optional in a build of Python
    except ImportError:
        return None
    content = bytes((index * index >> 5) & 0xFF for index in range(4096)) * (PROBE_BYTES >> 12)
    best_s = float("inf")
    for _ in range(PROBE_ROUNDS):
        start_s = time.perf_counter()
        zlib.compress(content, 6)
        best_s = min(best_s, time.perf_counter() - start_s)
    return round(best_s, 6)
