"""Test jobs that lose their results: uploaded after a success only, under another name, or never.

A step without a status check function in its `if` runs as if it had `success()`: where the tests
fail or the process dies, no later step of this kind uploads what they wrote until then. Source:
GitHub's documentation of status check functions. Pure.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final

from ciguard.audit.rules.base import COMMENTING, RuleFinding, WorkflowFile, job_title, locate
from ciguard.workflow.result_upload import (
    RESULT_SUFFIXES,
    downloads,
    glob_of,
    uploads_artifact,
    written_files,
)
from ciguard.workflow.test_commands import COVERAGE, RESULTS, action_of
from ciguard.workflow.yaml_values import get, steps_of, triggers_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ciguard.audit.rules.base import Evidence
    from ciguard.workflow.test_commands import FoundStep

COUNTED: Final = ("job", "can lose results")
CAVEATS: Final = {"other_files": "another file of the project may write results of that name"}
_REPORTERS: Final = (
    "dorny/test-reporter EnricoMi/publish-unit-test-result-action mikepenz/action-junit-report "
    "test-summary/action codecov/test-results-action phoenix-actions/test-reporting "
    "scacap/action-surefire-report pmeier/pytest-results-action trunk-io/analytics-uploader "
    "datadog/junit-upload-github-action"
)
REPORTERS: Final = frozenset(_REPORTERS.split())
_PATHS: Final = ("path", "paths", "files", "report_paths", "junit_files", "junit-paths")
_AFTER_FAILURE: Final = re.compile(r"\b(always|cancelled)\(\)|(?<!!)\bfailure\(\)", re.I)


def check_workflow(
    workflow: WorkflowFile, required_checks: frozenset[str] | None
) -> Iterator[RuleFinding]:
    """Find test jobs whose results are lost, at least when their tests fail."""
    del required_checks  # the results of any job are worth reading
    jobs = workflow.jobs()
    for job_id, tests in workflow.test_jobs().items():
        loss = _find_loss(jobs[job_id], tests)
        if loss is not None:
            facts, numbers = loss
            path: tuple[str | int, ...] = ("jobs", job_id)
            targets = [((*path, "steps", number), "") for number in numbers] or [(path, "")]
            caveat = "other_files" if "written" in facts else ""
            yield RuleFinding(
                job_title(job_id, jobs[job_id]), locate(workflow, *targets), facts, caveat
            )


def unread_uploads(files: Sequence[WorkflowFile]) -> Iterator[tuple[str, Evidence]]:
    """Yield (job, line of the step) of uploads of test results that no job reads."""
    actions = {action_of(step) for file in files for step in file.steps()}
    if actions & REPORTERS or any(map(COMMENTING.fullmatch, actions)):
        return
    if any("workflow_run" in triggers_of(file.content) for file in files):
        return  # it can read artifacts of another run
    for file in files:
        for name, upload in file.result_uploads():
            if not any(downloads(step, upload.artifact) for step in file.steps()):
                yield name, locate(file, (("jobs", name, "steps", upload.step), ""))[0]


def sentence(facts: Mapping[str, Any]) -> str:
    """Name the reason why results are lost."""
    if "written" in facts:
        return (
            f"uploads {', '.join(facts['uploaded'])}; its tests write {', '.join(facts['written'])}"
        )
    if not facts["kinds"]:
        return "no step uploads test results"
    return "results uploaded only if the tests passed"


def _find_loss(job: Any, tests: Sequence[FoundStep]) -> tuple[dict[str, Any], list[int]] | None:
    """Return the facts of a loss, with the numbers of the uploads; None for no loss.

    Args:
        tests: the steps that run tests.
    """
    steps = dict(steps_of(job))
    later = {at: step for at, step in steps.items() if at > tests[0].number}
    uploads = {at: step for at, step in later.items() if _uploads_results(step)}
    if not uploads:
        is_open = any(_is_open(step) for at, step in later.items() if at > tests[-1].number)
        return None if is_open else ({"kinds": []}, [])
    can_fail = not all(steps[found.number].get("continue-on-error") for found in tests)
    conditions = ("".join(str(step.get("if", "")).split()) for step in uploads.values())
    if can_fail and not any(map(_AFTER_FAILURE.search, conditions)):
        return {"kinds": ["results"]}, [*uploads]
    written = written_files(*tests, job=job)
    uploaded = sorted({path for step in uploads.values() for path in _paths(step)})
    patterns = [glob_of(path.rpartition("/")[2]) for path in uploaded]
    names = [glob_of(name.rpartition("/")[2]) for name in written]
    # A folder or an expression may hold any file.
    is_known = all(name.endswith(RESULT_SUFFIXES) for name in patterns) and "*" not in "".join(
        names
    )
    if not (written and uploaded and is_known) or any(
        fnmatchcase(name, pattern) for name in names for pattern in patterns
    ):
        return None
    return {"kinds": ["results"], "uploaded": uploaded, "written": written}, [*uploads]


def _uploads_results(step: Mapping[str, Any]) -> bool:
    """Return whether the action, a name or a path shows that a step uploads test results."""
    inputs = step.get("with")
    if uploads_artifact(step):
        return bool(RESULTS.search(f"{get(inputs, 'name')}\n{get(inputs, 'path')}"))
    return action_of(step) in REPORTERS or get(inputs, "report_type") == "test_results"


def _is_open(step: Mapping[str, Any]) -> bool:
    """Return whether a step may upload test results: an artifact of another kind than coverage."""
    if uploads_artifact(step):
        return not COVERAGE.search(str(step.get("with")))
    return action_of(step).startswith("./")


def _paths(step: Mapping[str, Any]) -> list[str]:
    """Return the files of results that a step uploads or reports, as written."""
    lines = "\n".join(str(get(step.get("with"), key) or "") for key in _PATHS).splitlines()
    return [line.strip() for line in lines if line.strip() and line.strip()[0] not in "!#"]
