"""The command `ciguard coverage`: read the parts of a run's shards, and combine them."""

from __future__ import annotations

import json
import os
import posixpath
import re
import shutil
import subprocess
import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, NamedTuple

import click
from pydantic import TypeAdapter

from ciguard import console
from ciguard.codec.coverage_file import WITH_BRANCHES, Coverage, Share
from ciguard.config.invocation import Invocation
from ciguard.config.options import plan_option, records_option
from ciguard.coverage.combination import OWN_COMBINER, READERS, Files, Place, share_of
from ciguard.coverage.combination import Part as Content
from ciguard.errors import ExitCode, InputError
from ciguard.git.checkout import Checkout
from ciguard.github.events import current_run
from ciguard.guard.record_selection import select
from ciguard.guard.wording import coverage_text
from ciguard.model import Plan, Record, ShardLine, Suite, Variant
from ciguard.plan.collection import SECRETS
from ciguard.sources import local

# Each part is read first: `combine` leaves out one of another version with a mere warning. A test
# run without `source` also measures the plug-in of ciguard, whose folder is gone.
_PROGRAM: Final = """
import json, sys, coverage
data_file, output, config_file, roots, *parts = sys.argv[1:]
for part in parts:
    coverage.CoverageData(part).read()
tool = coverage.Coverage(data_file=data_file, config_file=config_file or True)
tool.set_option("report:omit", [*(tool.get_option("report:omit") or []), "*/ciguard-*/inside/*"])
tool.set_option("paths", {**tool.get_option("paths"), "ciguard": json.loads(roots)})
tool.combine(parts, strict=True, keep=True)
tool.save()
tool.json_report(outfile=output)
"""
_PYTHON: Final = re.compile(r"(?:python|pypy)[\d.]*(?:\.exe)?")
_CONFIG_FILE: Final = re.compile(r"--rcfile[= ](\S+)")


@click.command()
@plan_option(required=True)
@records_option(required=True)
@click.option("-o", "--output", metavar="FILE", help="JSON file for the numbers.")
@click.pass_obj
def command(invocation: Invocation, /, *, plan: str, records: str, output: str | None) -> int:
    """Combine the coverage of all shards of a run.

    Use a job without a token: coverage.py runs plug-ins of the project. The command ends with 0,
    also if data is missing.
    """
    run_plan = local.read_plan(invocation.folder / plan)
    parts, coverage = _find_parts(invocation.folder / records, run_plan)
    if parts and not coverage.incomplete:
        coverage = _combine(invocation, parts, coverage)
    if output is not None:
        content = TypeAdapter(Coverage).dump_json(coverage, indent=1)
        local.write(invocation.folder / output, content + b"\n")
    console.out(coverage_text(coverage))
    return ExitCode.OK


class _Part(NamedTuple):
    path: Path
    suite: Suite
    root: str  # of the checkout in its job
    config: str  # coverage.py's configuration, in the repository; "" for the default


def _find_parts(root: Path, plan: Plan) -> tuple[list[_Part], Coverage]:
    """Return the parts, the shards without one, and the suites and variants that collect none."""
    suites = {name: suite for name, suite in plan.suites.items() if suite.coverage}
    format_ = next((suite.coverage.format for suite in suites.values() if suite.coverage), "")
    if not format_:
        fix = "set format in [coverage] before the plan is made"
        raise InputError("its suites collect no coverage", where="--plan", fix=fix)
    newest = select(plan, local.read_record_tree(root)).newest
    parts, faults, without = list[_Part](), dict[str, str](), set[str]()
    for shard in plan.shards:
        variants = {unit.key[:2] for unit in shard.units} or {(shard.suite, shard.variant)}
        idle = {each for each in variants if not _collects(suites, *each)}
        without |= {" ".join(filter(None, each)) for each in idle}
        if idle == variants:
            continue
        try:
            parts += _parts_of(root, newest.get(shard.key), suites)
        except (InputError, ValueError) as error:
            what = local.printable(getattr(error, "what", str(error)))
            faults[shard.key] = f"shard {shard.key} ({what})"
    unit = "statement" if format_ == "go" else "line"
    if not parts and not faults:
        faults[""] = "no suite or variant of the plan collects it"
    states = (tuple(faults.values()), tuple(filter(None, faults)), tuple(sorted(without)))
    return parts, Coverage(format_, unit, *states)


def _collects(suites: Mapping[str, Suite], suite: str, variant: str) -> bool:
    files = suites[suite].coverage if suite in suites else None
    return files is not None and not any(fnmatchcase(variant, each) for each in files.without)


def _parts_of(root: Path, record: Record | None, suites: Mapping[str, Suite]) -> list[_Part]:
    """Return the parts of a shard.

    Raises:
        InputError: another part is missing.
        ValueError: the name of a part has a NUL.
    """
    if record is None:
        raise InputError("no record")
    if record.damage or record.end is None or record.end.ending != "completed":
        raise InputError("its record is incomplete")
    folders = [(root / source).resolve().parent for source in record.copies or (record.source,)]
    configs = {one.process: one.detail for one in record.events if one.kind == "coverage_config"}
    parts, processes = list[_Part](), set[int | None]()
    for event in record.events:
        if event.kind != "coverage" or not _collects(suites, *event.unit_key[:2]):
            continue
        processes.add(event.process)
        if event.reason == "repeated":
            continue
        if event.reason != "collected":
            raise InputError(f"process {event.process} {event.detail}")
        process = f"process-{event.process or 0:03d}"
        name = f"coverage/{process}/{event.detail}" if event.detail else f"{process}.coverage"
        # A record is not trusted: a part is no link, and it is in its folder.
        found = [folder / name for folder in folders if (folder / name).resolve() == folder / name]
        found = [path for path in found if os.path.isfile(path)]  # noqa: PTH113 - of any length
        if not found:
            raise InputError(f"no {name}")
        config = configs.get(event.process)
        parts.append(_part(found[0], record.identity, suites[event.suite], event.variant, config))
    for result in record.results:
        if not _collects(suites, *result.unit_key[:2]):
            continue
        if result.ending != "completed":  # what its process had covered is lost
            raise InputError(f"a test of process {result.process} ended: {result.ending}")
        if result.process not in processes:
            raise InputError(f"process {result.process} left nothing")
    return parts


def _part(path: Path, line: ShardLine, suite: Suite, variant: str, config: str | None) -> _Part:
    """Return a part, with the names of its job as those of the repository.

    Args:
        config: path of the configuration in the job, "" for none; None if it was not recorded.
    """
    cwd, root = line.folder or suite.cwd, line.root or ""
    if cwd.startswith("/") or ".." in cwd.split("/") or not cwd.isprintable():
        raise InputError(f"{cwd!r:.80} is no folder of the repository")
    if config is None:
        added = suite.variants.get(variant, Variant())
        given = _CONFIG_FILE.search(" ".join((*suite.command, *suite.args, *added.args)))
        file = given[1] if given else {**suite.env, **added.env}.get("COVERAGE_RCFILE", "")
        # Under this name, coverage.py looks for all of its default files.
        config = posixpath.join(cwd, file) if file not in ("", ".coveragerc") else ""
    return _Part(path, replace(suite, cwd=cwd), root, config.removeprefix(f"{root}/"))


def _combine(invocation: Invocation, parts: Sequence[_Part], coverage: Coverage) -> Coverage:
    """Combine all parts; a damaged part makes the coverage incomplete."""
    folder, total = invocation.folder, None
    files = Files(lambda path: os.path.isfile(folder / path))  # noqa: PTH113 - a path of any length
    modules = _go_modules(folder) if coverage.format == "go" else ()
    contents = defaultdict[Place, Content](dict)
    for part in parts:
        roots = modules if coverage.format == "go" else ((part.root, "."),)
        place = Place(part.suite.cwd, roots, is_named=coverage.format == "go")
        try:
            with local.opened(part.path) as stream:
                READERS[coverage.format](stream, part.path.name, contents[place])
        except (InputError, ValueError) as error:
            name = local.printable(os.path.relpath(part.path, folder))
            what = f"{name}: {getattr(error, 'what', str(error)):.300}"
            return replace(coverage, incomplete=(what,))
    try:
        for place, content in contents.items():
            files.add(place, content)
        if coverage.format == OWN_COMBINER:
            total, has_branches = _combine_by_tool(invocation, parts, files)
            coverage = replace(coverage, unit=WITH_BRANCHES) if has_branches else coverage
    except (InputError, ValueError) as error:
        return replace(coverage, incomplete=(getattr(error, "what", str(error)),))
    run, checkout = current_run(invocation.environ), Checkout(folder, invocation.environ)
    base = checkout.base_of_merge(run.tested_sha, run.head_sha) if run is not None else None
    if base is None:
        return files.measure(coverage, total, None)
    changed = [file for file in checkout.diff(checkout.commit(base)) if file.blob]
    measured = [file for file in changed if file.path in files.blocks]
    if unmapped := files.find_unmapped({file.path for file in changed}.difference(files.blocks)):
        return files.measure(replace(coverage, incomplete=(unmapped,)), total, None)
    diff = {file.path: checkout.added_lines(file) for file in measured}
    return files.measure(coverage, total, diff)


def _go_modules(folder: Path) -> tuple[tuple[str, str], ...]:
    """Return the name and folder of each module of a checkout, the longest names first."""
    modules = dict[str, str]()
    for file in sorted(folder.rglob("go.mod"), key=lambda path: len(path.parts), reverse=True):
        try:
            name = re.search(r"(?m)^module\s+\"?([^\s\"]+)", file.read_text("utf-8"))
        except (OSError, ValueError):
            continue
        if name:
            modules[name[1]] = file.parent.relative_to(folder).as_posix()
    return tuple(sorted(modules.items(), key=lambda module: -len(module[0])))


def _combine_by_tool(
    invocation: Invocation, parts: Sequence[_Part], files: Files
) -> tuple[Share, bool]:
    """Let the project's coverage.py combine the parts of each configuration.

    Returns:
        The total, and whether it has branches. Of several configurations, it is the union of all
        lines and branches: they may measure the same files.

    Raises:
        InputError: coverage.py is not installed, or failed.
    """
    groups = dict[tuple[tuple[str, ...], str, str], list[_Part]]()
    for part in parts:
        program = _python(part.suite.command, invocation.folder / part.suite.cwd)
        groups.setdefault((program, part.suite.cwd, part.config), []).append(part)
    branches, totals = Files(files.is_file), dict[str, Any]()
    for (program, cwd, config), group in groups.items():
        report = _report(invocation, (*program, "-c", _PROGRAM), cwd, config, group)
        place = Place(cwd, ((str(invocation.folder.resolve()), "."),))
        totals = report["totals"]
        for path, file in report["files"].items():
            lines = dict.fromkeys(file["missing_lines"], False)
            lines |= dict.fromkeys({*file["executed_lines"]} - {*file["excluded_lines"]}, True)
            files.add(place, {(path,): {(at, at, 1, ""): lines[at] for at in lines}})
            ways = dict.fromkeys(map(tuple, file.get("missing_branches", ())), False)
            ways |= dict.fromkeys(map(tuple, file.get("executed_branches", ())), True)
            branches.add(place, {(path,): {(*way, 1, ""): ways[way] for way in ways}})
    if len(groups) == 1:
        number = totals.get("num_branches", 0)
        covered = totals["covered_lines"] + totals.get("covered_branches", 0)
        percent = float(totals["percent_covered_display"])
        return Share(covered, totals["num_statements"] + number, percent), number > 0
    every = [*files.blocks.values(), *branches.blocks.values()]
    covered = sum(sum(blocks.values()) for blocks in every)
    return share_of(covered, sum(map(len, every))), any(branches.blocks.values())


def _python(command: Sequence[str], folder: Path) -> tuple[str, ...]:
    """Return the words of a command that start its Python: of `uv run python -m x` three."""
    words = [word for word, after in pairwise(command) if after == "-m"][:1]
    if words and _PYTHON.fullmatch(words[0].rpartition("/")[2]):
        program = tuple(command[: command.index("-m")])
        path = folder / program[0] if "/" in program[0] else program[0]
        return program if shutil.which(path) else ("python",)
    runs = command[1:2] == ("run",) and command[0] in ("uv", "poetry", "pdm", "hatch", "pipenv")
    return (*command[:2], "python") if runs else ("python",)


def _report(
    invocation: Invocation, program: Sequence[str], cwd: str, config: str, parts: Sequence[_Part]
) -> Any:
    """Return coverage.py's JSON report of parts, whose shards may have had other checkouts."""
    folder = invocation.folder / cwd
    environ = {name: value for name, value in invocation.environ.items() if name not in SECRETS}
    roots = [str(invocation.folder.resolve()), *sorted({part.root for part in parts} - {""})]
    with tempfile.TemporaryDirectory(prefix="ciguard-coverage-") as private:
        output = Path(private, "coverage.json")
        file = str(invocation.folder.resolve() / config) if config else ""
        argv = [*program, f"{private}/data", str(output), file, json.dumps(roots)]
        argv += [str(part.path.resolve()) for part in parts]
        try:
            done = subprocess.run(argv, cwd=folder, env=environ, capture_output=True, check=False)
        except (OSError, ValueError) as error:
            raise InputError(f"coverage.py: {error}") from error
        if done.returncode:
            what = done.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
            fix = " (install the project's coverage.py, and its plug-ins, in this job)"
            raise InputError(f"{what:.500}{fix if 'No module named' in what else ''}")
        return json.loads(output.read_bytes())
