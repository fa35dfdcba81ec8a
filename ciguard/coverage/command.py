"""The command `ciguard coverage`: read the parts of a run's shards, and combine them."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
from pydantic import TypeAdapter

from ciguard import console
from ciguard.codec.coverage_file import Coverage, Share
from ciguard.coverage.combination import Files
from ciguard.coverage.formats import OWN_COMBINER, READERS
from ciguard.errors import ExitCode, InputError
from ciguard.git.checkout import Checkout
from ciguard.github.events import current_run
from ciguard.guard.record_selection import select
from ciguard.guard.wording import coverage_text
from ciguard.plan.collection import SECRETS
from ciguard.sources import local

if TYPE_CHECKING:
    from collections.abc import Collection, Container, Mapping

    from ciguard.config.invocation import Invocation
    from ciguard.model import Plan, Record, Suite

# Each part is read first: `combine` leaves out one of another version with a mere warning.
_PROGRAM: Final = """
import sys, coverage
data_file, output, *parts = sys.argv[1:]
for part in parts:
    coverage.CoverageData(part).read()
tool = coverage.Coverage(data_file=data_file)
tool.combine(parts, strict=True, keep=True)
tool.save()
tool.json_report(outfile=output)
"""
_FIX: Final = (
    "install the project's coverage.py in this job; for shards with another checkout folder, set "
    "`relative_files = true` or [paths] in its configuration"
)


@click.command()
@click.option("--plan", metavar="FILE|DIR", required=True, help="Plan of the run, or its folder.")
@click.option("--records", metavar="DIR", required=True, help="Folder of the records.")
@click.option("-o", "--output", metavar="FILE", help="File for all numbers, as JSON.")
@click.pass_obj
def command(invocation: Invocation, /, *, plan: str, records: str, output: str | None) -> int:
    """Combine the coverage of a run's shards: in total, by file, and of the pull request's lines.

    [coverage] of the plan's configuration names the format. coverage.py combines its data itself,
    with the project's configuration and plug-ins: use a job without a token.

    The command ends with 0, also if data is missing: the coverage is then incomplete.
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


def _find_parts(root: Path, plan: Plan) -> tuple[dict[Path, Suite], Coverage]:
    """Return the parts with the working folder of their suite, and the shards without a part."""
    suites = {name: suite for name, suite in plan.suites.items() if suite.coverage}
    format_ = next((suite.coverage.format for suite in suites.values() if suite.coverage), "")
    if not format_:
        fix = "set format in [coverage] before the plan is made"
        raise InputError("its suites collect no coverage", where="--plan", fix=fix)
    newest = select(plan, local.read_record_tree(root)).newest
    idle = _idle_variants(newest.values())
    parts: dict[Path, Suite] = {}
    faults, not_collected = dict[str, str](), list[str]()
    for shard in plan.shards:
        variants = {unit.key[:2] for unit in shard.units} or {(shard.suite, shard.variant)}
        if all(variant[0] not in suites or variant in idle for variant in variants):
            not_collected.append(shard.key)
            continue
        try:
            parts |= _parts_of(root, newest.get(shard.key), suites, idle)
        except InputError as error:
            faults[shard.key] = f"shard {shard.key} ({local.printable(error.what)})"
    unit = "statement" if format_ == "go" else "line"
    states = (tuple(faults.values()), tuple(faults), tuple(not_collected))
    return parts, Coverage(format_, unit, *states)


def _idle_variants(records: Collection[Record]) -> set[tuple[str, str]]:
    """Return the variants (suite, name) that collect none, beside others of their suite that do."""
    events = [each for record in records for each in record.events if each.kind == "coverage"]
    seen = {event.unit_key[:2] for event in events}
    collecting = {each.unit_key[:2] for each in events if each.reason in ("collected", "left_out")}
    results = (result for record in records for result in record.results)
    died = {result.unit_key[:2] for result in results if result.ending != "completed"}
    suites = {suite for suite, _ in collecting}
    return {variant for variant in seen - collecting - died if variant[0] in suites}


def _parts_of(
    root: Path,
    record: Record | None,
    suites: Mapping[str, Suite],
    idle: Container[tuple[str, str]],
) -> dict[Path, Suite]:
    """Return the parts of a shard with the working folder of their suite.

    Raises:
        InputError: another part is missing.
    """
    if record is None:
        raise InputError("no record")
    if record.damage or record.end is None or record.end.ending != "completed":
        raise InputError("its record is incomplete")
    folders = [(root / source).resolve().parent for source in record.copies or (record.source,)]
    parts: dict[Path, Suite] = {}
    processes = set[int | None]()
    for event in record.events:
        if event.kind != "coverage" or event.suite not in suites or event.unit_key[:2] in idle:
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
        suite = suites[event.suite]
        parts[found[0]] = replace(suite, cwd=record.identity.folder or suite.cwd)
    for result in record.results:
        if result.suite not in suites or result.unit_key[:2] in idle:
            continue
        if result.ending != "completed":  # what its process had covered is lost
            raise InputError(f"a test of process {result.process} ended: {result.ending}")
        if result.process not in processes:
            raise InputError(f"process {result.process} left nothing")
    return parts


def _combine(invocation: Invocation, parts: Mapping[Path, Suite], coverage: Coverage) -> Coverage:
    """Combine all parts; a damaged part makes the coverage incomplete."""
    folder, total = invocation.folder, None
    files = Files(lambda path: os.path.isfile(folder / path))  # noqa: PTH113 - a path of any length
    for path, suite in parts.items():
        try:
            with local.opened(path) as stream:
                READERS[coverage.format](stream, path.name, partial(files.add, suite.cwd))
        except (InputError, ValueError) as error:
            name = local.printable(os.path.relpath(path, folder))
            what = f"{name}: {getattr(error, 'what', str(error)):.300}"
            return replace(coverage, incomplete=(what,))
    if coverage.format == OWN_COMBINER:
        total = _combine_by_tool(invocation, parts, files)
    run, checkout = current_run(invocation.environ), Checkout(folder, invocation.environ)
    base = checkout.base_of_merge(run.tested_sha, run.head_sha) if run is not None else None
    if base is None:
        return files.measure(coverage, total, None)
    changed = [file for file in checkout.diff(checkout.commit(base)) if file.path in files.blocks]
    texts = checkout.blobs([blob for file in changed for blob in (file.old_blob, file.blob)])
    diff = {file.path: (texts[file.old_blob], texts[file.blob]) for file in changed}
    return files.measure(coverage, total, diff)


def _combine_by_tool(invocation: Invocation, parts: Mapping[Path, Suite], files: Files) -> Share:
    """Let the project's coverage.py combine its parts, add their lines, and return its total.

    Raises:
        InputError: coverage.py is not installed, or failed.
    """
    command = next(iter(parts.values())).command
    program = command[: command.index("-m")] if "-m" in command else ("python",)
    cwds = {suite.cwd for suite in parts.values()}
    cwd = cwds.pop() if len(cwds) == 1 else "."
    environ = {name: value for name, value in invocation.environ.items() if name not in SECRETS}
    with tempfile.TemporaryDirectory(prefix="ciguard-coverage-") as private:
        output = Path(private, "coverage.json")
        argv = [*program, "-c", _PROGRAM, f"{private}/data", str(output)]
        argv += [str(part.resolve()) for part in parts]
        folder = invocation.folder / cwd
        try:
            done = subprocess.run(argv, cwd=folder, env=environ, capture_output=True, check=False)
        except OSError as error:
            raise InputError(str(error), where=OWN_COMBINER, fix=_FIX) from error
        if done.returncode:
            what = done.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
            raise InputError(f"{what:.500}", where=OWN_COMBINER, fix=_FIX)
        report = json.loads(output.read_bytes())
    for path, file in report["files"].items():
        for line in file["missing_lines"]:
            files.add(cwd, path, (line, line, 1, ""), False)
        for line in {*file["executed_lines"]} - {*file["excluded_lines"]}:
            files.add(cwd, path, (line, line, 1, ""), True)
    totals = report["totals"]
    percent = float(totals["percent_covered_display"])
    return Share(totals["covered_lines"], totals["num_statements"], percent)
