"""The command `ciguard coverage`: read the parts of a run's shards, and combine them."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import tempfile
from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
from pydantic import TypeAdapter

from ciguard import console
from ciguard.coverage.combination import Coverage, Files, Share
from ciguard.coverage.formats import OWN_COMBINER, READERS
from ciguard.errors import ExitCode, InputError
from ciguard.git.checkout import Checkout
from ciguard.github.events import current_run
from ciguard.guard.record_selection import select
from ciguard.plan.collection import SECRETS
from ciguard.sources import local

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ciguard.config.invocation import Invocation
    from ciguard.coverage.formats import Add
    from ciguard.model import Plan

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
@click.option("--format", "format_", type=click.Choice(tuple(READERS)), required=True)
@click.option("-o", "--output", metavar="FILE", help="File for all numbers, as JSON.")
@click.pass_obj
def command(
    invocation: Invocation, /, *, plan: str, records: str, format_: str, output: str | None
) -> int:
    """Combine the coverage of a run's shards: in total, by file, and of the pull request's lines.

    The parts of a shard are the files in the folder `coverage` of its record. coverage.py combines
    its parts itself, with the project's configuration and plug-ins: use a job without a token.

    The command ends with 0, also if a part is missing: the coverage is then incomplete.
    """
    run_plan = local.read_plan(invocation.folder / plan)
    parts, coverage = _find_parts(invocation.folder / records, run_plan, format_)
    if parts and not coverage.incomplete:
        coverage = _combine(invocation, parts, coverage)
    if output is not None:
        content = TypeAdapter(Coverage).dump_json(coverage, indent=1)
        local.write(invocation.folder / output, content + b"\n")
    console.out(str(coverage))
    return ExitCode.OK


def _find_parts(root: Path, plan: Plan, format_: str) -> tuple[dict[Path, str], Coverage]:
    """Return the parts with the working folder of their suite, and the shards without a part."""
    records, parts, sizes = local.read_record_tree(root), dict[Path, str](), dict[str, int]()
    newest, problems = select(plan, records).newest, list[str]()
    missing, not_collected, faults = list[str](), list[str](), list[str]()
    for shard in plan.shards:
        record, found = newest.get(shard.key), Counter[str]()
        folder = (root / record.source).parent / "coverage" if record else root / "no record"
        for name, status in local.walk(folder, problems) if local.is_directory(folder) else ():
            if stat.S_ISREG(status.st_mode):
                suite = name.rpartition("-")[0]
                found[suite] += 1
                sizes[str(folder / name)] = status.st_size
                parts[folder / name] = plan.suites[suite].cwd if suite in plan.suites else "."
        events = [event for event in record.events if event.kind == "coverage"] if record else []
        none = {event.suite for event in events if event.reason == "none"}
        expected = dict.fromkeys({unit.suite for unit in shard.units} or {shard.suite}, 1.0)
        expected |= {event.suite: event.facts.get("parts", 1) for event in events}
        lost = [suite for suite in expected if suite not in none and found[suite] < expected[suite]]
        faults += [f"shard {shard.key} has no part{suite and ' of '}{suite}" for suite in lost]
        missing += [shard.key] if lost else []
        not_collected += [shard.key] if expected.keys() <= none else []
    problems += local.drop_oversized(sizes)
    if problems:
        raise InputError(problems[0], where=f"--records {root}", fix="write smaller parts")
    unit = "statement" if format_ == "go" else "line"
    states = (tuple(faults), tuple(missing), tuple(not_collected))
    return parts, Coverage(format_, unit, *states)


def _combine(invocation: Invocation, parts: Mapping[Path, str], coverage: Coverage) -> Coverage:
    """Combine all parts; a damaged part makes the coverage incomplete."""
    folder, total = invocation.folder, None
    files = Files(lambda path: os.path.isfile(folder / path))  # noqa: PTH113 - a path of any length
    for path, cwd in parts.items():
        try:
            with local.opened(path) as stream:
                READERS[coverage.format](stream, path.name, partial(files.add, cwd))
        except (InputError, ValueError) as error:
            name = local.printable(f"{path.parent.parent.name}/coverage/{path.name}")
            return replace(
                coverage, incomplete=(f"{name}: {getattr(error, 'what', str(error)):.300}",)
            )
    if coverage.format == OWN_COMBINER:
        cwds = set(parts.values())
        cwd = cwds.pop() if len(cwds) == 1 else "."
        total = _combine_by_tool(invocation, parts, cwd, partial(files.add, cwd))
    run, checkout = current_run(invocation.environ), Checkout(folder, invocation.environ)
    base = checkout.base_of_merge(run.tested_sha, run.head_sha) if run is not None else None
    if base is None:
        return files.measure(coverage, total, None)
    changed = [file for file in checkout.diff(checkout.commit(base)) if file.path in files.blocks]
    texts = checkout.blobs([blob for file in changed for blob in (file.old_blob, file.blob)])
    diff = {file.path: (texts[file.old_blob], texts[file.blob]) for file in changed}
    return files.measure(coverage, total, diff)


def _combine_by_tool(invocation: Invocation, parts: Iterable[Path], cwd: str, add: Add) -> Share:
    """Let the project's coverage.py combine its parts, add their lines, and return its total.

    Raises:
        InputError: coverage.py is not installed, or failed.
    """
    python = shutil.which("python", path=invocation.environ.get("PATH")) or "python3"
    environ = {name: value for name, value in invocation.environ.items() if name not in SECRETS}
    with tempfile.TemporaryDirectory(prefix="ciguard-coverage-") as private:
        output = Path(private, "coverage.json")
        argv = [python, "-c", _PROGRAM, f"{private}/data", str(output)]
        argv += [str(part.resolve()) for part in parts]
        folder = invocation.folder / cwd
        done = subprocess.run(argv, cwd=folder, env=environ, capture_output=True, check=False)
        if done.returncode:
            what = done.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
            raise InputError(f"{what:.500}", where=OWN_COMBINER, fix=_FIX)
        report = json.loads(output.read_bytes())
    for path, file in report["files"].items():
        for line in file["missing_lines"]:
            add(path, (line, line, 1, ""), False)
        for line in {*file["executed_lines"]} - {*file["excluded_lines"]}:
            add(path, (line, line, 1, ""), True)
    totals = report["totals"]
    percent = float(totals["percent_covered_display"])
    return Share(totals["covered_lines"], totals["num_statements"], percent)
