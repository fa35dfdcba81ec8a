"""Preparation of a leg (one execution of a shard): check the plan, select units, make folders.

`run_shard` runs a shard of a plan, `run_command` any command; supervisor.py has the main loop.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from typing import Any, Final, Iterator, Mapping, Sequence

from ciguard.codec import plan_file as plan_codec
from ciguard.codec.record.lines import encode
from ciguard.errors import CiguardError, InputError, UsageError
from ciguard.model import (
    EndLine,
    EventLine,
    LegPolicy,
    Plan,
    PlannedUnit,
    Prediction,
    Runner,
    Shard,
    ShardLine,
    StartLine,
    Suite,
)
from ciguard.model.jobs import is_github_actions
from ciguard.model.plan import claimable_blocks
from ciguard.run.claim_client import TOKEN_VARIABLE, claim_client
from ciguard.run.frameworks.base import Invocation, ProcessFiles
from ciguard.run.frameworks.command import COMMAND
from ciguard.run.frameworks.id_limit import multiline
from ciguard.run.frameworks.registry import framework
from ciguard.run.output.leg_console import Console
from ciguard.run.output.view import GRACE_USED, describe_resumed, describe_until
from ciguard.run.platforms.base import Headroom, MachineMemory, Platform
from ciguard.run.platforms.current import CURRENT
from ciguard.run.plugin_files import extract_plugins
from ciguard.run.policy.guard_rail import memory_thresholds
from ciguard.run.policy.leg_verdict import LegVerdict
from ciguard.run.record_writer import LEG_FILE, RecordWriter, new_folder
from ciguard.run.result_collector import copy_prior_files
from ciguard.run.resume import (
    NO_PRIOR_LEGS,
    PriorLegs,
    read_prior_legs,
    with_claimed_units,
    write_prior_legs,
)
from ciguard.run.selection import (
    ALL_UNITS,
    Selection,
    listed_shard,
    listing_lines,
    up_to,
    without_units,
)
from ciguard.run.supervisor import LegSpec, Supervisor
from ciguard.text import unit_name

PLAN_FILE = "plan.json"
GIT_S = 5.0  # git takes 5 ms; a broken disk must not delay the tests
PROBE_ROUNDS = 3  # the fastest round counts, because other programs disturb a round
PROBE_BYTES = 1 << 19
MAX_CONDITION = 1000  # characters; a variable may have 128 KiB, and a line of a record 1 MiB
SERIAL = EventLine("serial", 0.0, detail="one test at a time: several do not fit into the memory")


def read_plan(path: str) -> Plan:
    """Read the plan from a file, or from the folder of a plan artifact.

    Raises:
        InputError: the file cannot be read, or is no plan.
    """
    file = os.path.join(path, PLAN_FILE) if os.path.isdir(path) else path
    try:
        with open(file, "rb") as stream:
            content = stream.read()
    except OSError as error:
        fix = "download the plan's artifact before this step"
        what = f"cannot be read: {error.strerror or error}"
        raise InputError(what, where=file, fix=fix) from error
    return plan_codec.decode(content, file)


def shard_of(plan: Plan, key: str) -> Shard:
    """Return the shard with this key.

    Raises:
        InputError: the plan has no such shard; the error lists its shards.
    """
    for shard in plan.shards:
        if shard.key == key:
            return shard
    keys = [shard.key for shard in plan.shards]
    some = ", ".join(keys if len(keys) <= 20 else [*keys[:3], "...", *keys[-3:]])  # noqa: PLR2004
    raise InputError(f"no shard {key!r} in the plan", where="--shard", fix=f"there are {some}")


def check_suites(plan: Plan, shard: Shard) -> None:
    """Check the suites of a shard before the first process, because every process would fail.

    Raises:
        InputError: a suite's folder is missing, or its framework cannot select the shard's units.
        UsageError: this version does not know a framework of the plan.
    """
    for name in sorted({shard.suite_key[0], *(unit.suite for unit in shard.units)}):
        suite = plan.suites[name]
        where = f"plan: suite {name!r}"
        if not os.path.isdir(suite.cwd):
            fix = "check out the repository first, and start in its root"
            raise InputError(f"no folder {suite.cwd!r} here", where=where, fix=fix)
        row = framework(suite.framework, where=where)
        for unit in shard.units:
            if unit.suite == name and not row.takes_id(unit.unit):
                raise InputError(multiline(unit.unit), where=where)


def check_commit(plan: Plan, head: ShardLine) -> None:
    """Refuse a plan for another commit, whose record no report would count.

    A plan that is kept in the repository has no commit and is valid for all.

    Raises:
        InputError: the commits differ; the error names both.
    """
    if plan.head_sha and head.head_sha and plan.head_sha != head.head_sha:
        what = f"is for commit {plan.head_sha:.60}, and this run is of {head.head_sha:.60}"
        fix = "download the plan that this run's own plan job has made"
        raise InputError(what, where="plan", fix=fix)


@contextlib.contextmanager
def _private_folder() -> Iterator[str]:
    """Provide a private folder with the plugins for tested processes; remove it at the end.

    Raises:
        InputError: the folder cannot be written.
    """
    folder = ""
    try:
        folder = tempfile.mkdtemp(prefix="ciguard-")
        extract_plugins(os.path.join(folder, "inside"))
    except OSError as error:
        shutil.rmtree(folder, ignore_errors=True)
        what = f"cannot be written: {error.strerror or error}"
        fix = "free some space, or point TMPDIR elsewhere"
        raise InputError(what, where=folder or "the temporary folder", fix=fix) from error
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _refusal_in_record(record: str, head: ShardLine, selection: Selection) -> Iterator[None]:
    """Write the reason into a new record if the shard cannot be listed; guard reports it."""
    try:
        yield
    except CiguardError as error:
        if selection.continues_attempt:  # the record of the earlier step counts
            raise
        with contextlib.suppress(InputError):
            lines = RecordWriter(os.path.join(new_folder(record), LEG_FILE))
            lines.append(head)
            lines.append(EventLine("last_output", 0.0, detail=error.what))
            lines.append(EndLine("setup_failed", 0.0, int(error.exit_code)))
            lines.close()
        raise


def run_shard(
    plan: Plan,
    key: str,
    record: str,
    environ: Mapping[str, str],
    selection: Selection = ALL_UNITS,
    *,
    origin_s: float,
    script: str = "",
    meminfo: str | None = None,
    platform: Platform = CURRENT,
) -> LegVerdict:
    """Run one shard of a plan in the current folder.

    Args:
        record: folder of the new record.
        selection: units of the shard to run.
        origin_s: start of the step on the monotonic clock.
        script: script that runs the tests, for the record; "" for the suites' own commands.
        meminfo: file from which the machine's memory is read; None for the system's file.
        platform: the operating system, or another way to start and measure processes.

    Raises:
        InputError, UsageError: plan, folder or selection do not fit, or the tests cannot be listed.
    """
    with_token, environ = environ, {k: v for k, v in environ.items() if k != TOKEN_VARIABLE}
    whole_shard, others = shard_of(plan, key), claimable_blocks(plan, key)
    shard = replace(whole_shard, blocks=())
    check_suites(plan, shard)
    guardrail = platform.headroom(meminfo)
    runner = _describe_runner(platform, guardrail, shard.pool)
    head = _shard_line(plan, shard, environ, runner, script=script)
    check_commit(plan, head)
    # Without a history the plan assumes equal times, which are no prediction.
    is_known = not selection.until and any(unit.has_history for unit in shard.units)
    predicted_s = shard.predicted.wall_s if is_known else None
    with _private_folder() as private:
        listed: list[EventLine] = []
        suite = plan.suites[shard.suite_key[0]]
        adapter = framework(suite.framework)
        is_chosen_first = selection != ALL_UNITS or plan.drill is not None  # only some units run
        if plan.policy.lists and (is_chosen_first or not adapter.lists_in_tested_process):
            with _refusal_in_record(record, head, selection):
                shard, listed = listed_shard(plan, shard, private, environ)
            plan = replace(plan, policy=replace(plan.policy, lists=False))
        shard, head, earlier, events = _select_units(shard, head, selection, plan, others)
        is_part = bool(selection.until or selection.step_limit_s or listed or earlier.legs)
        client, claim_events = claim_client(
            plan, whole_shard, others, head, with_token, is_part=is_part, origin_s=origin_s
        )
        initial = [replace(event, at_s=earlier.wall_s) for event in (*listed, *claim_events)]
        asks = client is not None and client.asks
        shard = whole_shard if asks else shard
        folder = new_folder(record)
        if earlier.lines:
            write_prior_legs(earlier, head, folder)
            copy_prior_files(earlier.copies, folder)
        job = LegSpec(
            header=head,
            shard=shard,
            suites=_suites(plan, shard),
            policy=_remaining_limits(plan.policy, earlier, selection),
            pool_env=plan.pools[shard.pool].env,
            executor=lambda suite: framework(plan.suites[suite].framework),
            record_dir=folder,
            scratch_dir=private,
            environ=environ,
            origin_s=origin_s - earlier.wall_s,
            step_limit_s=selection.step_limit_s,
            predicted_s=predicted_s,
            earlier=earlier,
            initial_events=(*initial, *events, *[SERIAL] * shard.serial),
            listing_lines=lambda answer: listing_lines(
                plan, shard, adapter.read_listing(suite, answer, b"", 0).units
            ),
            platform=platform,
            others_blocks=others if asks else {},
            claim_client=client,
        )
        return _supervise(with_drill(job, plan, guardrail) if plan.drill else job, guardrail)


def _suites(plan: Plan, shard: Shard) -> Mapping[str, Suite]:
    if not shard.serial:
        return plan.suites
    return {name: replace(suite, parallel=False) for name, suite in plan.suites.items()}


def _shard_line(
    plan: Plan, shard: Shard, environ: Mapping[str, str], runner: Runner, *, script: str
) -> ShardLine:
    folders = {suite.cwd for suite in plan.suites.values() if suite.coverage}
    line = ShardLine(
        plan.id,
        shard.key,
        folder=min(folders) if len(folders) == 1 else None,
        root=os.getcwd().replace("\\", "/") if folders else None,
        shards=len(plan.shards),
        runner=runner,
        script=script or None,
        conditions=conditions_of(plan.policy.conditions, {**environ, **plan.pools[shard.pool].env}),
    )
    return with_run(line, environ)


def _integer(text: str | None) -> int | None:
    """Parse a number; return None if the text is absent or no number."""
    return int(text) if text is not None and text.isdigit() else None


def workflow_file(reference: str) -> str | None:
    """Return `tests.yml` from `o/r/.github/workflows/tests.yml@refs/heads/main`."""
    return reference.partition("@")[0].rpartition("/")[2] or None


def read_event(path: str | None) -> Mapping[str, Any]:
    """Read the payload of the event that started the workflow; return {} if it cannot be read."""
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
    """Parse id and parents from `git cat-file --batch`; return (None, ()) if there is no commit."""
    head, _, body = answer.partition(b"\n")
    words = head.split()
    if len(words) != 3 or words[1] != b"commit":  # noqa: PLR2004  # id, type, size
        return None, ()
    fields = body.partition(b"\n\n")[0].splitlines()
    parents = [line[7:].decode("ascii") for line in fields if line.startswith(b"parent ")]
    return words[0].decode("ascii"), tuple(parents)


def checked_out() -> tuple[str | None, tuple[str, ...]]:
    """Return the commit in the current folder and its parents.

    They are read from the stored object: in a shallow clone, such as that of `actions/checkout`,
    git's `HEAD^@` finds no parents.
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
    """Return the branch; for a tag its whole ref, which never equals a base branch."""
    return f"refs/tags/{name}" if ref_type == "tag" and name else name


def conditions_of(names: Sequence[str], environ: Mapping[str, str]) -> Mapping[str, str]:
    """Return the named variables that are set; long values are cut."""
    return {name: environ[name][:MAX_CONDITION] for name in names if name in environ}


def with_run(line: ShardLine, environ: Mapping[str, str]) -> ShardLine:
    """Return a shard line with its start time; in GitHub Actions also with run and commit.

    Source: docs.github.com, "Variables reference"; the event file is the webhook's payload.
    """
    line = replace(line, started_at=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()))
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
        run_id=_integer(get_variable("GITHUB_RUN_ID")),
        run_attempt=_integer(get_variable("GITHUB_RUN_ATTEMPT")),
        # GitHub gives a job its id only; the workflow passes the displayed name.
        job=get_variable("CIGUARD_JOB") or get_variable("GITHUB_JOB"),
        event=get_variable("GITHUB_EVENT_NAME"),
        branch=get_variable("GITHUB_HEAD_REF")
        or _branch(get_variable("GITHUB_REF_TYPE"), get_variable("GITHUB_REF_NAME")),
        head_sha=head_sha_of(event) or sha,
        tested_sha=tested or sha,
        tested_parents=parents,
    )


def _describe_runner(platform: Platform, guardrail: Headroom, pool: str = "") -> Runner:
    """Return the machine that the leg runs on."""
    return Runner(pool, platform.cpus(), guardrail.memory_bytes(), _cpu_benchmark_s())


def _cpu_benchmark_s() -> float | None:
    """Measure the time of a fixed piece of CPU work (< 0.1 s), by which runners are compared.

    The work is compression of fixed bytes: C code that hardly differs between Python versions. None
    if Python was built without zlib.
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


def _select_units(
    shard: Shard,
    head: ShardLine,
    selection: Selection,
    plan: Plan,
    others: Mapping[str, tuple[PlannedUnit, ...]],
) -> tuple[Shard, ShardLine, PriorLegs, tuple[EventLine, ...]]:
    """Return the shard with the units to run, its shard line, the earlier legs, and their events.

    Raises:
        InputError: see `up_to`, `read_prior_legs`.
    """
    if selection.until:
        part = up_to(shard, selection.until, plan.suites, plan.shards)
        processes = shard.processes if shard.processes > part.processes else 1
        detail = describe_until(len(part.units), len(shard.units), processes)
        event = EventLine("run_until", 0.0, None, *part.units[-1].key, detail)
        return part, head, NO_PRIOR_LEGS, (event,)
    if not selection.earlier:
        return shard, head, NO_PRIOR_LEGS, ()
    earlier, head = read_prior_legs(
        selection.earlier,
        head,
        continues_attempt=selection.continues_attempt,
        unless_ended=selection.unless_ended,
        tries=plan.policy.max_tries,
        closing_suites=frozenset(name for name, suite in plan.suites.items() if suite.closes_units),
    )
    shard = with_claimed_units(shard, earlier, others)
    ended = earlier.ended
    detail = describe_resumed(
        sum(unit.key in ended for unit in shard.units),
        len(shard.units),
        earlier.legs,
        sorted({key for key, _ in earlier.failed}),
    )
    events = [EventLine("resumed", earlier.wall_s, earlier.processes or None, detail=detail)]
    events += [
        EventLine("failed_previously", earlier.wall_s, process, *key)
        for key, process in earlier.failed
    ]
    was_stopped = any(
        isinstance(line, EventLine) and line.kind == "deadline" for line in earlier.lines
    )
    if selection.step_limit_s is not None and was_stopped:
        events.append(EventLine("grace_used", earlier.wall_s, detail=GRACE_USED))
    return without_units(shard, earlier.finished), head, earlier, tuple(events)


def _remaining_limits(policy: LegPolicy, earlier: PriorLegs, selection: Selection) -> LegPolicy:
    """Reduce limits by the time of earlier steps, because all steps of a job share the limits."""
    spent_s = earlier.wall_s - earlier.began_s if selection.continues_attempt else 0.0

    def remaining_s(limit_s: float | None) -> float | None:
        return None if limit_s is None else max(0.0, limit_s - spent_s)

    return replace(
        policy,
        deadline_s=remaining_s(policy.deadline_s),
        repeat_until_s=None if selection.until else remaining_s(policy.repeat_until_s),
    )


def _wrapped_execution(suite: Suite, variant: str, batch: ProcessFiles) -> Invocation:  # noqa: ARG001
    """Return the command with the path of its record in the environment."""
    return Invocation(suite.command, {"CIGUARD_RECORD_FILE": batch.record_file})


# The supervisor writes the result of the program, which may add `metric` lines.
WRAPPED: Final = replace(COMMAND, name="wrapped", execution=_wrapped_execution)


def run_command(
    command: Sequence[str],
    record: str,
    environ: Mapping[str, str],
    *,
    origin_s: float,
    results: Sequence[str] = (),
    stdin: int | None = None,
) -> LegVerdict:
    """Run any command as a shard of one unit, with one process and one result.

    Args:
        stdin: descriptor from which the command reads; None for empty input.
        results: globs of result files that the command writes; they are copied into the record.

    Raises:
        UsageError: the program does not exist, or cannot be executed.
        InputError: see `new_folder`.
    """
    if shutil.which(command[0], path=environ.get("PATH")) is None:
        fix = "name a program on PATH, or a path to one"
        raise UsageError(f"no program {command[0]!r}", where="COMMAND", fix=fix)
    folder = new_folder(record)
    unit = PlannedUnit(" ".join(map(shlex.quote, command)), has_history=False)
    guardrail = CURRENT.headroom(None)
    head = with_run(ShardLine(runner=_describe_runner(CURRENT, guardrail)), environ)
    with _private_folder() as private:
        job = LegSpec(
            header=head,
            shard=Shard(key="", pool="", units=(unit,), predicted=Prediction(0.0, 0.0)),
            suites={"": Suite(WRAPPED.name, tuple(command), results=tuple(results))},
            policy=LegPolicy(),
            pool_env={},
            executor=lambda _: WRAPPED,
            record_dir=folder,
            scratch_dir=private,
            environ=environ,
            origin_s=origin_s,
            is_command=True,
            stdin=stdin,
        )
        try:
            return _supervise(job, guardrail)
        except UsageError:
            shutil.rmtree(folder, ignore_errors=True)  # no process has run
            raise


def _supervise(job: LegSpec, guardrail: Headroom) -> LegVerdict:
    record, console = RecordWriter(os.path.join(job.record_dir, LEG_FILE)), Console(job.environ)
    try:
        return Supervisor(job, record, guardrail, console).run()
    finally:
        record.close()
        console.close()


TIMEOUT_S: Final = 3.0  # timeout of the test that hangs in a drill
FREE_BYTES: Final = 64 << 20  # memory until the guard rail stops a test, which takes <= 512 MiB
FAULT: Final = """
import os, shutil, signal, sys, time
signal.signal(signal.SIGINT, signal.SIG_DFL)
drill, leg, folder, file, line = sys.argv[1:]
with open(file, "a") as stream:
    stream.write(line)
if drill == "cancelled":  # the first signal of a runner; it sends SIGTERM 7.5 s later
    os.kill(int(leg), signal.SIGINT)
if drill == "lost-shard":
    os.kill(int(leg), signal.SIGSTOP)  # it would report the removal
    shutil.rmtree(folder)
    os.kill(int(leg), signal.SIGKILL)
taken = []
while drill == "out-of-memory" and len(taken) < 64:
    taken.append(b"1" * (8 << 20))
    time.sleep(0.02)
time.sleep(10)
"""


def with_drill(job: LegSpec, plan: Plan, headroom: Headroom) -> LegSpec:
    """Return the task of a leg with the fault of the plan's drill, if its shard has to cause it.

    A program replaces the process that would run the first test of the shard. The program reports
    the start of this test, then causes the fault by which real runs lose tests. The supervisor
    treats the program as any other process, and the run must end red.

    Raises:
        UsageError: this system does not have the signals of the fault.
    """
    drill, largest = plan.drill, max(plan.shards, key=lambda shard: len(shard.units))
    if drill is None or not job.shard.units or (largest.units and largest.key != job.shard.key):
        return job
    if os.name == "nt" and drill in ("lost-shard", "cancelled"):
        raise UsageError(f"no drill {drill} on Windows", fix="choose timeout or out-of-memory")
    first, *others = job.shard.units
    detail = f"this shard causes {drill}, by {unit_name(first.key)}"
    job = replace(job, initial_events=(*job.initial_events, EventLine("drill", 0.0, detail=detail)))
    if drill == "dropped-test":
        return replace(job, shard=replace(job.shard, units=tuple(others)))
    if drill == "timeout":
        first = replace(first, timeout_s=TIMEOUT_S)
    if drill == "out-of-memory":
        # The test must run alone, because the guard rail stops the largest process.
        first = replace(first, peak_delta_bytes=headroom.memory_bytes())
        job = replace(job, policy=replace(job.policy, guard_rail="auto"))
    measure = headroom.headroom_bytes
    most_bytes: int | None = None
    _, critical = memory_thresholds(headroom.memory_bytes() or 0)

    def left_bytes(machine: MachineMemory) -> int | None:
        """Hide memory while the test runs: the guard rail acts long before the machine is short."""
        nonlocal most_bytes
        left = measure(machine)
        if left is None or most_bytes is None:
            return left
        most_bytes = max(left, most_bytes)  # other programs may free memory
        return min(left, left - most_bytes + int(critical) + FREE_BYTES)

    def execution(suite: Suite, variant: str, batch: ProcessFiles) -> Invocation:
        nonlocal most_bytes
        most_bytes = None
        with open(batch.units_file, encoding="ascii") as stream:
            units = json.load(stream)
        if (batch.suite, batch.variant) != first.key[:2] or first.unit not in units:
            return job.executor(batch.suite).execution(suite, variant, batch)
        most_bytes = 0 if drill == "out-of-memory" else None
        line = encode(StartLine(first.unit)).decode("ascii")
        words = (drill, str(os.getpid()), job.record_dir, batch.record_file, line)
        return Invocation((sys.executable, "-I", "-S", "-c", FAULT, *words))

    headroom.headroom_bytes = left_bytes  # type: ignore[method-assign]  # of this leg alone
    return replace(
        job,
        shard=replace(job.shard, units=(first, *others)),
        executor=lambda suite: replace(job.executor(suite), execution=execution),
    )
