"""The command `ciguard plan`: collect tests, read their history, make the plan and write it.

The scope of a plan is the part of the project that the command line names: suites, pools, a matrix
or a list of tests.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib.resources import files as resources
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click
from pydantic import ValidationError

from ciguard import console
from ciguard.codec import inventory_file as inventory_codec
from ciguard.codec.unpack_limits import gunzip
from ciguard.config.declared_memory import match_needs
from ciguard.config.file import FILES, Config, describe_mistake, parse
from ciguard.config.options import PAST_RUNS, format_option
from ciguard.config.sections import NewTestsConfig, PlanConfig
from ciguard.config.suites import (
    config_of_suite,
    gpu_bytes_of,
    in_each_combination,
    needs_of,
    pool_of_suites,
    pools_of,
    suites_of,
    with_combinations,
    with_inventory_suites,
    with_pools,
)
from ciguard.errors import CiguardError, ExitCode, InputError, RemoteError, UsageError, combine
from ciguard.git.checkout import Checkout
from ciguard.history.query import BaseQuery, base_runs
from ciguard.history.stores import load_optional
from ciguard.model import DRILL_KINDS, CaseKey, DrillKind, LegPolicy, PlanNote, Pool, Suite
from ciguard.model.jobs import is_github_actions
from ciguard.plan import view
from ciguard.plan.allocation import first_listing_shards
from ciguard.plan.collection import collect_suites, matching_files, reject_multiline_ids
from ciguard.plan.declared_needs import DeclaredNeeds
from ciguard.plan.external_timings import external_timings, timed_units
from ciguard.plan.fixed_shards import FixedAssignment, fixed_assignment, plan_fixed
from ciguard.plan.history_inputs import Past, history_notes, past_units, read_past
from ciguard.plan.inventory import Inventory, file_of, inventory, reject_duplicates
from ciguard.plan.new_tests import mark_units, read_diff
from ciguard.plan.outputs import (
    MATRIX_KEY,
    PLAN,
    PROGRAM,
    artifact_name,
    as_output,
    matrix,
    members,
    zipped,
)
from ciguard.plan.planner import (
    PlanResult,
    Provenance,
    empty_plan,
    encode_plan,
    plan,
    with_listing_shards,
)
from ciguard.plan.problem import MAX_SHARDS, PlanOptions
from ciguard.plan.time_limits import TimeoutRule, time_limits
from ciguard.render.formats import as_format
from ciguard.run.frameworks.listing import list_invocation
from ciguard.run.frameworks.registry import framework
from ciguard.run.policy.reruns import MIN_PROBE_S
from ciguard.sources import local
from ciguard.text import annotation, step_outputs
from ciguard.workflow.matrix import Combination, read_matrix, take_axis

if TYPE_CHECKING:
    from ciguard.codec.inventory_file import InventoryUnit
    from ciguard.config.invocation import Invocation
    from ciguard.github.events import ActionsRun


@click.command()
@click.option(
    "--inventory",
    "listed",
    metavar="FILE|-",
    help="List of the tests, in lines or JSON (default: from the framework).",
)
@click.option(
    "--history",
    "history_location",
    metavar="FILE|branch:NAME|URL|copy:DIR",
    help=PAST_RUNS,
)
@click.option(
    "--matrix",
    "matrix_file",
    metavar="FILE|-",
    help="Matrix of the job; each combination gets shards.",
)
@click.option(
    "--take",
    metavar="AXIS",
    help="Axis of --matrix that splits the tests and is replaced by shards.",
)
@click.option(
    "--collect",
    type=click.Choice(["here", "history"]),
    default="here",
    help="Source of the tests: a listing here, or past runs.",
)
@click.option("--suite", "suite", metavar="NAME", help="Suite to plan (default: all).")
@click.option("--shards", metavar="N", help="Number of shards.")
@click.option("--target-wall", metavar="TIME", help="Wanted wall time of a shard.")
@click.option("--limit", metavar="TIME", help="Time limit of the step that runs a shard.")
@click.option(
    "--risk", metavar="P", help="Accepted probability that any shard exceeds its deadline."
)
@click.option("--processes", metavar="N", help="Largest number of concurrent test processes.")
@click.option("--pool", "pools", metavar="NAME", multiple=True, help="Pool to use; repeatable.")
@click.option(
    "--group", metavar="none|file|file-strict|fixture", help="Tests that stay in one shard."
)
@click.option(
    "--claims",
    metavar="URL",
    help="Address of a service that moves tests between jobs.",
)
@click.option(
    "--register",
    "registered",
    metavar="FILE|DIR",
    help="Existing plan, to send its movable tests to --claims.",
)
@click.option(
    "--drill",
    type=click.Choice(("none", *DRILL_KINDS)),
    default="none",
    help="Fault that a shard causes on purpose.",
)
@click.option("-o", "--output", metavar="FILE", help="File for the plan.")
@click.option("--artifact", "folder", metavar="DIR", help="Folder for the plan and its program.")
@click.option("--dry-run", is_flag=True, help="Only show the plan.")
@format_option("text", "markdown", "html", "json")
@click.option("--github", is_flag=True, help="Write outputs and summary of the step.")
@click.pass_obj
def command(
    invocation: Invocation,
    /,
    *,
    listed: str | None,
    history_location: str | None,
    matrix_file: str | None,
    take: str | None,
    collect: str,
    suite: str | None,
    pools: tuple[str, ...],
    registered: str | None,
    drill: DrillKind | Literal["none"],
    output: str | None,
    folder: str | None,
    dry_run: bool,
    format_: str,
    github: bool,
    **flags: str | None,
) -> int:
    """Divide the tests into shards that are balanced by time and memory."""
    if dry_run and (output or folder or github):
        fix = "leave out -o, --artifact and --github: it writes nothing"
        raise UsageError("nothing is written", where="--dry-run", fix=fix)
    outputs = _outputs(invocation.environ) if github or registered is not None else None
    if registered is not None:
        _register_blocks(invocation, registered, flags["claims"])
        return ExitCode.OK
    scope = read_scope(
        invocation, listed=listed, suite=suite, matrix_file=matrix_file, take=take, pools=pools
    )
    grows = scope.taken_shards is not None and not (flags["shards"] or flags["target_wall"])
    if grows:
        flags["shards"] = str(scope.taken_shards)
    effective = _effective_config(scope.config.plan, flags)
    if scope.given is not None:
        reject_choices(flags, matrix=matrix_file)
    if collect == "history":
        check_listed_by_legs(scope, listed)
        scope = replace(scope, lists_in_legs=True)
    run = _current_run(invocation.environ)
    location = history_location or scope.config.history.store
    claims = _claims_address(effective, scope)
    options = replace(_plan_options(scope, effective), claims=claims, grows=grows)
    origin = Provenance(
        repository=run.repository if run else None,
        workflow=run.workflow if run else None,
        head_sha=run.head_sha if run else None,
    )
    result = _make_plan(
        invocation, scope, location=location, run=run, options=options, origin=origin
    )
    result = _as_drill(result, drill, invocation.environ)
    _write(result, output, folder)
    if outputs is not None:
        attempt = (run.run_attempt if run else None) or 1
        _write_outputs(result, attempt, outputs, invocation.environ)
    shows_plan = output != "-"
    if github or not (shows_plan and format_ == "text"):  # a text has the warnings
        _warn(result, github=github)
    if shows_plan:
        console.out(_rendered(result, format_))
        if not (output or folder or dry_run or format_ == "json"):
            console.err("the plan was not written: pass -o plan.json or --artifact DIR")
    return ExitCode.OK


def _current_run(environ: Mapping[str, str]) -> ActionsRun | None:
    if not is_github_actions(environ):
        return None
    # Imported here: GitHub's models take a tenth of the time of a small plan.
    from ciguard.github.events import current_run  # noqa: PLC0415

    return current_run(environ)


def _plan_options(scope: Scope, effective: PlanConfig) -> PlanOptions:
    policy = scope.config.policy
    return PlanOptions(
        limit=time_limits(effective.limit, effective.setup),
        pool_of=pool_of_suites(scope.config, scope.pools),
        per_combination=scope.per_combination,
        shards=effective.shards,
        target_wall_s=effective.target_wall,
        risk=effective.risk,
        processes=effective.processes,
        group=effective.group,
        policy=LegPolicy(
            policy.guard_rail,
            1 + policy.retries,
            lists=scope.lists_in_legs,
            conditions=scope.config.metrics.conditions,
            probe_s=MIN_PROBE_S if policy.probe else None,
        ),
    )


def _make_plan(
    invocation: Invocation,
    scope: Scope,
    *,
    location: str,
    run: ActionsRun | None,
    options: PlanOptions,
    origin: Provenance,
) -> PlanResult:
    suites, pools = scope.suites, scope.pools
    query = BaseQuery(run.base_branch, run.workflow or None, run.run_id) if run else BaseQuery()
    loaded = load_optional(location, invocation.folder, invocation.environ)
    origin = replace(origin, notes=history_notes(loaded))
    files = _test_files(invocation, scope)
    test_files = tuple(chain.from_iterable(files.values()))
    if loaded.history is None:
        loaded = external_timings(location, invocation.folder, invocation.environ, suites)
    if scope.lists_in_legs:
        listed = past_units(loaded.history, query, suites)
        if loaded.history is not None and loaded.is_new:
            listed = timed_units(loaded.history, suites, files)
            options = replace(options, min_shards=first_listing_shards(suites))
            if not listed:
                loaded = loaded._replace(history=None, problem="it has none of these tests")
        if not listed:
            origin = replace(origin, notes=(*origin.notes, *history_notes(loaded)))
            draft = empty_plan(options, origin, pools, test_files)
            return with_listing_shards(draft, suites, pools, options)
        scope = replace(scope, listed=listed)
    existing, suites = _inventory(invocation, scope, files)
    past = read_past(
        existing,
        loaded,
        query,
        suites=suites,
        pools=pools,
        timeouts={
            name: TimeoutRule(entry.timeout, entry.timeout_ratio)
            for name, entry in scope.config.suite.items()
        },
        declared=_declared_needs(scope, existing),
    )
    history = loaded.history
    has_base = history is not None and any(True for _ in base_runs(history, query))
    if run is not None and run.event == "pull_request" and history is not None and has_base:
        past, options = _with_repeats(
            invocation, scope, run, past, options, known=history.keys, test_files=test_files
        )
    del history, loaded  # the history is the largest value in memory
    notes = (*origin.notes, *past.notes)
    origin = replace(origin, history=past.history_json, notes=notes, base=past.base_count)
    if scope.given:
        result = plan_fixed(past.inputs, scope.given, options, origin)
    else:
        result = plan(past.inputs, options, origin)
    if options.policy.lists:
        result = with_listing_shards(result.plan, suites, pools, options, result.split)
    return result


def _with_repeats(
    invocation: Invocation,
    scope: Scope,
    run: ActionsRun,
    past: Past,
    options: PlanOptions,
    *,
    known: Sequence[CaseKey],
    test_files: tuple[str, ...],
) -> tuple[Past, PlanOptions]:
    """Mark new and changed tests, by `[new_tests]` of the base; `known` are keys of the history."""
    config, diff, files = NewTestsConfig(), None, tuple[str, ...]()
    with suppress(CiguardError):
        checkout = Checkout(invocation.folder, invocation.environ)
        merged = checkout.base_of_merge(run.tested_sha, run.head_sha)
        if base := merged or run.base_sha or "":
            texts = checkout.files_at(base, FILES)  # fetches a missing commit
            config = parse(texts, invocation.environ).new_tests
        if merged is not None:
            changed = checkout.diff(merged)
            diff = read_diff(changed, frozenset(test_files), checkout.blobs)
            files = tuple(file.path for file in changed if file.blob and not file.renamed_from)
    if config.policy == "off" or not past.inputs.has_timings:
        return past, options
    changes, left = mark_units(past.inputs, known, diff, config.at_most)
    notes = [*past.notes, *([] if diff else [PlanNote("changed_tests_unknown")])]
    if left < 0:
        notes.append(PlanNote("repeats_omitted", {"tests": -left, "at_most": config.at_most}))
    lists = options.policy.lists and scope.suites.keys() <= {key.suite for key in known}
    files = tuple(sorted({*files} & {*test_files}))
    unplanned = max(0, left) if lists and (files or diff is None) else 0
    if unplanned or any(changes):
        files = files if unplanned else ()
        policy = replace(options.policy, repeat_unplanned=unplanned, repeat_files=files)
        options = replace(options, repeat_budget=config.budget, policy=policy)
        past = replace(past, inputs=replace(past.inputs, changes=changes))
    return replace(past, notes=tuple(notes)), options


def _declared_needs(scope: Scope, existing: Inventory) -> DeclaredNeeds:
    """Return the declared needs of the existing tests; warn of an entry without a test."""
    entries = needs_of(scope.config)
    needs_by_position = match_needs(existing.keys, entries)
    used = {id(need) for need in needs_by_position.values()}
    for suite, needs in entries.items():
        for number, need in enumerate(needs):
            if id(need) not in used:
                where = f"suite.{suite}.needs.{number}"
                console.err(f"warning: {where}: {need.units} matches no further test")
    return DeclaredNeeds(needs_by_position, gpu_bytes_of(scope.config, scope.pools))


def _outputs(environ: Mapping[str, str]) -> str:
    """Return the file of the step's outputs; check it first, because a plan may take minutes."""
    if not environ.get("GITHUB_OUTPUT"):
        fix = "leave --github out: GitHub Actions sets it in every step"
        raise UsageError("GITHUB_OUTPUT is not set", where="--github", fix=fix)
    return environ["GITHUB_OUTPUT"]


def _effective_config(configured: PlanConfig, flags: Mapping[str, str | None]) -> PlanConfig:
    given: dict[str, Any] = {name: value for name, value in flags.items() if value is not None}
    if "shards" in given and "target_wall" in given:
        fix = "give the number, or the time that decides it"
        raise UsageError("both --shards and --target-wall", fix=fix)
    if "target_wall" in given:
        given["shards"] = None
    try:
        return PlanConfig.model_validate({**configured.model_dump(), **given})
    except ValidationError as error:
        mistakes = [
            UsageError(describe_mistake(each), where=f"--{str(each['loc'][0]).replace('_', '-')}")
            for each in error.errors()
        ]
        raise combine(mistakes) from None


def _test_files(invocation: Invocation, scope: Scope) -> dict[str, tuple[str, ...]]:
    """Return the existing test files, by suite."""
    config, suites = scope.config, scope.suites
    files = {
        name: matching_files(
            config.suite[name].files or framework(suite.framework).file_patterns,
            invocation.folder,
            suite.cwd,
        )
        for name, suite in suites.items()
    }
    for name in suites:
        if config.suite[name].files and not files[name]:
            patterns = ", ".join(config.suite[name].files)
            console.err(f"warning: suite.{name}.files: {patterns} matches no file")
    return files


def _inventory(
    invocation: Invocation, scope: Scope, files_by_suite: dict[str, tuple[str, ...]]
) -> tuple[Inventory, Mapping[str, Suite]]:
    """Return the existing units, of the given list or of the frameworks, and the suites."""
    config, suites, listed = scope.config, scope.suites, scope.listed
    if listed is None:
        pools = pool_of_suites(config, scope.pools)
        env = {name: scope.pools[pool].env for name, pool in pools.items()}
        units, suites = collect_suites(suites, env, invocation.folder, invocation.environ)
    else:
        units = tuple(listed)
        for name in (name for name in suites if files_by_suite[name]):
            # If a list spelled files differently, every existing file would seem to have no unit.
            listed_files = {file_of(unit) for unit in units if unit.suite == name}
            if listed_files.isdisjoint(files_by_suite[name]):
                files_by_suite[name] = ()
    existing = inventory(
        units,
        exclude={name: entry.exclude for name, entry in config.suite.items()},
        files=chain.from_iterable(files_by_suite.values()),
        ordered=listed is None,
    )
    return existing, suites


def _write(result: PlanResult, output: str | None, folder: str | None) -> None:
    if output is not None:
        local.write(output, result.content)
    if folder is not None:
        local.write(Path(folder, PLAN), result.content)
        used = {suite.framework for suite in result.plan.suites.values()}
        local.write(Path(folder, PROGRAM), zipped(members(resources("ciguard"), used)))


def _as_drill(
    result: PlanResult, drill: DrillKind | Literal["none"], environ: Mapping[str, str]
) -> PlanResult:
    """Return the plan marked as a drill, if one is requested; no test moves between its shards.

    Raises:
        UsageError: the run was not started by hand, so that later runs would be drills, too.
    """
    if drill == "none":
        return result
    if environ.get("GITHUB_EVENT_NAME", "workflow_dispatch") != "workflow_dispatch":
        fix = "start the workflow by hand (workflow_dispatch)"
        raise UsageError("a drill needs a run that was started for it", where="--drill", fix=fix)
    shards = tuple(replace(shard, blocks=()) for shard in result.plan.shards)
    draft = replace(result.plan, drill=drill, shards=shards, claims="")
    return encode_plan(draft, [PlanNote("drill", {"drill": drill})], result.split)


def _claims_address(effective: PlanConfig, scope: Scope) -> str:
    """Return the address of the service from which jobs request blocks; "" for none.

    Raises:
        UsageError: the address is not that of a service, or the list of tests names the shards.
    """
    if not effective.claims:
        return ""
    # Imported here: httpx takes 0.2 s, which a plan without claims does not need.
    from ciguard.plan.block_registration import service_address  # noqa: PLC0415

    address = service_address(effective.claims)
    if scope.lists_in_legs or scope.given is not None:
        what = "tests can move only if the plan lists them and chooses their shards"
        fix = "leave out --collect history and shards in --inventory, or the address"
        raise UsageError(what, where="plan.claims", fix=fix)
    return address


def _register_blocks(invocation: Invocation, path: str, url: str | None) -> None:
    """Register the plan's blocks at the service; on an error, shards run their planned tests."""
    from ciguard.plan import block_registration as blocks  # noqa: PLC0415  # httpx, as above

    config = invocation.config()
    address = blocks.service_address(url or config.plan.claims)
    run, plan_ = _current_run(invocation.environ), local.read_plan(invocation.folder / path)
    if run is None or not any(shard.blocks for shard in plan_.shards):
        return
    if run.is_fork:
        console.err("no test moves in the run of a fork: it has no token for the service")
        return
    try:
        environ = blocks.without_foreign_token(invocation.environ, config.history.store, address)
        token = blocks.register(plan_, run, environ, address)
    except RemoteError as error:
        warning = f"no test moves during this run: {error}"
        console.workflow_command(annotation("warning", warning, title="ciguard plan"))
        return
    local.append_output(invocation.environ, step_outputs({"claims_token": token}))


def _write_outputs(
    result: PlanResult, run_attempt: int, outputs: str, environ: Mapping[str, str]
) -> None:
    values = {
        "matrix": as_output(matrix(result.plan)),
        "plan_id": result.plan.id,
        "shards": str(len(result.plan.shards)),
        "plan_artifact": artifact_name(result.plan.id, run_attempt),
    }
    local.append(outputs, step_outputs(values))
    if environ.get("GITHUB_STEP_SUMMARY"):
        local.append(environ["GITHUB_STEP_SUMMARY"], _rendered(result, "markdown"))


def _warn(result: PlanResult, *, github: bool) -> None:
    for text in map(view.note_text, result.plan.warnings):
        if github:
            console.workflow_command(annotation("warning", text, title="ciguard plan"))
        else:
            console.err(f"warning: {text}")


def _rendered(result: PlanResult, format_: str) -> str:
    if format_ == "json":
        return result.content.decode("ascii")
    blocks = view.document(result.plan, result.split)
    return as_format(blocks, format_, rows=MAX_SHARDS, full_text_location="the plan file")


@dataclass(frozen=True, slots=True)
class Scope:
    """The scope of a plan, before tests are collected.

    Attributes:
        listed: the units that `--inventory` lists; None if frameworks list the units.
        given: the shards, if the list of tests names them.
        per_combination: each variant of a suite is a combination of a job's matrix.
        taken_shards: number of values of the matrix axis that `--take` replaces.
        lists_in_legs: each job lists the existing units; `listed` are the units of a past run.
    """

    config: Config
    suites: Mapping[str, Suite]
    pools: Mapping[str, Pool]
    listed: Sequence[InventoryUnit] | None = None
    given: FixedAssignment | None = None
    per_combination: bool = False
    taken_shards: int | None = None
    lists_in_legs: bool = False


def check_listed_by_legs(scope: Scope, listed: str | None) -> None:
    """Check that the jobs of a plan can list their tests themselves.

    Raises:
        UsageError: there is no matrix, or a list of tests was passed.
        InputError: a suite has no command that lists its tests.
    """
    where = "--collect history"
    if not scope.per_combination:
        fix = "pass --matrix; an empty file is the matrix of a job without one"
        raise UsageError("is for the jobs of a matrix", where=where, fix=fix)
    if listed is not None:
        fix = "leave --inventory out, or pass --collect here"
        raise UsageError("the tests are known only when the jobs run", where=where, fix=fix)
    for name, suite in scope.suites.items():
        try:
            list_invocation(framework(suite.framework), suite, "")
        except InputError as error:
            fix = f'set list = ["program", "argument", ...] in [suite.{name}]'
            raise InputError(error.what, where=f"suite {name}", fix=fix) from error


def read_scope(
    invocation: Invocation,
    *,
    listed: str | None,
    suite: str | None,
    matrix_file: str | None,
    take: str | None,
    pools: tuple[str, ...],
) -> Scope:
    """Read the scope that the command line names.

    Raises:
        CiguardError: a file is malformed, or a name is unknown.
    """
    read = None
    if listed is not None:
        content, source = _read(invocation.folder, listed)
        read = inventory_codec.read(gunzip(io.BytesIO(content)), source)
        reject_duplicates(read.repeated, source)
    config = with_inventory_suites(invocation.config(), read.units if read else ())
    config = config if suite is None else config_of_suite(config, suite)
    scope = Scope(config, suites_of(config), pools_of(config, pools))
    if read is not None:
        units = inventory_codec.resolve_suites(read.units, scope.suites, listed or "")
        reject_multiline_ids(units, scope.suites, listed or "")
        given = fixed_assignment(units, read.empty, listed or "")
        scope = replace(scope, listed=given.units if given else units, given=given)
    if matrix_file is None:
        if take is not None:
            raise UsageError("no matrix to take an axis of", where="--take", fix="pass --matrix")
        return scope
    combinations, taken = _read_combinations(invocation.folder, matrix_file, take)
    suites = with_combinations(scope.suites, scope.pools, combinations)
    all_units = in_each_combination(scope.listed, combinations) if scope.listed else scope.listed
    variants = chain.from_iterable(suite.variants.values() for suite in suites.values())
    chosen = with_pools(scope.pools, {variant.pool for variant in variants})
    scope = replace(scope, suites=suites, pools=chosen, listed=all_units)
    return replace(scope, per_combination=True, taken_shards=taken)


def reject_choices(flags: Mapping[str, str | None], **others: str | None) -> None:
    """Refuse options that choose the shards if the list of tests names them."""
    names = ("shards", "target_wall", "group", "processes")
    given = {**{name: flags.get(name) for name in names}, **others}
    for name in (name for name, value in given.items() if value is not None):
        fix = "leave it out, or list the tests without a shard"
        what = "the inventory names the shard of each test"
        raise UsageError(what, where=f"--{name.replace('_', '-')}", fix=fix)


def _read(folder: Path, path: str) -> tuple[bytes, str]:
    """Return the content of a file, and the file's name for messages."""
    return (local.read("-"), "stdin") if path == "-" else (local.read(folder / path), path)


def _read_combinations(
    folder: Path, path: str, take: str | None
) -> tuple[tuple[Combination, ...], int | None]:
    """Read a matrix: its combinations, and the number of values of the axis `take` to remove.

    Raises:
        InputError: the file is no matrix of GitHub, or has the key of ciguard's own matrix.
    """
    content, where = _read(folder, path)
    text, taken = content.decode("utf-8", "replace"), None
    if take is not None:
        text, taken = take_axis(text, take, where)
    combinations = read_matrix(text, where)
    if any(name.lower() == MATRIX_KEY for each in combinations for name in each.values):
        fix = "rename the key: each entry of the plan's matrix has its shard there"
        raise InputError(f"has a key {MATRIX_KEY!r}", where=where, fix=fix)
    return combinations, taken
