"""Every `if:` of the generated workflows, as GitHub reads and evaluates it, under made-up ends.

GitHub's documentation, "Status check functions": a condition without one is `success() && ...`; a
job whose condition holds is not stopped when its run is cancelled.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from itertools import product
from typing import Any

from init.test_workflow_files import CASES, OWN, RESULTS, jobs, run_github_parser
from init.workflow_steps import read_action

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
        known = {"plan": "ciguard-plan-9f2c-1"}
        ends.append(
            {
                name: {"result": end, "outputs": known if end == "success" else {}}
                for name, end in made.items()
            }
        )
    return ends


def by_status(condition: str, **contexts: dict[str, Any]) -> Requests:
    """A condition, by the status of the steps before it."""
    request = {"expression": condition, "contexts": contexts}
    return [{**request, "status": status} for status in STATUSES]


def step_condition(action: str, at: int) -> str:
    """The condition of a step of an action, with what GitHub adds to it."""
    condition: str = read_action(action)["runs"]["steps"][at].get("if", "success()")
    if re.search(r"\b(success|failure|always)\(\)", condition):
        return condition
    return f"success() && ({condition})"


def test_report_runs_whichever_step_failed() -> None:
    reports = {name: read(text)["report"] for name, text in REPORTING.items()}
    assert {report["if"] for report in reports.values()} == {"always()"}
    requested = {name: by_status(report["steps"][-1]) for name, report in reports.items()}
    names = [step.get("id") for step in read_action("report")["runs"]["steps"]]
    requested["action"] = by_status(step_condition("report", names.index("report")))
    assert evaluated(requested) == {name: [True, True, False] for name in requested}


def test_record_is_uploaded_whatever_the_step_result() -> None:
    requested, expected = {}, {}
    for state, status in product(("", "ended", "checkpoint"), ("", "true")):
        contexts: dict[str, Any] = {
            "inputs": {"fetch": status},
            "steps": {"run": {"outputs": {"state": state}}},
        }
        is_last = state != "checkpoint" and not status
        ends = {-1: [is_last] * 3, -2: [state == "checkpoint", False, False]}
        for at, end in ends.items():
            name = f"{state}, {status}, {at}"
            requested[name] = by_status(step_condition("run", at), **contexts)
            expected[name] = end
    assert evaluated(requested) == expected


def test_history_job_runs_only_if_the_plan_succeeded() -> None:
    requested, expected = {}, {}
    for name, text in REPORTING.items():
        if "history" not in read(text):
            assert "https://" in text  # a service keeps it
            continue
        here = {"event_name": "push"}
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
