"""Rewriting of a workflow so that ciguard's actions shard its test job: edits of its lines. Pure.

The matrix moves into a new job `ciguard`, the test step becomes the action `run`, and two jobs are
appended. The values of the edited text must equal the wanted values (`_expected`): a workflow that
the edits would change elsewhere, as by an anchor, is refused. `repin` updates the actions of a
workflow that was rewritten before.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Final

import yaml

from ciguard.errors import InputError
from ciguard.workflow.aggregation import find_aggregations, guarded_jobs
from ciguard.workflow.matrix import SHARD
from ciguard.workflow.movable_job import (
    BY_HAND,
    PLAN_JOB,
    REPORT_JOB,
    MovableJob,
    NotMovable,
    load_ended,
    matrix_range,
)
from ciguard.workflow.positions import (
    Edit,
    Entry,
    SourceText,
    entries,
    find_entry,
    indent_of,
    is_block,
    is_flow,
)
from ciguard.workflow.result_upload import find_downloads, uploads_artifact
from ciguard.workflow.yaml_values import get, jobs_of, load, needs_of, run_defaults_of, steps_of

MERGE: Final = "merge-multiple"  # an input: files of all artifacts get into one folder
DATA_FILE: Final = "COVERAGE_FILE"  # the variable by which coverage.py names its data file
_MATRIX: Final = "${{ fromJSON(needs.ciguard.outputs.matrix) }}"
_ARTIFACT_END: Final = f"-{SHARD}"
_NAME_END: Final = f" ({SHARD})"
_DATA_FILE_END: Final = f".{SHARD}"
_BLOCK_STYLES: Final = ("|", ">")
_INPUTS: Final = {
    "plan": "${{ needs.ciguard.outputs.plan }}",
    "plan-id": "${{ needs.ciguard.outputs.plan-id }}",
    "shard": SHARD,
}
# Keys of the step that become inputs of the action, by the input's name.
_STEP_KEYS: Final = {"shell": "shell", "working-directory": "working-directory", "run": "command"}
_DEFAULTS: Final = ("shell", "working-directory")


@dataclass(frozen=True, slots=True)
class NewJobs:
    """Texts of the added jobs, each a mapping with one key at column 0.

    `coverage` is empty if none is collected. `test` and `suite` are for a person: the changed test
    job, and a table of ciguard.toml.
    """

    plan: str
    coverage: str
    report: str
    history: str
    test: str
    suite: str


def action_path(actions: str, name: str) -> str:
    """Return `OWNER/ciguard/actions/NAME@SHA`; `$/actions/NAME` in that repository itself."""
    if actions == "$/":
        return f"$/actions/{name}"
    repository, _, commit = actions.partition("@")
    return f"{repository}/actions/{name}@{commit}"


def move_job(job: MovableJob, new: NewJobs, actions: str) -> str:
    """Return the workflow with the test job moved; its aggregation jobs need ciguard's jobs.

    Args:
        actions: address of the actions, as `OWNER/ciguard@SHA # version`.

    Raises:
        NotMovable: the edits would change something else.
    """
    source = job.source
    guarded = guarded_jobs(job.workflow, job.name, job.replaced)
    needs = f"needs: [{''.join(f'{name}, ' for name in guarded)}"
    new = replace(new, report=new.report.replace("needs: [", needs, 1))
    found = find_aggregations(job.workflow, job.name)
    aggregations = [name for name in found if name not in job.replaced]
    jobs, entry = source.find("jobs"), source.find("jobs", job.name)
    assert jobs is not None
    assert entry is not None
    try:
        edits = [
            *_new_job_edits(source, jobs, entry, new),
            *_needs_edits(source, entry, [PLAN_JOB], job.where),
            *_permission_edits(job, entry),
            *_matrix_edits(source, entry, job.where),
            *name_edits(source, entry.value, "name", _NAME_END),
            *chain(*(_step_edits(job, entry, at, action_path(actions, "run")) for at in job.steps)),
            *_artifact_edits(job),
        ]
        for other in entries(jobs.value):
            if other.name in aggregations:
                added = _missing_needs(job.workflow["jobs"][other.name])
                edits += _needs_edits(source, other, added, job.where)
            elif other.name in job.replaced:
                start = source.comments_before(other.start, other.column)
                start = len(source.text[:start].rstrip())  # with the blank line before it
                edits.append(Edit(start, source.content_end(other), ""))
        expected = _expected(job, new, actions, aggregations)
        is_same = load_ended(source.edited(edits), job.where) == expected
        text = source.edited([*edits, *_data_file_edits(job, entry)])
        others = load_ended(text, job.where)
        others["jobs"][job.name] = expected["jobs"][job.name]
        is_same = is_same and others == expected
    except InputError as error:  # the edited text is no YAML, or two edits overlap
        if isinstance(error, NotMovable):
            raise
        text, is_same = "", False
    if not is_same:
        what = "edits of its lines would change more than the job, as where an anchor is used twice"
        raise NotMovable(what, where=job.where, fix=BY_HAND)
    return text


def drill_edits(job: MovableJob, kinds: Sequence[str]) -> list[Edit]:
    """Give runs that are started by hand the input `drill`, if they have no inputs."""
    dispatch = job.source.find("on", "workflow_dispatch")
    if not dispatch or not isinstance(dispatch.value, yaml.ScalarNode) or dispatch.value.value:
        return []
    at, options = job.source.colon_end(dispatch), ", ".join(kinds)
    drill = f"{{description: Fault to cause, type: choice, options: [none, {options}]}}"
    return [Edit(at, at, f" {{inputs: {{drill: {drill}}}}}")]


def has_drill(workflow: Any) -> bool:
    """Return whether runs that are started by hand have the input `drill`."""
    inputs = get(get(get(workflow, "on"), "workflow_dispatch"), "inputs")
    return isinstance(inputs, dict) and "drill" in inputs


def data_files(job: MovableJob) -> list[str]:
    """Return the names in COVERAGE_FILE that get the shard, as a later job merges the files."""
    if not any(inputs.get(MERGE) for *_, inputs in find_downloads(job.workflow, job.name)):
        return []
    values = [get(get(owner, "env"), DATA_FILE) for owner in (job.value, *job.value["steps"])]
    names = [str(value or "").removeprefix("./") for value in values]
    return [name for name in names if name and SHARD not in name]


def data_file_uses(job: MovableJob) -> list[int]:
    """Return the lines of a job, from 1, with the name of a data file that gets no shard."""
    names = "|".join(re.escape(name.rpartition("/")[2]) for name in data_files(job))
    source, entry = job.source, job.source.find("jobs", job.name)
    if not names or entry is None:
        return []
    use = re.compile(rf"^(?!\s*#)(?:.*[^\w.\n-])?(?:{names})(?![\w.*-])", re.M)
    edited = {edit.end for edit in _data_file_edits(job, entry)}
    found = use.finditer(source.text, source.colon_end(entry), source.content_end(entry))
    ends = [match.end() for match in found if match.end() not in edited]
    return [1 + source.text.count("\n", 0, end) for end in ends]


def _data_file_edits(job: MovableJob, entry: Entry) -> list[Edit]:
    """Append the shard to data files, in COVERAGE_FILE and in the paths of uploads."""
    names, nodes = "|".join(map(re.escape, data_files(job))), _step_nodes(job)
    line = re.compile(rf"^[ \t]*(?:\./)?(?:{names})(?=[ \t\r]*$)", re.M)
    steps = zip(job.value["steps"], nodes, strict=True)
    places = [(find_entry(node, "env"), DATA_FILE) for node in (entry.value, *nodes)]
    places += [(find_entry(node, "with"), "path") for step, node in steps if uploads_artifact(step)]
    edits: list[Edit] = []
    for mapping, key in [(at.value, key) for at, key in places if names and at]:
        value = find_entry(mapping, key)
        if value and getattr(value.value, "style", None) in _BLOCK_STYLES:
            found = line.finditer(job.source.text, value.start, job.source.content_end(value))
            edits += [Edit(match.end(), match.end(), _DATA_FILE_END) for match in found]
        elif value and line.fullmatch(str(value.value.value)):
            edits += name_edits(job.source, mapping, key, _DATA_FILE_END)
    return [*dict.fromkeys(edits)]  # steps may share a mapping by an anchor


def _missing_needs(job: dict[str, Any]) -> list[str]:
    needs = needs_of(job)
    return [name for name in (PLAN_JOB, REPORT_JOB) if name not in needs]


def _new_job_edits(source: SourceText, jobs: Entry, entry: Entry, new: NewJobs) -> list[Edit]:
    """Insert the planning job before the test job, and append the other jobs."""
    gap = source.line_break * 2
    start = source.comments_before(entry.start, entry.column)
    end = source.comments_after(source.content_end(jobs), 1)
    texts = filter(str.strip, (new.plan, new.coverage, new.report, new.history))
    plan, *last = (_indent(text, entry, source.line_break) for text in texts)
    appended = "".join(f"{gap}{text}" for text in last)
    return [Edit(start, start, plan + gap), Edit(end, end, appended)]


def _indent(text: str, entry: Entry, line_break: str) -> str:
    """Indent a rendered job, which has two spaces a level, as the file indents its jobs."""
    level = level_of(entry)

    def indent(line: str) -> int:
        width = indent_of(line)
        # Below `steps`, a dash and its space stay two characters; a matrix stays unchanged.
        above, in_step = min(width, 4), min(max(width - 4, 0), 6)
        keys = 2 + (in_step - 2) // 2 * level if in_step else 0
        return entry.column + above // 2 * level + keys + max(width - 10, 0)

    lines = text.strip("\n").split("\n")
    return line_break.join(" " * indent(line) + line.lstrip(" ") if line else "" for line in lines)


def _first_line(source: SourceText, mapping: yaml.Node, where: str) -> tuple[int, str]:
    """Return the position before the first key of a block mapping, and the key's indentation."""
    first = next(entries(mapping), None)
    if first is None:
        raise NotMovable("a job is no mapping", where=where, fix=BY_HAND)
    indent = source.text[source.line_start(first.start) : first.start]
    if indent.strip(" "):
        raise NotMovable("a key shares its line with another", where=where, fix=BY_HAND)
    return source.comments_before(first.start, first.column), indent


def insert_key(source: SourceText, mapping: yaml.Node, lines: Sequence[str], where: str) -> Edit:
    """Insert keys before the others of a mapping; a flow mapping takes only keys of one line."""
    if not is_flow(mapping):
        start, indent = _first_line(source, mapping, where)
        return Edit(start, start, "".join(f"{indent}{line}{source.line_break}" for line in lines))
    start, keys = mapping.start_mark.index + 1, []
    for key, _, value in (line.partition(": ") for line in lines):
        keys.append(f'{key}: "{value}"' if "{" in value else f"{key}: {value}")
    return Edit(start, start, f"{', '.join(keys)}{', ' if mapping.value else ''}")


def _needs_edits(source: SourceText, job: Entry, names: Sequence[str], where: str) -> list[Edit]:
    if not names:
        return []
    needs, text = find_entry(job.value, "needs"), ", ".join(names)
    if needs is None:
        value = text if len(names) == 1 else f"[{text}]"
        return [insert_key(source, job.value, [f"needs: {value}"], where)]
    start, end = needs.value.start_mark.index, needs.value.end_mark.index
    if isinstance(needs.value, yaml.ScalarNode):
        return [Edit(start, end, f"[{text}, {source.text[start:end]}]")]
    if is_flow(needs.value):
        after = ", " if needs.value.value else ""
        return [Edit(start + 1, start + 1, f"{text}{after}")]
    line = source.line_start(start)
    lines = [f"{source.text[line:start]}- {name}{source.line_break}" for name in names]
    return [Edit(line, line, "".join(lines))]


def _matrix_edits(source: SourceText, job: Entry, where: str) -> list[Edit]:
    strategy = find_entry(job.value, "strategy")
    if strategy is None:
        deeper = " " * level_of(job)
        lines = ["strategy:", f"{deeper}fail-fast: false", f"{deeper}matrix: {_MATRIX}"]
        return [insert_key(source, job.value, lines, where)]
    entry = find_entry(strategy.value, "matrix")
    added = [] if find_entry(strategy.value, "fail-fast") else ["fail-fast: false"]
    if entry is None:
        return [insert_key(source, strategy.value, [*added, f"matrix: {_MATRIX}"], where)]
    edits = [insert_key(source, strategy.value, added, where)] if added else []
    start, end = matrix_range(source, entry, where)
    value = f'"{_MATRIX}"' if is_flow(strategy.value) else _MATRIX
    if is_flow(entry.value):
        return [*edits, Edit(start, end, value)]
    after_key = source.colon_end(entry)
    edits.append(Edit(after_key, after_key, f" {value}"))
    return [*edits, Edit(source.line_end(after_key), end, "")]


def level_of(job: Entry) -> int:
    """Return the number of spaces of a level of indentation in the job."""
    return next(entries(job.value)).column - job.column


def _permission_edits(job: MovableJob, entry: Entry) -> list[Edit]:
    """Add the permission by which the job's token downloads the artifact of the plan."""
    permissions = find_entry(entry.value, "permissions")
    added = _added_permissions(job)
    if permissions is not None:
        node = permissions.value
        return [insert_key(job.source, node, ["actions: read"], job.where)] if added else []
    deeper = " " * level_of(entry)
    lines = ["permissions:", *(f"{deeper}{key}: {value}" for key, value in added.items())]
    return [insert_key(job.source, entry.value, lines, job.where)] if added else []


def _added_permissions(job: MovableJob) -> dict[str, str]:
    """Return the permissions to add to the job; none if they suffice or are not known."""
    job_permissions, general = job.value.get("permissions"), job.workflow.get("permissions")
    held = general if job_permissions is None else job_permissions
    if not isinstance(held, dict) or "actions" in held:
        return {}
    return {"actions": "read"} | (held if job_permissions is None else {})


def name_edits(source: SourceText, mapping: yaml.Node, key: str, suffix: str) -> list[Edit]:
    """Append a suffix to a name that does not end with the shard, before its last line end.

    A plain name in a flow mapping gets quotes: the brace of an expression would end the mapping.
    """
    name = find_entry(mapping, key)
    if name is None:
        return []
    style, end = getattr(name.value, "style", None), name.value.end_mark.index
    if style is None and is_flow(mapping) and isinstance(name.value, yaml.ScalarNode):
        text = json.dumps(f"{name.value.value}{suffix}", ensure_ascii=False)
        return [Edit(name.value.start_mark.index, end, text)]
    end = source.content_end(name) if style in _BLOCK_STYLES else end - (style in ("'", '"'))
    return [] if source.text.endswith(SHARD, 0, end) else [Edit(end, end, suffix)]


def with_suffix(name: Any, suffix: str) -> str:
    """Return the value of a name after `name_edits`."""
    text = str(name).rstrip("\n")
    suffix = "" if text.endswith(SHARD) else suffix
    return f"{text}{suffix}{str(name)[len(text) :]}"


def _step_nodes(job: MovableJob) -> list[yaml.Node]:
    steps = job.source.find("jobs", job.name, "steps")
    return list(steps.value.value) if steps else []


def _artifact_edits(job: MovableJob) -> list[Edit]:
    """Let each shard upload an artifact with another name."""
    edits = []
    for step, node in zip(job.value["steps"], _step_nodes(job), strict=True):
        inputs = find_entry(node, "with")
        if uploads_artifact(step) and inputs is not None:
            name, line = find_entry(inputs.value, "name"), f"name: artifact{_ARTIFACT_END}"
            edits += name_edits(job.source, inputs.value, "name", _ARTIFACT_END)
            edits += [] if name else [insert_key(job.source, inputs.value, [line], job.where)]
    return edits


def _step_edits(job: MovableJob, entry: Entry, number: int, action: str) -> list[Edit]:
    """Turn the commands of a test step into inputs of the action; other keys stay unchanged."""
    source, step = job.source, _step_nodes(job)[number - 1]
    if not is_block(step, yaml.MappingNode):
        raise NotMovable("the step is in flow style", where=job.where, fix=BY_HAND)
    replaced = [item for item in entries(step) if item.name in _STEP_KEYS]
    deeper = " " * level_of(entry)
    indent = source.line_break + " " * replaced[0].column
    lines = [f"uses: {action}", f"{indent}with:"]
    inputs = {**_INPUTS, **_limit(job.steps[number])}
    lines += [f"{indent}{deeper}{name}: {value}" for name, value in inputs.items()]
    defaults = run_defaults_of(job.workflow, job.value)
    for key, name in _moved_keys(job).items():
        item = find_entry(step, key)
        if item is not None:
            text = source.text[source.colon_end(item) : source.content_end(item)]
            text = job.without_split(text) if key == "run" else text
            shifted = re.sub(r"\n(?=[^\r\n])", f"\n{deeper}", text)
            lines.append(f"{indent}{deeper}{name}:{shifted}")
        elif key in defaults:
            lines.append(f"{indent}{deeper}{name}: {defaults[key]}")
    lines += [f"{indent}env:", f"{indent}{deeper}GOFLAGS: {job.goflags}"] if job.goflags else []
    first, *other_entries = replaced
    edits = [Edit(first.start, source.content_end(first), "".join(lines))]
    for item in other_entries:
        line_end = source.line_start(item.start) - len(source.line_break)
        edits.append(Edit(line_end, source.content_end(item), ""))
    return edits


def _moved_keys(job: MovableJob) -> dict[str, str]:
    """Return the keys of the step that become inputs, by the input's name."""
    own = ("run", "shell") if job.runs_suite else ()
    return {key: name for key, name in _STEP_KEYS.items() if key not in own}


def _limit(step: Mapping[str, Any]) -> dict[str, str]:
    """Return the input for a step's time limit, which a composite action cannot read; or {}."""
    minutes = step.get("timeout-minutes")
    return {"limit": f"{minutes}m"} if isinstance(minutes, int) else {}


def _expected(job: MovableJob, new: NewJobs, actions: str, aggregations: Sequence[str]) -> Any:
    """Return the value that the edited text must have."""
    workflow = copy.deepcopy(job.workflow)
    jobs = workflow["jobs"]
    for name in job.replaced:
        del jobs[name]
    moved = jobs[job.name]
    for name, added in ((job.name, [PLAN_JOB]), *((name, None) for name in aggregations)):
        needs = jobs[name].get("needs", [])
        names = _missing_needs(jobs[name]) if added is None else added
        listed = needs if isinstance(needs, list) else [needs]
        is_only = "needs" not in jobs[name] and len(names) == 1
        jobs[name]["needs"] = names[0] if is_only else [*names, *listed]
    moved["strategy"] = {"fail-fast": False, **moved.get("strategy", {}), "matrix": _MATRIX}
    if "name" in moved:
        moved["name"] = with_suffix(moved["name"], _NAME_END)
    if added_permissions := _added_permissions(job):
        moved["permissions"] = {**(moved.get("permissions") or {}), **added_permissions}
    for item in moved["steps"]:
        if uploads_artifact(item) and isinstance(item.get("with"), dict):
            item["with"]["name"] = with_suffix(item["with"].get("name", "artifact"), _ARTIFACT_END)
    defaults, keys = run_defaults_of(workflow, moved), _moved_keys(job)
    for step in (moved["steps"][number - 1] for number in job.steps):
        inputs = {**_INPUTS, **_limit(step)}
        inputs |= {key: defaults[key] for key in _DEFAULTS if key in defaults and key in keys}
        step["run"] = job.without_split(step["run"])
        inputs |= {keys[key]: value for key, value in step.items() if key in keys}
        for key in _STEP_KEYS:
            step.pop(key, None)
        own = {"env": {"GOFLAGS": job.goflags}} if job.goflags else {}
        step |= {"uses": action_path(actions, "run").partition(" #")[0], "with": inputs, **own}
    for text in filter(str.strip, (new.plan, new.coverage, new.report, new.history)):
        jobs |= load(text, job.where)
    (plan,) = (item for item in jobs[PLAN_JOB]["steps"] if item.get("id") == "plan")
    matrix = load(job.matrix, job.where)
    if load(plan["with"].get("matrix", ""), job.where) != matrix:
        raise NotMovable("its matrix would be another one", where=job.where, fix=BY_HAND)
    return workflow


def is_moved(workflow: Any) -> bool:
    """Return whether the workflow has a job `ciguard` that uses an action called plan."""
    return plan_step(workflow) is not None


def plan_step(workflow: Any) -> dict[str, Any] | None:
    """Return the step that plans in a workflow that was moved; None in another workflow."""
    for _, step in steps_of(jobs_of(workflow).get(PLAN_JOB)):
        uses = str(step.get("uses", ""))
        if "/plan@" in uses or uses == "$/actions/plan":
            return step
    return None


def suite_of(workflow: Any) -> str:
    return str(get(get(plan_step(workflow), "with"), "suite") or "")


def repin(text: str, where: str, actions: str) -> str:
    """Pin ciguard's actions in a workflow at another address; other lines stay.

    The comment of a line stays if the address has no comment and the commit is the same.
    """
    plan = plan_step(load(text, where))
    if plan is None:
        return text
    repository = str(plan["uses"]).partition("/plan")[0]
    pattern = (
        rf"^(?P<key>[ \t]*(?:-[ \t]+)?uses:[ \t]+)(?P<uses>{re.escape(repository)}"
        r"/(?P<name>plan|run|report|history)@[^\s#'\"]+)(?:[ \t]+#[^\r\n]*)?(?=\r?$)"
    )

    def replace(match: re.Match[str]) -> str:
        uses = action_path(actions, match["name"])
        return match[0] if match["uses"] == uses else match["key"] + uses

    return re.sub(pattern, replace, text, flags=re.MULTILINE)
