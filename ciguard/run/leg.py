"""A leg from its plan to its verdict: what is read before, made for it, and removed after it."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import tempfile
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Iterator, List, Mapping, Optional, Sequence, Tuple

from ciguard.codec import plan_file as plan_codec
from ciguard.errors import InputError, UsageError
from ciguard.model import EventLine, LegPolicy, PlannedUnit, Prediction, Shard, Suite
from ciguard.model.plan import claimable_blocks
from ciguard.run.claim_client import TOKEN_VARIABLE
from ciguard.run.claiming import claim_client
from ciguard.run.frameworks.base import Invocation, ProcessFiles
from ciguard.run.frameworks.command import COMMAND
from ciguard.run.frameworks.registry import framework
from ciguard.run.output.leg_console import Console
from ciguard.run.output.view import GRACE_USED, describe_resumed, describe_until
from ciguard.run.platforms.current import CURRENT
from ciguard.run.plugin_files import extract_plugins
from ciguard.run.record_header import conditions_of, describe_runner, header
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
    read_answer,
    up_to,
    without_units,
)
from ciguard.run.supervisor import LegSpec, Supervisor

if TYPE_CHECKING:
    from ciguard.model import Plan, Runner, ShardLine
    from ciguard.run.platforms.base import Headroom, Platform
    from ciguard.run.policy.leg_verdict import LegVerdict

PLAN_FILE = "plan.json"


def read_plan(path: str) -> Plan:
    """The plan in a file, or in a folder that a plan artifact was laid into.

    Raises:
        InputError: it cannot be read, or is no plan.
    """
    place = os.path.join(path, PLAN_FILE) if os.path.isdir(path) else path
    try:
        with open(place, "rb") as stream:
            content = stream.read()
    except OSError as error:
        fix = "download the plan's artifact before this step"
        what = f"cannot be read: {error.strerror or error}"
        raise InputError(what, where=place, fix=fix) from error
    return plan_codec.decode(content, place)


def shard_of(plan: Plan, key: str) -> Shard:
    """The shard of that key.

    Raises:
        InputError: there is none; lists those that there are.
    """
    for shard in plan.shards:
        if shard.key == key:
            return shard
    keys = [shard.key for shard in plan.shards]
    some = ", ".join(keys if len(keys) <= 20 else [*keys[:3], "...", *keys[-3:]])  # noqa: PLR2004
    raise InputError(f"no shard {key!r} in the plan", where="--shard", fix=f"there are {some}")


def check_suites(plan: Plan, shard: Shard) -> None:
    """Find out before the first process what would stop every one of them.

    Raises:
        InputError: a suite's folder is not there, or an id cannot be handed over.
        UsageError: a framework that this version does not know.
    """
    for name in sorted({shard.suite_key[0], *(unit.suite for unit in shard.units)}):
        suite = plan.suites[name]
        where = f"plan: suite {name!r}"
        if not os.path.isdir(suite.cwd):
            fix = "check out the repository first, and start in its root"
            raise InputError(f"no folder {suite.cwd!r} here", where=where, fix=fix)
        row = framework(suite.framework, where=where)
        own = (unit.unit for unit in shard.units if unit.suite == name)
        units = [unit for unit in own if not row.takes_id(unit)]
        if units:
            what = f"the id {units[0]!r:.200} has a line feed, and its framework reads lines"
            raise InputError(what, where=where, fix="rename the test, or exclude it")


def check_commit(plan: Plan, head: ShardLine) -> None:
    """Refuse a plan that was made for another commit: no report would count the record.

    A plan that is kept in the repository names none: it is for all that follow.

    Raises:
        InputError: naming both.
    """
    if plan.head_sha and head.head_sha and plan.head_sha != head.head_sha:
        what = f"is for commit {plan.head_sha:.60}, and this run is of {head.head_sha:.60}"
        fix = "download the plan that this run's own plan job has made"
        raise InputError(what, where="plan", fix=fix)


@contextlib.contextmanager
def _private_folder() -> Iterator[str]:
    """A folder of the leg's own with what enters tested processes; removed in the end.

    Raises:
        InputError: it cannot be written.
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


def run_shard(
    plan: Plan,
    key: str,
    record: str,
    environ: Mapping[str, str],
    scope: Selection = ALL_UNITS,
    *,
    origin_s: float,
    script: str = "",
    meminfo: Optional[str] = None,
    platform: Platform = CURRENT,
) -> LegVerdict:
    """Run one shard of a plan in the current folder.

    Args:
        record: folder of the new record.
        scope: which of its units.
        origin_s: start of the step, on the clock that cannot be set back.
        script: what runs the tests, for the record, where it is not the suites' own command.
        meminfo: a file that says what memory the machine has, in its stead.
        platform: how processes are started and measured, if not as this system does it best.

    Raises:
        InputError, UsageError: see `shard_of`, `check_suites`, `check_commit`, `new_folder`,
            `listed_shard`, `_select_units`.
    """
    with_token, environ = environ, {k: v for k, v in environ.items() if k != TOKEN_VARIABLE}
    whole, others = shard_of(plan, key), claimable_blocks(plan, key)
    shard = replace(whole, blocks=())
    check_suites(plan, shard)
    guardrail = platform.headroom(meminfo)
    head = _header_of(plan, shard, environ, describe_runner(platform, guardrail, shard.pool))
    head = replace(head, script=script or None)
    check_commit(plan, head)
    # Without history the plan takes all units for equal, which predicts nothing.
    known = not scope.until and any(unit.has_history for unit in shard.units)
    predicted_s = shard.predicted.wall_s if known else None
    with _private_folder() as private:
        listed: List[EventLine] = []
        adapter = framework(plan.suites[shard.suite_key[0]].framework)
        if plan.policy.lists and not (adapter.lists_in_tested_process and scope == ALL_UNITS):
            # A part of the shard is chosen before its first process.
            shard, listed = listed_shard(plan, shard, private, environ)
            plan = replace(plan, policy=replace(plan.policy, lists=False))
        shard, head, earlier, narrowed = _select_units(shard, head, scope, plan, others)
        is_part = bool(scope.until or scope.step_limit_s or listed or earlier.legs)
        client, not_asked = claim_client(
            plan, whole, others, head, with_token, is_part=is_part, origin_s=origin_s
        )
        asks = client is not None and client.asks
        shard = whole if asks else shard
        folder = new_folder(record)
        if earlier.lines:
            write_prior_legs(earlier, head, folder)
            copy_prior_files(earlier.copies, folder)
        job = LegSpec(
            header=head,
            shard=shard,
            suites=plan.suites,
            policy=_remaining_deadline(plan.policy, earlier, scope),
            pool_env=plan.pools[shard.pool].env,
            executor=lambda suite: framework(plan.suites[suite].framework),
            record_dir=folder,
            scratch_dir=private,
            environ=environ,
            origin_s=origin_s - earlier.wall_s,
            for_s=scope.step_limit_s,
            predicted_s=predicted_s,
            earlier=earlier,
            initial_events=_initial_events(earlier, (*listed, *not_asked), narrowed),
            listing_lines=lambda answer: listing_lines(
                plan, shard, read_answer(plan, shard, answer)
            ),
            platform=platform,
            others_blocks=others if asks else {},
            claim_client=client,
        )
        return _supervise(job, guardrail)


def _header_of(plan: Plan, shard: Shard, environ: Mapping[str, str], runner: Runner) -> ShardLine:
    pool_env = plan.pools[shard.pool].env
    return header(
        environ,
        plan_id=plan.id,
        shard=shard.key,
        shards=len(plan.shards),
        runner=runner,
        conditions=conditions_of(plan.policy.conditions, {**environ, **pool_env}),
    )


def _select_units(
    shard: Shard,
    head: ShardLine,
    scope: Selection,
    plan: Plan,
    others: Mapping[str, Tuple[PlannedUnit, ...]],
) -> Tuple[Shard, ShardLine, PriorLegs, Tuple[EventLine, ...]]:
    """The shard as far as it is to run, under which shard line, after which legs, and why.

    Raises:
        InputError: see `up_to`, `read_prior_legs`.
    """
    if scope.until:
        part = up_to(shard, scope.until, plan.suites, plan.shards)
        processes = shard.processes if shard.processes > part.processes else 1
        detail = describe_until(len(part.units), len(shard.units), processes)
        suite, variant, unit = part.units[-1].key
        return (
            part,
            head,
            NO_PRIOR_LEGS,
            (EventLine("run_until", 0.0, None, suite, variant, unit, detail),),
        )
    if not scope.earlier:
        return shard, head, NO_PRIOR_LEGS, ()
    earlier, head = read_prior_legs(
        scope.earlier,
        head,
        continues_attempt=scope.continues_attempt,
        unless_ended=scope.unless_ended,
        tries=plan.policy.max_tries,
        closing=frozenset(name for name, suite in plan.suites.items() if suite.closes_units),
    )
    shard = with_claimed_units(shard, earlier, others)
    left = without_units(shard, earlier.finished)
    ended = earlier.ended
    detail = describe_resumed(
        sum(unit.key in ended for unit in shard.units),
        len(shard.units),
        earlier.legs,
        sorted({key for key, _ in earlier.failed}),
    )
    event = EventLine("resumed", earlier.wall_s, earlier.processes or None, detail=detail)
    failed = [
        EventLine("failed_previously", earlier.wall_s, process, *key)
        for key, process in earlier.failed
    ]
    stopped = any(isinstance(one, EventLine) and one.kind == "deadline" for one in earlier.lines)
    if scope.step_limit_s is None or not stopped:
        return left, head, earlier, (event, *failed)
    grace_event = EventLine("grace_used", earlier.wall_s, detail=GRACE_USED)
    return left, head, earlier, (event, *failed, grace_event)


def _initial_events(
    earlier: PriorLegs, found: Sequence[EventLine], narrowed: Sequence[EventLine]
) -> Tuple[EventLine, ...]:
    return *(replace(one, at_s=earlier.wall_s) for one in found), *narrowed


def _remaining_deadline(policy: LegPolicy, earlier: PriorLegs, scope: Selection) -> LegPolicy:
    """The steps of one job share its limit, so the deadline counts from the first one's start."""
    if policy.deadline_s is None or not scope.continues_attempt:
        return policy
    spent_s = earlier.wall_s - earlier.began_s
    return replace(policy, deadline_s=max(0.0, policy.deadline_s - spent_s))


def _wrapped_execution(suite: Suite, variant: str, batch: ProcessFiles) -> Invocation:  # noqa: ARG001
    """Return the command itself, which is told where its record is."""
    return Invocation(suite.command, {"CIGUARD_RECORD_FILE": batch.record_file})


# The program need not report: the supervisor itself writes the result. It may add numbers of its
# own, as `metric` lines.
WRAPPED: Final = replace(COMMAND, name="wrapped", execution=_wrapped_execution)


def run_command(
    command: Sequence[str],
    record: str,
    environ: Mapping[str, str],
    *,
    origin_s: float,
    results: Sequence[str] = (),
    stdin: Optional[int] = None,
) -> LegVerdict:
    """Measure any command as a shard of one unit, which is one process with one result.

    Args:
        stdin: what it reads; None for nothing.
        results: globs of files that it writes; they come into the record.

    Raises:
        UsageError: there is no such program, or it cannot be executed.
        InputError: see `new_folder`.
    """
    if shutil.which(command[0], path=environ.get("PATH")) is None:
        fix = "name a program on PATH, or a path to one"
        raise UsageError(f"no program {command[0]!r}", where="COMMAND", fix=fix)
    folder = new_folder(record)
    unit = PlannedUnit(" ".join(map(shlex.quote, command)), has_history=False)
    guardrail = CURRENT.headroom(None)
    head = header(
        environ,
        plan_id="",
        shard="",
        runner=describe_runner(CURRENT, guardrail),
    )
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
            shutil.rmtree(folder, ignore_errors=True)  # as if it had been known before
            raise


def _supervise(job: LegSpec, guardrail: Headroom) -> LegVerdict:
    record, console = RecordWriter(os.path.join(job.record_dir, LEG_FILE)), Console(job.environ)
    try:
        return Supervisor(job, record, guardrail, console).run()
    finally:
        record.close()
        console.close()
