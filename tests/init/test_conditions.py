"""Every `if:` of the generated workflows, as GitHub reads and evaluates it, under made-up ends.

GitHub's documentation, "Status check functions": a condition without one is `success() && ...`; a
job whose condition holds is not stopped when its run is cancelled.
"""

from __future__ import annotations

import json
from functools import cache
from itertools import product
from typing import Any

import pytest
from init.test_workflow_files import CASES, OWN, RESULTS, jobs, run_github_parser

OURS = {name: text for name, text in CASES.items() if name not in OWN}
FORKS = [name for name in OURS if "forks" in name]  # they tell of a run that another one made
STATUSES = ("success", "failure", "cancelled")
every_workflow = pytest.mark.parametrize(
    "text", [pytest.param(text, id=name) for name, text in OURS.items() if name not in FORKS]
)


@cache
def read_all() -> dict[str, dict[str, Any]]:
    answers = run_github_parser(*({"workflow": text} for text in OURS.values()))
    assert [answer["errors"] for answer in answers] == [[] for _ in OURS]
    return {text: answer["jobs"] for text, answer in zip(OURS.values(), answers, strict=True)}


def read(text: str) -> dict[str, dict[str, Any]]:
    """By job its condition and its steps', each with what GitHub adds to it."""
    found: dict[str, dict[str, Any]] = read_all()[text]
    return found


@cache
def _evaluated(requested: str) -> list[bool]:
    return [answer["value"] == "true" for answer in run_github_parser(*json.loads(requested))]


def evaluated(requested: list[dict[str, Any]]) -> list[bool]:
    """What GitHub makes of each; workflows that ask the same are answered once."""
    return _evaluated(json.dumps(requested))


def needs_of(text: str, job: str) -> list[dict[str, Any]]:
    """Every way in which the jobs before a job may have ended; the plan's outputs with it."""
    needed = jobs(text)[job]["needs"]
    names = [needed] if isinstance(needed, str) else needed
    ends = []
    for results in product(RESULTS, repeat=len(names)):
        made = dict(zip(names, results, strict=True))
        known = {"plan_id": "9f2c", "plan_artifact": "ciguard-plan-9f2c-1"}
        ends.append(
            {
                name: {"result": end, "outputs": known if end == "success" else {}}
                for name, end in made.items()
            }
        )
    return ends


@every_workflow
def test_report_step_runs_whichever_step_failed(text: str) -> None:
    """Over all ends of the jobs before it, and whichever of its own steps fails."""
    conditions = read(text)["report"]
    assert conditions["if"] == "always()"
    steps = jobs(text)["report"]["steps"]
    (report,) = [at for at, step in enumerate(steps) if step.get("name") == "Report"]
    assert not any("continue-on-error" in step for step in steps)
    ends = needs_of(text, "report")
    made = {"report": {"outputs": {"values_artifact": "ciguard-values-7-1", "suspects": "1"}}}
    requested = [
        {"expression": one, "contexts": {"needs": needs, "steps": made}, "status": status}
        for needs, one, status in product(ends, conditions["steps"], STATUSES)
    ]
    answers = iter(evaluated(requested))
    wanted = [[{status: next(answers) for status in STATUSES} for _ in steps] for _ in ends]
    for of_steps in wanted:
        # A run that is cancelled does not cancel the job; what one of its steps sees is the job's.
        for failing in (None, *range(report)):
            status, ran = "success", False
            for at, when in enumerate(of_steps):
                if when[status]:
                    ran = ran or at == report
                    status = "failure" if at == failing else status
            assert ran, "what was said of an earlier push would stay"
            assert (status == "failure") is (failing is not None and of_steps[failing]["success"])


@every_workflow
def test_report_job_runs_after_any_job_result(text: str) -> None:
    condition = read(text)["report"]["if"]
    requested = [
        {"expression": condition, "contexts": {"needs": needs}, "status": status}
        for needs, status in product(needs_of(text, "report"), STATUSES)
    ]
    assert all(evaluated(requested))


@every_workflow
def test_record_is_uploaded_whatever_the_step_result(text: str) -> None:
    conditions, steps = read(text)["legs"]["steps"], jobs(text)["legs"]["steps"]
    assert "upload-artifact" in steps[-1]["uses"]
    made_up = {
        "github": {"run_attempt": 1},
        "steps": {f"part-{n:02}": {"outputs": {"state": "checkpoint"}} for n in (1, 2)},
    }
    requested = [
        {"expression": condition, "contexts": made_up, "status": status}
        for condition, status in product((conditions[-1], conditions[-2]), STATUSES)
    ]
    answers = evaluated(requested)
    # The upload runs whatever was before it; the tests run behind nothing that failed.
    assert answers == [True, True, True, True, False, False]


@every_workflow
def test_history_job_runs_only_if_the_plan_succeeded(text: str) -> None:
    if "history" not in read(text):
        assert "https://" in text  # a service keeps it
        return
    condition = read(text)["history"]["if"]
    base = {"repository": {"default_branch": "main"}}
    if "#no-'joke" in text:
        base = {"repository": {"default_branch": "#no-'joke"}}
    branch = base["repository"]["default_branch"]
    here = {"event_name": "push", "ref": f"refs/heads/{branch}", "event": base}
    ends = needs_of(text, "history")
    requested = [
        {"expression": condition, "contexts": {"needs": needs, "github": here}} for needs in ends
    ]
    assert evaluated(requested) == [
        needs.get("plan", {"result": "success"})["result"] == "success" for needs in ends
    ]


@pytest.mark.parametrize("name", FORKS)
def test_forks_workflow_reports_only_runs_of_forks(name: str) -> None:
    condition = read(OURS[name])["report"]["if"]
    conclusions = ("success", "failure", "cancelled", "skipped", "timed_out", "action_required")
    events = {
        ("pull_request", "stranger/shop"): True,
        ("pull_request", "octo-org/shop"): False,
        ("push", "octo-org/shop"): False,
        ("merge_group", "octo-org/shop"): False,
    }
    requested = []
    for (event, repository), conclusion in product(events, conclusions):
        reported = {
            "event": event,
            "conclusion": conclusion,
            "head_repository": {"full_name": repository},
        }
        github = {"repository": "octo-org/shop", "event": {"workflow_run": reported}}
        requested.append({"expression": condition, "contexts": {"github": github}})
    expected = [wanted for wanted in events.values() for _ in conclusions]
    assert evaluated(requested) == expected
