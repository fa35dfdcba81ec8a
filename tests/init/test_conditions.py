"""Every `if:` of the generated workflows, as GitHub reads and evaluates it, under made-up ends.

GitHub's documentation, "Status check functions": a condition without one is `success() && ...`; a
job whose condition holds is not stopped when its run is cancelled.
"""

from __future__ import annotations

import json
from functools import cache
from itertools import product
from typing import TYPE_CHECKING, Any

from init.test_workflow_files import CASES, OWN, RESULTS, jobs, run_github_parser

if TYPE_CHECKING:
    from collections.abc import Mapping

OURS = {name: text for name, text in CASES.items() if name not in OWN}
FORKS = [name for name in OURS if "forks" in name]  # they tell of a run that another one made
STATUSES = ("success", "failure", "cancelled")
REPORTING = {name: text for name, text in OURS.items() if name not in FORKS}
Requests = list[dict[str, Any]]


@cache
def read_all() -> dict[str, dict[str, Any]]:
    answers = run_github_parser(*({"workflow": text} for text in OURS.values()))
    assert [answer["errors"] for answer in answers] == [[] for _ in OURS]
    return {text: answer["jobs"] for text, answer in zip(OURS.values(), answers, strict=True)}


def read(text: str) -> dict[str, dict[str, Any]]:
    """By job its condition and its steps', each with what GitHub adds to it."""
    found: dict[str, dict[str, Any]] = read_all()[text]
    return found


def evaluated(requested: Mapping[str, Requests]) -> dict[str, list[bool]]:
    """Evaluate expressions, by workflow, in one process; the same lists once."""
    texts = {name: json.dumps(expressions) for name, expressions in requested.items()}
    distinct = {text: json.loads(text) for text in texts.values()}
    answers = iter(run_github_parser(*(one for each in distinct.values() for one in each)))
    values = {
        text: [next(answers)["value"] == "true" for _ in expressions]
        for text, expressions in distinct.items()
    }
    return {name: values[text] for name, text in texts.items()}


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


def report_requests(text: str) -> Requests:
    """The conditions of the report's steps over all ends of the jobs before it."""
    conditions = read(text)["report"]
    assert conditions["if"] == "always()"
    made = {"report": {"outputs": {"values_artifact": "ciguard-values-7-1", "suspects": "1"}}}
    return [
        {"expression": one, "contexts": {"needs": needs, "steps": made}, "status": status}
        for needs, one, status in product(needs_of(text, "report"), conditions["steps"], STATUSES)
    ]


def test_report_step_runs_whichever_step_failed() -> None:
    """Over all ends of the jobs before it, and whichever of its own steps fails."""
    found = evaluated({name: report_requests(text) for name, text in REPORTING.items()})
    for name, text in REPORTING.items():
        steps = jobs(text)["report"]["steps"]
        (report,) = [at for at, step in enumerate(steps) if step.get("name") == "Report"]
        assert not any("continue-on-error" in step for step in steps)
        answers = iter(found[name])
        for _ in needs_of(text, "report"):
            when = [{status: next(answers) for status in STATUSES} for _ in steps]
            for failing in (None, *range(report)):
                check_report_step(when, report, failing)


def check_report_step(when: list[dict[str, bool]], report: int, failing: int | None) -> None:
    """Walk through the steps of the report job, one of which fails.

    A run that is cancelled does not cancel the job; what one of its steps sees is the job's.
    """
    status, ran = "success", False
    for at, runs in enumerate(when):
        if runs[status]:
            ran = ran or at == report
            status = "failure" if at == failing else status
    assert ran, "what was said of an earlier push would stay"
    assert (status == "failure") is (failing is not None and when[failing]["success"])


def test_record_is_uploaded_whatever_the_step_result() -> None:
    made_up = {
        "github": {"run_attempt": 1},
        "steps": {f"part-{n:02}": {"outputs": {"state": "checkpoint"}} for n in (1, 2)},
    }
    requested = {}
    for name, text in REPORTING.items():
        conditions = read(text)["legs"]["steps"]
        assert "upload-artifact" in jobs(text)["legs"]["steps"][-1]["uses"]
        requested[name] = [
            {"expression": condition, "contexts": made_up, "status": status}
            for condition, status in product((conditions[-1], conditions[-2]), STATUSES)
        ]
    # The upload runs whatever was before it; the tests run after nothing that failed.
    expected = [True, True, True, True, False, False]
    assert evaluated(requested) == dict.fromkeys(REPORTING, expected)


def test_history_job_runs_only_if_the_plan_succeeded() -> None:
    requested, expected = {}, {}
    for name, text in REPORTING.items():
        if "history" not in read(text):
            assert "https://" in text  # a service keeps it
            continue
        branch = "#no-'joke" if "#no-'joke" in text else "main"
        base = {"repository": {"default_branch": branch}}
        here = {"event_name": "push", "ref": f"refs/heads/{branch}", "event": base}
        ends = needs_of(text, "history")
        condition = read(text)["history"]["if"]
        requested[name] = [
            {"expression": condition, "contexts": {"needs": needs, "github": here}}
            for needs in ends
        ]
        expected[name] = [
            needs.get("plan", {"result": "success"})["result"] == "success" for needs in ends
        ]
    assert evaluated(requested) == expected


def test_forks_workflow_reports_only_runs_of_forks() -> None:
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
        requested.append({"repository": "octo-org/shop", "event": {"workflow_run": reported}})
    expected = [wanted for wanted in events.values() for _ in conclusions]
    conditions = {name: read(OURS[name])["report"]["if"] for name in FORKS}
    contexts = [{"github": github} for github in requested]
    assert evaluated(
        {
            name: [{"expression": condition, "contexts": one} for one in contexts]
            for name, condition in conditions.items()
        }
    ) == dict.fromkeys(FORKS, expected)
