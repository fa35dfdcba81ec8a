"""`ciguard plan`: collects, reads the history, plans, and writes what a workflow needs."""

from __future__ import annotations

import io
from dataclasses import dataclass, field
from importlib.resources import files as resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from pydantic import ValidationError

from ciguard import console, files
from ciguard.codec import inventory as inventory_codec
from ciguard.codec import plan as plan_codec
from ciguard.codec.base import unpacked
from ciguard.codec.base_runs import Asker
from ciguard.codec.history_runs import UNDATED
from ciguard.codec.inventory import InventoryUnit
from ciguard.config import PlanConfig, mistake
from ciguard.configured import adopting, pool_of_suites, pools_of, suites_of
from ciguard.errors import CiguardError, ExitCode, InputError, UsageError, together
from ciguard.github import commands
from ciguard.github.payload import current_run
from ciguard.history.carriers import load, open_carrier, unusable
from ciguard.model import LegPolicy, Pool, Suite
from ciguard.plan import artifact, summary
from ciguard.plan.base import Base, BaseCount, count_of_history, count_of_plan, of_history, of_plan
from ciguard.plan.collect import MEND, collected, matching_files
from ciguard.plan.estimates import Estimates, Past, estimates, no_past
from ciguard.plan.explain import Case, explained, position_of
from ciguard.plan.facts import problem
from ciguard.plan.findings import untried
from ciguard.plan.given import given_shards, plan_of_given
from ciguard.plan.inventory import file_of, inventory, reject_repeated
from ciguard.plan.limits import limit
from ciguard.plan.matrix import as_output, matrix
from ciguard.plan.overheads import Overheads, overheads
from ciguard.plan.past import Share, costed, elsewhere, past, places_of
from ciguard.plan.planning import Origin, Planned, plan
from ciguard.plan.pools import learned
from ciguard.plan.shards import NO_OVERHEADS
from ciguard.plan.static import STATIC_FOLDER, filled_in, workflow_text
from ciguard.plan.suspects import Suspicion, suspicions
from ciguard.plan.timeouts import LimitRule, longest_setups, unit_limits
from ciguard.plan.works import Basis, Wishes
from ciguard.run.frameworks.inherited import given
from ciguard.run.frameworks.table import framework

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pydantic_core import ErrorDetails

    from ciguard.codec.history import History
    from ciguard.config import Config
    from ciguard.github.events import ActionsRun
    from ciguard.invocation import Invocation
    from ciguard.plan.inventory import Inventory, Kin
    from ciguard.plan.limits import Limit


EQUAL: Final = "the units are taken for equal and split evenly"


@dataclass(frozen=True, slots=True)
class _Known:
    """What the history gave: estimates, costs, its own words, what is odd."""

    past: Past
    estimates: Estimates
    suites: Mapping[str, Suite]
    pools: Mapping[str, Pool]
    told: Mapping[str, Any]
    notes: tuple[str, ...] = ()
    overheads: Overheads = NO_OVERHEADS
    suspicions: tuple[Suspicion, ...] = ()
    setups_s: Mapping[str, float] = field(default_factory=dict)
    base: Base | None = None
    count: BaseCount | None = None


@click.command(short_help="balance the tests over shards, by time and memory")
@click.option(
    "--inventory", "listed", metavar="FILE|-", help="Units, one a line or JSON; else collected."
)
@click.option(
    "--history", "place", metavar="FILE|branch:NAME", help="Past runs; else as configured."
)
@click.option("--shards", metavar="N", help="Exactly so many shards, 1 to 256.")
@click.option("--target-wall", metavar="TIME", help="As many shards as this wall time needs.")
@click.option("--limit", metavar="TIME", help="Time limit of a shard's step.")
@click.option("--risk", metavar="P", help="Accepted probability that any shard passes its limit.")
@click.option("--processes", metavar="N", help="Tested processes side by side in a leg.")
@click.option("--pool", "pools", metavar="NAME", multiple=True, help="Where legs run; repeatable.")
@click.option(
    "--group", metavar="none|file|file-strict|fixture", help="Tests to keep in one shard."
)
@click.option(
    "--base-plan", "base", metavar="FILE|history", help="Move no unit of it without need."
)
@click.option("-o", "--output", metavar="FILE", help="Write the plan here.")
@click.option("--artifact", "folder", metavar="DIR", help="Write all that a leg needs here.")
@click.option(
    "--static", metavar="WORKFLOW", help="Write the matrix into this file, the plan beside it."
)
@click.option("--explain", "unit", metavar="UNIT", help="Say why a unit is where it is.")
@click.option("--what-if", is_flag=True, help="Show the plan and write nothing.")
@click.option(
    "--format",
    "format_",
    type=click.Choice(["text", "markdown", "html", "json"]),
    default="text",
    help="What is printed.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the plan itself.")
@click.option("--github", is_flag=True, help="Set the step's outputs, write its summary.")
@click.pass_obj
def command(
    invocation: Invocation,
    /,
    *,
    listed: str | None,
    place: str | None,
    pools: tuple[str, ...],
    base: str | None,
    output: str | None,
    folder: str | None,
    static: str | None,
    unit: str | None,
    what_if: bool,
    format_: str,
    as_json: bool,
    github: bool,
    **flags: str | None,
) -> int:
    """Balance the tests over shards by time and memory, with a lower bound beside it."""
    if what_if and (output or folder or github or static):
        fix = "leave out -o, --artifact, --static and --github: it writes nothing"
        raise UsageError("nothing is written", where="--what-if", fix=fix)
    outputs = _outputs(invocation.environ) if github else None
    workflow = _workflow(invocation.folder, static)  # asked first: a plan takes minutes
    read = _listed(invocation.folder, listed) if listed is not None else None
    config = adopting(invocation.config(), read.units if read else ())
    asked = _asked(config.plan, flags)
    suites = suites_of(config)
    units, given = None, None
    if read is not None:
        units = inventory_codec.assigned(read.units, suites, listed or "")
        given = given_shards(units, read.empty, listed or "")
    if given is not None:
        _reject_choices(flags, base, static)
        units = given.units
    chosen = pools_of(config, pools)
    run = current_run(invocation.environ)
    found = _inventory(invocation, config, suites, chosen, units)
    source = (place or config.history.carrier, base, _asker(run))
    known = _known(invocation, source, found, suites, chosen)
    bounds = limit(asked.limit, asked.setup)
    basis = Basis(
        inventory=found,
        estimates=known.estimates,
        suites=known.suites,
        pools=known.pools,
        kin=_kin(suites),
        overheads=known.overheads,
        suspicions=known.suspicions,
        limits_s=_limits(config, found, known),
        base=known.base,
    )
    meant = position_of(basis, unit) if unit is not None else None
    policy = LegPolicy(config.policy.guard_rail, config.policy.tries, remainder=static is not None)
    wishes = _wishes(asked, bounds, pool_of_suites(config, chosen), policy)
    origin = _origin(run, known, found, kept=static is not None, tries=config.policy.tries)
    made = plan_of_given(basis, given, wishes, origin) if given else plan(basis, wishes, origin)
    _write(made, output, folder)
    if static is not None:
        _write_static(invocation.folder, (static, workflow), made, bounds.job_minutes)
    if outputs is not None:
        attempt = (run.run_attempt if run else None) or 1
        _tell_github(made, bounds.job_minutes, attempt, outputs, invocation.environ)
    shape = "json" if as_json else format_
    is_answered = meant is None and output != "-"
    # The picture begins with it: a terminal, which shows both streams, would say it twice.
    _warn(made, github=github, seen=is_answered and shape == "text")
    if meant is not None:
        console.out(explained(Case(made.plan, basis, known.past, meant)))
    elif is_answered:
        _answer(made, shape)
        if not (output or folder or what_if or as_json or static):
            console.err("the plan was not written: pass -o plan.json or --artifact DIR")
    return ExitCode.OK


def _wishes(
    asked: PlanConfig,
    bounds: Limit,
    pool_of: Mapping[str, str | None],
    policy: LegPolicy,
) -> Wishes:
    return Wishes(
        limit=bounds,
        pool_of=pool_of,
        shards=asked.shards,
        target_wall_s=asked.target_wall,
        risk=asked.risk,
        processes=asked.processes,
        group=asked.group,
        policy=policy,
    )


def _limits(config: Config, found: Inventory, known: _Known) -> tuple[float | None, ...]:
    rules = {
        name: LimitRule(entry.timeout, entry.timeout_ratio) for name, entry in config.suite.items()
    }
    return unit_limits(found, known.past, rules, known.setups_s)


def _origin(
    run: ActionsRun | None, known: _Known, found: Inventory, *, kept: bool, tries: int
) -> Origin:
    """Where the plan comes from; one that is kept is for the commits that follow."""
    return Origin(
        history=known.told,
        repository=run.repository if run else None,
        workflow=run.workflow if run else None,
        head_sha=run.head_sha if run and not kept else None,
        notes=(*known.notes, *(untried(known.suites, found) if tries > 1 else ())),
        base=known.count,
    )


def _outputs(environ: Mapping[str, str]) -> str:
    """Where the step's outputs go. Asked first: a plan takes minutes."""
    if not environ.get("GITHUB_OUTPUT"):
        fix = "leave --github out: GitHub Actions sets it in every step"
        raise UsageError("GITHUB_OUTPUT is not set", where="--github", fix=fix)
    return environ["GITHUB_OUTPUT"]


def _asked(configured: PlanConfig, flags: Mapping[str, str | None]) -> PlanConfig:
    """The configuration with what the command line says on top."""
    given: dict[str, Any] = {name: value for name, value in flags.items() if value is not None}
    if "shards" in given and "target_wall" in given:
        fix = "give the number, or the time that decides it"
        raise UsageError("both --shards and --target-wall", fix=fix)
    if "target_wall" in given:
        given["shards"] = None
    try:
        return PlanConfig.model_validate({**configured.model_dump(), **given})
    except ValidationError as error:
        raise together([_mistake(detail) for detail in error.errors()]) from None


def _mistake(detail: ErrorDetails) -> UsageError:
    return UsageError(mistake(detail), where=f"--{str(detail['loc'][0]).replace('_', '-')}")


def _reject_choices(flags: Mapping[str, str | None], base: str | None, static: str | None) -> None:
    """Where a listing names the shards there is nothing to choose."""
    said = {name: flags.get(name) for name in ("shards", "target_wall", "group", "processes")}
    for name, value in {**said, "base_plan": base, "static": static}.items():
        if value is not None:
            fix = "leave it out, or list the units without a shard"
            what = "the inventory says in which shard each unit is"
            raise UsageError(what, where=f"--{name.replace('_', '-')}", fix=fix)


def _inventory(
    invocation: Invocation,
    config: Config,
    suites: Mapping[str, Suite],
    pools: Mapping[str, Pool],
    listed: Sequence[InventoryUnit] | None,
) -> Inventory:
    """What there is: as `listed`, else as the frameworks list it."""
    there = {
        name: matching_files(
            config.suite[name].files or framework(suite.framework).FILE_PATTERNS,
            invocation.folder,
            suite.cwd,
        )
        for name, suite in suites.items()
    }
    notes = [
        f"suite.{name}.files: {', '.join(config.suite[name].files)} matches no file"
        for name in suites
        if config.suite[name].files and not there[name]
    ]
    for note in notes:
        console.err(f"warning: {note}")
    if listed is None:
        first = next(iter(pools))
        pool_of = pool_of_suites(config, pools)
        env = {name: pools[pool or first].env for name, pool in pool_of.items()}
        units = _collected(invocation, suites, env)
    else:
        units = tuple(listed)
        for name in (name for name in suites if there[name]):
            # An inventory that spells files another way would leave all of ours without a unit.
            spelled = {file_of(unit) for unit in units if unit.suite == name}
            there[name] = there[name] if spelled.intersection(there[name]) else ()
    return inventory(
        units,
        exclude={name: entry.exclude for name, entry in config.suite.items()},
        files=[file for files_ in there.values() for file in files_],
        ordered=listed is None,
    )


def _listed(folder: Path, path: str) -> inventory_codec.Inventory:
    content = files.read(path if path == "-" else folder / path)
    source = "stdin" if path == "-" else path
    found = inventory_codec.read(unpacked(io.BytesIO(content)), source)
    reject_repeated(found.repeated, source)
    return found


def _collected(
    invocation: Invocation, suites: Mapping[str, Suite], pool_env: Mapping[str, Mapping[str, str]]
) -> tuple[InventoryUnit, ...]:
    """Every suite's variants; what went wrong anywhere is told together."""
    units: list[InventoryUnit] = []
    mistakes: list[CiguardError] = []
    inherited = given(invocation.environ)
    for name, suite in suites.items():
        for variant in suite.variants:
            way = " ".join(filter(None, (name, variant)))
            where = f"suite {way}" if way else ""
            environ = {**inherited, **pool_env[name]}
            try:
                listing = collected(
                    framework(suite.framework), suite, variant, invocation.folder, environ
                )
            except InputError as error:
                mistakes.append(InputError(error.what, where=where, fix=error.fix))
                continue
            mistakes += (InputError(error, where=where, fix=MEND) for error in listing.errors)
            units += (
                InventoryUnit(
                    unit.unit, name, variant, unit.file or None, unit.categories, unit.group
                )
                for unit in listing.units
            )
    if mistakes:
        raise together(mistakes)
    return tuple(units)


def _kin(suites: Mapping[str, Suite]) -> dict[str, Kin]:
    return {name: framework(suite.framework).kin for name, suite in suites.items()}


def _asker(run: ActionsRun | None) -> Asker:
    return Asker(run.base_branch, run.workflow or None, run.run_id) if run else Asker()


def _base(
    place: str | None, history: History | None, asker: Asker, suites: Mapping[str, Suite]
) -> tuple[Base | None, BaseCount | None]:
    """The plan whose units are to stay where they are, and how many units the base has."""
    if place is not None and place != "history":
        kept = plan_codec.decode(files.read(place), place)
        return of_plan(kept), count_of_plan(kept)
    count = count_of_history(history, asker, suites) if history is not None else None
    if place is None:
        return None, count
    found = of_history(history) if history is not None else None
    if found is None:
        console.err("warning: --base-plan history: no run in it of which every leg ended well")
    return found, count


def _known(
    invocation: Invocation,
    source: tuple[str, str | None, Asker],
    found: Inventory,
    suites: Mapping[str, Suite],
    pools: Mapping[str, Pool],
) -> _Known:
    """All that the history tells, so that it need not be kept: it is most of what is in memory."""
    place, base, asker = source
    names, members = found.kin(_kin(suites)), found.members(_kin(suites))
    history, why = _history(invocation, place)
    kept, count = _base(base, history, asker, suites)
    if history is None:
        values = estimates(no_past(), len(found.units), names, members)
        untold: dict[str, Any] = {"source": None, "runs": 0}
        if "problem" in why:
            untold["problem"] = why["problem"]
        said = tuple(why.values())
        return _Known(no_past(), values, suites, pools, untold, said, base=kept, count=count)
    where = places_of(history, found)
    rows, share = past(history, found, where)
    values = estimates(rows, len(found.units), names, members)
    console.err(f"history: {place}, runs: {len(history.runs)}; {_joined(share)}")
    notes = []
    if not values.known.any():
        notes.append(f"the history at {place} knows none of the units: they are taken for equal")
    notes += elsewhere(history, found)
    told = {"source": place, "runs": len(history.runs), "entries": share.entries}
    told |= {"joined": share.joined, "known": int(values.known.sum())}
    if history.runs and history.runs[-1].at > UNDATED:
        told["newest"] = history.runs[-1].at.isoformat()
    return _Known(
        past=rows,
        estimates=values,
        suites=costed(suites, history),
        pools=learned(pools, history),
        told=told,
        notes=tuple(notes),
        overheads=overheads(history, found, where.unit_of_key),
        suspicions=suspicions(history, found, where.unit_of_key),
        setups_s=longest_setups(history),
        base=kept,
        count=count,
    )


def _joined(share: Share) -> str:
    part = share.joined / share.entries if share.entries else 1.0
    return f"{share.joined} of its {share.entries} entries ({part:.1%}) are units that exist"


def _history(invocation: Invocation, place: str) -> tuple[History | None, dict[str, str]]:
    """The history, or why there is none: then a plan is worse, and still right.

    A history that is lost, damaged or newer must not keep all runs from being planned until
    somebody mends it; it is left as it is, and the plan says so first.
    """
    try:
        loaded = load(open_carrier(place, invocation.folder, invocation.environ))
    except CiguardError as error:
        return None, {"problem": unusable(place, error, EQUAL)}
    if not loaded.found:
        return None, {"note": f"there is no history at {place} yet: {EQUAL}"}
    return loaded.history, {}


def _write(made: Planned, output: str | None, folder: str | None) -> None:
    if output is not None:
        files.write(output, made.content)
    if folder is not None:
        files.write(Path(folder, artifact.PLAN), made.content)
        program = artifact.zipped(artifact.members(resources("ciguard")))
        files.write(Path(folder, artifact.PROGRAM), program)


def _workflow(folder: Path, path: str | None) -> str:
    return workflow_text(files.read(folder / path), path) if path is not None else ""


def _write_static(folder: Path, workflow: tuple[str, str], made: Planned, minutes: int) -> None:
    """The plan in the repository: its matrix in the workflow (path, text), the rest beside it."""
    path, text = workflow
    filled = filled_in(text, matrix(made.plan, minutes), path)
    _write(made, None, str(folder / STATIC_FOLDER))
    files.write(folder / path, filled.encode("utf-8"))


def _tell_github(
    made: Planned, job_minutes: int, run_attempt: int, outputs: str, environ: Mapping[str, str]
) -> None:
    values = {
        "matrix": as_output(matrix(made.plan, job_minutes)),
        "plan_id": made.plan.id,
        "plan_artifact": artifact.artifact_name(made.plan.id, run_attempt),
    }
    files.append(outputs, commands.outputs(values))
    if environ.get("GITHUB_STEP_SUMMARY"):
        page = summary.markdown(made.plan, made.split)
        files.append(environ["GITHUB_STEP_SUMMARY"], page)


def _warn(made: Planned, *, github: bool, seen: bool) -> None:
    """Say what is odd.

    Args:
        seen: what keeps the history from being used stands in the answer.
    """
    for text in made.plan.warnings:
        if github:
            console.tell_runner(commands.annotation("warning", text, title="ciguard plan"))
        elif not (seen and text == problem(made.plan)):
            console.err(f"warning: {text}")


def _answer(made: Planned, format_: str) -> None:
    if format_ == "json":
        console.out(made.content.decode("ascii"))
    elif format_ == "markdown":
        console.out(summary.markdown(made.plan, made.split))
    elif format_ == "html":
        from ciguard.plan import picture  # noqa: PLC0415  # Jinja costs a fifth of a small plan

        console.out(picture.html(made.plan, made.split))
    else:
        console.out(summary.terminal(made.plan, made.split, encoding=console.encoding()))
