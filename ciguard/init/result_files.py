"""Removal of result files from a test job whose comment job goes. Pure.

ciguard has its own results. Upload and options go in the form of `ciguard audit`; others are named.
"""

from __future__ import annotations

import copy
import re
from typing import TYPE_CHECKING, Any, Final

from ciguard.audit.result_options import RESULT_OPTIONS
from ciguard.errors import InputError
from ciguard.workflow.movable_job import load_ended, read_job
from ciguard.workflow.positions import Edit, entries, find_entry
from ciguard.workflow.result_upload import find_downloads, find_result_upload, written_files
from ciguard.workflow.test_commands import find_test_steps
from ciguard.workflow.yaml_values import load

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ciguard.workflow.movable_job import MovableJob
    from ciguard.workflow.test_commands import Tasks

_ARTIFACT: Final = "results-${{ github.job }}"
_CHANGES: Final = [line for text in RESULT_OPTIONS.values() for line in text.split("\n")]
_ENV: Final = "env: "
_OPTIONS: Final = sorted((text for text in _CHANGES if not text.startswith(_ENV)), key=len)
_OPTION: Final = re.compile(rf"(?: --)? ({'|'.join(map(re.escape, _OPTIONS[::-1]))})(?!\S)")
_VARIABLES: Final = {
    item for text in _CHANGES if text.startswith(_ENV) for item in load(text, "")["env"].items()
}


def without_result_files(job: MovableJob, tasks: Tasks) -> tuple[MovableJob, list[str]]:
    """Return the job without results that only a replaced comment job read, and messages."""
    jobs, test_steps = job.workflow["jobs"], find_test_steps(job.workflow, tasks)
    written = written_files(*(step for step in test_steps if step.job == job.name))
    upload = find_result_upload(job.value, written) if job.replaced else None
    steps = job.value["steps"]
    of_upload = {**job.value, "steps": [steps[upload.step - 1]] if upload else []}
    if not upload or any(find_downloads({"jobs": {**jobs, job.name: of_upload}}, job.name)):
        return job, []
    line = job.source.line_number("jobs", job.name, "steps", upload.step)
    others = [step for at, step in enumerate(steps, 1) if at not in (*job.steps, upload.step)]
    is_read = any(file in str(others) for file in ("results.", *written))
    if upload.artifact.startswith(_ARTIFACT) and not is_read:
        text, gone = job.source.edited(_edits(job, upload.step)), _removed(job)
        try:
            is_same = load_ended(text, job.where) == _expected(job, upload.step)
        except InputError:
            is_same = False
        if is_same:
            number = str(job.step - (upload.step < job.step))
            changed = read_job(text, job.path, job.name, number, tasks)
            what = ", ".join(["the upload step", *gone])
            left = "" if gone or not written else f"; remove what writes {', '.join(written)}"
            return changed, [f"line {line}: gone, as ciguard has its own results: {what}{left}"]
    option = f", and the option that writes {', '.join(written)}" if written else ""
    return job, [f"the upload step of line {line} has no reader now: remove it{option}"]


def _removed(job: MovableJob) -> list[str]:
    """Return the options and variables of the test steps that go."""
    options = [text for step in job.steps.values() for text in _OPTION.findall(step["run"])]
    names = [name for step in job.steps.values() for name, _ in _own_variables(step)]
    return list(dict.fromkeys((*options, *names)))


def _own_variables(step: dict[str, Any]) -> set[tuple[str, Any]]:
    env = step.get("env")
    return (
        _VARIABLES & {(name, str(value)) for name, value in env.items()}
        if isinstance(env, dict)
        else set()
    )


def _expected(job: MovableJob, upload: int) -> Any:
    """Return the value that the edited text must have."""
    workflow = copy.deepcopy(job.workflow)
    steps = workflow["jobs"][job.name]["steps"]
    for step in (steps[number - 1] for number in job.steps):
        step["run"] = _OPTION.sub("", step["run"])
        for name, _ in _own_variables(step):
            del step["env"][name]
        if "env" in step and not step["env"]:
            del step["env"]
    del steps[upload - 1]
    return workflow


def _edits(job: MovableJob, upload: int) -> Iterator[Edit]:
    """Yield the edits that remove the upload step, and options and variables of test steps."""
    source, steps = job.source, job.source.find("jobs", job.name, "steps")
    assert steps is not None
    *_, last = entries(steps.value.value[upload - 1])
    start = source.line_start(steps.value.value[upload - 1].start_mark.index)
    yield Edit(start, source.next_line(source.content_end(last)), "")
    for number, step in job.steps.items():
        node = steps.value.value[number - 1]
        run, env = find_entry(node, "run"), find_entry(node, "env")
        assert run is not None
        for match in _OPTION.finditer(source.text, source.colon_end(run), source.content_end(run)):
            yield Edit(*match.span(), "")
        names = {name for name, _ in _own_variables(step)}
        if env and names:
            is_all = len(names) == len(step["env"])
            for entry in [env] if is_all else entries(env.value):
                if is_all or entry.name in names:
                    line_end = source.line_start(entry.start) - len(source.line_break)
                    yield Edit(line_end, source.content_end(entry), "")
