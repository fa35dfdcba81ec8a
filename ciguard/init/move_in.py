"""`ciguard init --into FILE`: moves a test job of an existing workflow to ciguard's actions.

The suite of the moved tests has the framework that the job runs.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import Any, Final

from ciguard.audit.next_step import RESULT_OPTIONS
from ciguard.config.file import FILE, Config, configured_by
from ciguard.config.suites import coverage_format
from ciguard.errors import InputError, UsageError
from ciguard.init.coverage_gates import MovedGate, find_gate
from ciguard.init.filter_axis import matrix_without_filters, without_filter_axis
from ciguard.init.generated_files import (
    WORKFLOW_FILE,
    GeneratedFile,
    generate,
    text_of,
    with_suites,
)
from ciguard.init.other_tools import BUN_LOCKS, first_of, other_projects
from ciguard.init.project import files_of, is_dependency_file, suggest_languages
from ciguard.init.remarks import OWN_FILE, about_files, about_shards, remarks
from ciguard.init.repository import default_branch, guess_of, repository_files, require_committed
from ciguard.init.started_suites import STARTED_SUITES, about_recipe, dotnet_command
from ciguard.init.workflow_files import StarterSuite, render_new_jobs, with_tables
from ciguard.model import DRILL_KINDS
from ciguard.run.frameworks.command import COMMAND
from ciguard.run.frameworks.dotnet import DOTNET
from ciguard.run.frameworks.go import GO
from ciguard.run.frameworks.registry import DEFAULT, FRAMEWORKS
from ciguard.sources import local
from ciguard.workflow.actions_address import actions_address, known_address
from ciguard.workflow.argument_list import split_argument_list
from ciguard.workflow.check_names import report_check
from ciguard.workflow.movable_job import (
    BY_HAND,
    MovableJob,
    NotMovable,
    collected,
    read_job,
    reject_obstacles,
    reject_several_environments,
    reject_shell,
    shorten,
)
from ciguard.workflow.positions import Edit
from ciguard.workflow.result_upload import (
    find_downloads,
    find_result_upload,
    find_result_uploads,
    written_files,
)
from ciguard.workflow.rewrite import drill_edits, has_drill, is_moved, move_job, repin, suite_of
from ciguard.workflow.test_commands import UNKNOWN, Tasks, find_test_steps, only_file, read_tasks
from ciguard.workflow.yaml_values import jobs_of, load, needs_of

SECOND: Final = "another step of this workflow has ciguard's shards, and only one step can"
ADD_SUITE: Final = "in ciguard.toml, write into [suite.{}]: framework = {}"
COMMAND_FIX: Final = (
    'set framework = "command", list and command in [suite.NAME] of ciguard.toml: see '
    "docs/how-to/other-frameworks.md"
)
NODE_SCRIPTS: Final = ("npm", "yarn", "pnpm", "bun run")
# Called program -> adapters whose plugin reaches the framework by an environment variable.
ENTERED: Final[Mapping[str, tuple[str, ...]]] = {
    **dict.fromkeys(NODE_SCRIPTS, ("vitest", "jest", "mocha", "node-test", "playwright")),
    "node --test": ("node-test",),
    "go test": (GO.name,),
    "dotnet test": (DOTNET.name,),
    **{name: (name,) for name in ("jest", "vitest", "mocha", "playwright", "rspec", "maven")},
    "rake": ("rspec", "minitest"),
    "rails": ("minitest",),
}
# Called program -> adapter that starts the framework itself, so that no script can start it.
STARTED: Final[Mapping[str, str]] = {
    "ctest": "ctest",
    "cargo nextest": "nextest",
    "phpunit": "phpunit",
}

# What `ciguard audit` proposes so that a job uploads its results.
_CHANGES: Final = {line for text in RESULT_OPTIONS.values() for line in text.split("\n")}
_OPTIONS: Final = "|".join(map(re.escape, sorted(_CHANGES, key=len, reverse=True)))
_UPLOAD: Final = (
    r" *- if: always\(\)\n *uses: actions/upload-artifact@.*\n"
    r' *with: \{ ?name: "results-\$\{\{ github\.job \}\}.*\}\n'
)
_VARIABLES: Final = (
    r"(?:[A-Z]+_ADDOPTS: --junitxml=results\S*?\.xml|TOX_OVERRIDE: .*_ADDOPTS)(?: +#.*)?\s*?\n"
)
_OURS: Final = re.compile(
    rf"^(?:{_UPLOAD}|(?P<at> *)env:\s*?\n(?:(?P=at) +{_VARIABLES})+(?!(?P=at) )| *{_VARIABLES}"
    rf"| *(?:{_OPTIONS})\n)|(?: --)? (?:{_OPTIONS})(?!\S)",
    re.M,
)
_READERS: Final = ("result", "report", "junit", "summary", "analytics", "*.xml", "*.json", "*.trx")


@dataclass(frozen=True, slots=True)
class Move:
    """The files that a move changes, for a user to see before they are written.

    Attributes:
        step: the step that runs the tests.
        messages: changes that the user has to make, and consequences.
    """

    files: tuple[GeneratedFile, ...]
    step: str = ""
    messages: tuple[str, ...] = ()


def moved_files(folder: Path, config: Config, path: str, job_name: str, step: str) -> Move:
    """Move the test job of a workflow, and configure its suite if none is configured.

    In a workflow that was moved before, only the addresses of the actions change.

    Args:
        path: of the workflow file, relative to the folder.
        job_name, step: as in `choose_step`.

    Raises:
        InputError: the file is no workflow that can be edited, or is not committed.
        NotMovable: the job cannot be moved.
        UsageError: no suite of the configuration fits the job.
    """
    tracked, read = repository_files(folder), cache(lambda name: text_of(folder / name) or "")
    text, tasks = read_workflow(folder, path), read_tasks(read)
    workflow = load(text, path)
    if is_moved(workflow):
        for at in find_test_steps(workflow, tasks) if job_name or step else ():
            if job_name in ("", at.job):
                where = f"{path}: jobs.{at.job}.steps[{at.number}]"
                needs = ", ".join(needs_of(workflow["jobs"].get(at.job)))
                without = f", without `needs` of {needs}" if needs else ""
                raise NotMovable(SECOND, where=where, fix=f"move it {OWN_FILE}{without}")
        is_known = known_address(config.actions)
        pinned = repin(text, path, actions_address(config.actions)) if is_known else text
        return Move((GeneratedFile(path, text, pinned),) if pinned != text else ())
    actions = actions_address(config.actions)
    require_committed(folder, path)
    before = read_job(text, path, job_name, step, tasks)
    others = [value for other, value in read_workflows(folder) if other != path]
    suite = suite_name(config, before.name, path, others)
    job, started, gate, messages = _prepared(before, config, suite, tracked, read)
    name = started.framework or (config.suite[suite].framework if suite in config.suite else "")
    framework = FRAMEWORKS[name or DEFAULT]
    file = only_file(job.commands, tracked) if framework.unit == "file" and not job.take else ""
    kept = {name: at for name, at in jobs_of(job.workflow).items() if name not in job.replaced}
    check = report_check(job.name, [{"jobs": kept}, *others])
    new_jobs = render_new_jobs(
        *(actions, job.name, suite, job.matrix),
        check=check,
        is_conditional="if" in job.value,
        has_drill=has_drill(job.workflow),
        take=job.take,
        shards=1 if file else job.shards,
        coverage=gate.format if gate else coverage_format(config, suite),
    )
    files = [GeneratedFile(path, text, move_job(job, new_jobs, actions))]
    if "retries" not in config.policy.model_fields_set:
        started = replace(started, retries=job.retries)
    if "suite" not in config.model_fields_set:
        generated = generate(folder, config, suite=started)
        files += [item for item in generated if item.path != WORKFLOW_FILE]
    elif suite not in config.suite:
        files.append(with_suites(folder, (started,)))
    if gate:
        files = _with_gate(folder, files, gate, "" if config.coverage.format else suite)
        moved = "gone, as that in" if config.coverage.format else "now in"
        minimum = f"{config.coverage.minimum or float(gate.minimum):g}"
        what = f"minimum = {minimum}, of all shards and combinations of the suite {suite}"
        what += "; other jobs that report coverage lose it, too" if gate.cuts else ""
        note = "reporters must include lcov" if gate.format == "lcov" else "a shard reports a part"
        places = ", ".join(gate.places)
        messages.append(f"{places}: the coverage gate is {moved} [coverage]: {what}; {note}")
    before = replace(before, matrix=job.matrix, shards=job.shards)
    messages += about_shards(before, framework, file, tracked, read)
    messages += remarks(
        *(before, config, tasks),
        branch=default_branch(folder),
        guess=guess_of(folder),
        check=check,
        is_configured=suite in config.suite,
    )
    line_of = partial(before.source.line_number, "jobs", job.name, "steps")
    words = f": {shorten(before.commands[0].words)}" if before.commands else ""
    other = f" and {line_of(before.alternative)}, by `if`" if before.alternative else ""
    found = f"{path}:{line_of(before.step)}{other}: job {job.name} runs the tests{words}"
    return Move(tuple(files), found, tuple(messages))


def _prepared(
    job: MovableJob, config: Config, suite: str, tracked: Sequence[str], read: Callable[[str], str]
) -> tuple[MovableJob, StarterSuite, MovedGate | None, list[str]]:
    """Return the job with the edits that come before its move, its suite, gate, and messages.

    Raises:
        NotMovable: with all reasons.
    """
    path, tasks = job.where.partition(":")[0], read_tasks(read)
    obstacles, gate = list[NotMovable](), None
    with collected(obstacles):
        gate = find_gate(job, tracked, read)
        _reject_lower_minimum(config, suite, gate)
    texts = {name: read(name) for name in tracked if is_dependency_file(name)}
    framework = ""
    with collected(obstacles):
        framework = job_framework(job, config, suite, tracked, texts)
    with collected(obstacles):
        reject_several_environments(job)
    edits = [*drill_edits(job, DRILL_KINDS), *(gate.edits if gate else ())]
    prepared = job.source.edited(edits)
    job = read_job(prepared, path, job.name, str(job.step), tasks)
    configured = config.suite[suite].framework if suite in config.suite else DEFAULT
    messages: list[str] = []
    if configured != COMMAND.name:
        test_files = files_of(FRAMEWORKS[framework or configured], tracked)
        with collected(obstacles):
            job, messages = without_filter_axis(job, path, test_files)
    with collected(obstacles):
        divided = split_argument_list(job, path)
        if divided is not job:
            messages.append("the PowerShell step is divided: bash runs the tests")
            job = replace(divided, matrix=job.matrix, shards=job.shards)
        reject_shell(job)
    job, about_results = without_result_files(job, tasks)
    if obstacles:
        obstacles += [NotMovable(message, where=job.where) for message in messages]
    started = StarterSuite(suite, framework)
    if (make_suite := STARTED_SUITES.get(framework or configured)) and job.commands:
        with collected(obstacles):
            started, job, about_suite = make_suite(job, suite)
            messages += [*about_suite, *about_recipe(job, read("Makefile"))]
    reject_obstacles(job, obstacles)
    return job, started, gate, [*messages, *about_results]


def _reject_lower_minimum(config: Config, suite: str, gate: MovedGate | None) -> None:
    """Refuse a gate that [coverage] would not replace."""
    own, change = config.coverage, ""
    if gate and own.format and (own.minimum or 0) < float(gate.minimum):
        change = f"set minimum = {gate.minimum}"
    elif gate and own.format and not coverage_format(config, suite):
        change = f"add {suite} to suites"
    if gate and change:
        what = f"[coverage] does not replace the gate of the job, {gate.minimum} %"
        fix = f"{change} in [coverage], and run init again"
        raise NotMovable(what, where=", ".join(gate.places), fix=fix)


def _with_gate(
    folder: Path, files: Sequence[GeneratedFile], gate: MovedGate, suite: str
) -> list[GeneratedFile]:
    """Move a gate out of files into [coverage] of a suite; "" for a section that exists."""
    edits = [(name, partial(cut.sub, "")) for name, cut in gate.cuts]
    for name, _ in gate.cuts:
        require_committed(folder, name)
    if suite:
        config = configured_by(folder) or FILE
        table = "coverage" if config == FILE else "tool.ciguard.coverage"
        lines = [f'format = "{gate.format}"', f"suites = {json.dumps([suite])}"]
        tables = {table: [*lines, f"minimum = {gate.minimum}"]}
        edits.append((config, partial(with_tables, tables=tables, where=config)))
    changed = {item.path: item for item in files}
    for path, edit in edits:
        text = text_of(folder / path) or ""
        item = changed.get(path) or GeneratedFile(path, text, text)
        changed[path] = replace(item, content=edit(item.content))
    return [*changed.values()]


def without_result_files(job: MovableJob, tasks: Tasks) -> tuple[MovableJob, list[str]]:
    """Return the job without results that only a replaced comment job read, and messages."""
    jobs, steps = job.workflow["jobs"], job.value["steps"]
    written = _written(job, tasks)
    upload = find_result_upload(job.value, written) if job.replaced else None
    of_upload = {**job.value, "steps": [steps[upload.step - 1]] if upload else []}
    if not upload or any(find_downloads({"jobs": {**jobs, job.name: of_upload}}, job.name)):
        return job, []
    line_of = partial(job.source.line_number, "jobs", job.name, "steps")
    uploads = [other for other in find_result_uploads(job.value, written) if other.is_certain]
    messages = [
        f"no job reads the upload of line {line_of(other.step)} now"
        for other in uploads
        if other.step != upload.step
    ]
    others = [step for at, step in enumerate(steps, 1) if at not in (*job.steps, upload.step)]
    is_read = any(name in str(others) for name in (*_READERS, *written))
    numbers = (upload.step, *(() if is_read else job.steps))
    cuts = [cut for number in numbers for cut in _cuts(job, number)]
    step = str(job.step - (upload.step < job.step))
    changed = read_job(job.source.edited(cuts), job.path, job.name, step, tasks)
    where = f"the upload step of line {line_of(upload.step)}"
    if len(changed.value["steps"]) == len(steps):
        files = "" if is_read else ", ".join(written)
        option = f", and the option that writes {files}" if files else ""
        return job, [f"no job reads {where} now: remove it{option}", *messages]
    what = ", with the option that writes its files" if len(cuts) > 1 else ""
    if (left := ", ".join(_written(changed, tasks))) and not is_read:
        also = [name for name, other in jobs.items() if find_result_upload(other, written)]
        also = [name for name in also if name != job.name]
        what = f"; {also[0]} still needs {left}" if also else f": remove the option for {left}"
    changed = replace(changed, matrix=job.matrix, shards=job.shards)
    return changed, [f"{where} is gone{what}", *messages]


def _cuts(job: MovableJob, number: int) -> list[Edit]:
    """Return edits that remove from a step what `ciguard audit` proposes for results."""
    list_entry = job.source.find("jobs", job.name, "steps")
    assert list_entry is not None
    node = list_entry.value.value[number - 1]
    start, end = job.source.line_start(node.start_mark.index), node.end_mark.index
    return [Edit(*cut.span(), "") for cut in _OURS.finditer(job.source.text, start, end)]


def _written(job: MovableJob, tasks: Tasks) -> list[str]:
    found = find_test_steps(job.workflow, tasks)
    return written_files(*(at for at in found if at.job == job.name and at.number in job.steps))


def read_workflow(folder: Path, path: str) -> str:
    """Read the text of a workflow file.

    Raises:
        InputError: the file is a link, or not UTF-8.
    """
    target = folder / path
    if target.is_symlink():
        raise InputError("is a symbolic link", where=path, fix="name the file that it points to")
    try:
        return local.read(target).decode("utf-8")
    except UnicodeDecodeError as error:
        what = f"not UTF-8: {error.reason}"
        raise InputError(what, where=path, fix="save it as UTF-8") from error


def read_workflows(folder: Path) -> Iterator[tuple[str, Any]]:
    """Yield path and value of each workflow that can be read."""
    for path in repository_files(folder):
        if fnmatchcase(path, ".github/workflows/*.y*ml"):
            with contextlib.suppress(InputError):
                yield path, _parsed(read_workflow(folder, path), path)


_parsed: Final = lru_cache(maxsize=256)(load)  # each candidate of `init` reads all workflows


def suite_name(config: Config, job: str, path: str, others: Iterable[Any]) -> str:
    """Return the suite of the job's tests, which may have to be added to the configuration.

    Args:
        path, others: of the workflow, and the other workflows.

    Raises:
        UsageError: several suites are configured, and none has this name.
    """
    used = {suite_of(value) for value in others if is_moved(value)}
    name = f"{job}-{path.rpartition('/')[2].rpartition('.')[0]}" if job in used else job
    if "suite" not in config.model_fields_set or {*config.suite} <= used or name in config.suite:
        return name
    if len(config.suite) > 1:
        what = f"no suite {name!r} among {', '.join(map(repr, sorted(config.suite)))}"
        raise UsageError(what, where="suite", fix=f"add [suite.{json.dumps(name)}] for its tests")
    return next(iter(config.suite))


def snippet(folder: Path, config: Config, path: str, job: str, step: str) -> str:
    """Return the lines to write by hand around a test job: `job`, or the only one with tests."""
    text, tasks = read_workflow(folder, path), read_tasks(lambda name: text_of(folder / name) or "")
    workflow = load(text, path)
    steps = [at for at in find_test_steps(workflow, tasks) if job in ("", at.job)]
    name = job or (steps[0].job if len({at.job for at in steps}) == 1 else "test")
    matrix = f"# the lines below `matrix:` of {name}"
    notes: Sequence[str] = ()
    by_suite = {**STARTED, "dotnet test": DOTNET.name}
    started = {by_suite.get(command.framework) for at in steps for command in at.commands}
    framework = str(started.pop() or "") if len(started) == 1 else ""
    command: Sequence[str] = ()
    with contextlib.suppress(InputError):
        found = read_job(text, path, name, step, tasks)
        matrix, notes = matrix_without_filters(found), [*about_files(found)]
        command, left_out = dotnet_command(found) if framework == DOTNET.name else ((), ())
        if left_out:
            notes = [f"left out of `command`, as computed: {' '.join(left_out)}", *notes]
    others = [value for other, value in read_workflows(folder) if other != path]
    suite = suite_name(config, name, path, others) if len(config.suite) < 2 else name  # noqa: PLR2004
    new = render_new_jobs(
        *(actions_address(config.actions), name, suite, matrix),
        is_conditional=False,
        has_drill=has_drill(workflow),
        framework=framework,
        command=command,
        coverage=coverage_format(config, suite),
    )
    table = () if "suite" in config.model_fields_set or not framework else (new.suite,)
    comments = "".join(f"# {note}\n" for note in notes)
    parts = (*table, new.plan, new.test, new.coverage, new.report, new.history)
    return comments + "\n\n".join(filter(str.strip, parts))


def job_framework(
    job: MovableJob, config: Config, name: str, tracked: Sequence[str], texts: Mapping[str, str]
) -> str:
    """Return the framework for the suite, if none is configured; "" for the default.

    Args:
        name: of the suite.
        tracked: files of the repository.
        texts: of project files, by path.

    Raises:
        NotMovable: ciguard cannot plan the tests, or the user must configure the framework.
    """
    suite = config.suite.get(name) if "suite" in config.model_fields_set else None
    own = job.name if len(config.suite) == 1 and suite else name  # the only suite has any name
    configured = suite.framework if suite else DEFAULT
    for command in job.commands if configured != COMMAND.name else ():
        started = STARTED.get(command.framework, configured)
        is_own = configured in STARTED_SUITES and configured in ENTERED.get(command.framework, ())
        if started in (*STARTED.values(), *STARTED_SUITES) and not is_own:
            what = f"ciguard starts {started} itself: {shorten(command.words)}"
            raise NotMovable(what, where=job.where, fix=BY_HAND)
    if configured in STARTED_SUITES and not job.commands:
        what = f"the step runs no {configured} test"
        raise NotMovable(what, where=job.where, fix="name another --step")
    if configured != DEFAULT:
        return ""
    for command in job.commands:
        if command.framework in (UNKNOWN, DEFAULT):
            continue
        called = ENTERED.get(command.framework, ())
        adapters = {name: FRAMEWORKS[name] for name in called if name in FRAMEWORKS}
        runtime = command.arguments[0] if command.framework in called else ""
        if not adapters or runtime in ("deno", "bun"):
            name = f"{command.framework} in {runtime}" if adapters else command.framework
            what = f"ciguard has no adapter for {name}: {shorten(command.words)}"
            raise NotMovable(what, where=job.where, fix=COMMAND_FIX)
        files = [name for name in tracked if name.rpartition("/")[2] not in BUN_LOCKS]
        suites = suggest_languages(files, texts, adapters, lambda _: None)[0].suites
        names = list(dict.fromkeys(suite.framework for suite in suites))
        if not names and command.framework in NODE_SCRIPTS:
            others = [f"{at}: {of}" for at, of in other_projects(tracked, texts).items()]
            projects = first_of(others)
            what = f"ciguard has no adapter for what {shorten(command.words)} starts ({projects})"
            raise NotMovable(what, where=job.where, fix=COMMAND_FIX)
        names = names or list(adapters)
        if len(names) == 1 and not suite:
            return names[0]
        what = f"the framework of its tests is not configured: {shorten(command.words)}"
        fix = ADD_SUITE.format(json.dumps(own), " or ".join(map(json.dumps, names)))
        raise NotMovable(what, where=job.where, fix=fix)
    if not suite and not files_of(FRAMEWORKS[DEFAULT], tracked):
        suites = suggest_languages(tracked, texts, FRAMEWORKS, lambda _: None)[0].suites
        names = list(dict.fromkeys(suite.framework for suite in suites))
        what = f"no test file of {DEFAULT} was found"
        fix = ADD_SUITE.format(json.dumps(own), " or ".join(map(json.dumps, names)))
        raise NotMovable(what, where=job.where, fix=fix if names else COMMAND_FIX)
    return ""
