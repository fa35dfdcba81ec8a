"""Every `if:` of the generated workflows, as GitHub reads and evaluates it, under made-up ends.

GitHub's documentation, "Status check functions": a condition without one is `success() && ...`; a
job whose condition holds is not stopped when its run is cancelled.
"""

from __future__ import annotations

import json
import re
from functools import cache
from itertools import product
from typing import TYPE_CHECKING, Any

from init.test_workflow_files import CASES, OWN, RESULTS, jobs, run_github_parser
from init.workflow_steps import read_action

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
        known = {"plan": "ciguard-plan-9f2c-1"}
        ends.append(
            {
                name: {"result": end, "outputs": known if end == "success" else {}}
                for name, end in made.items()
            }
        )
    return ends


def evaluated_in_action(action: str, at: int, **contexts: dict[str, Any]) -> list[bool]:
    """The condition of a step of an action, by the status of the steps before it."""
    condition = read_action(action)["runs"]["steps"][at].get("if", "success()")
    if not re.search(r"\b(success|failure|always)\(\)", condition):
        condition = f"success() && ({condition})"
    requests = [
        {"expression": condition, "contexts": contexts, "status": status} for status in STATUSES
    ]
    return evaluated({action: requests})[action]


def test_report_runs_whichever_step_failed() -> None:
    for text in REPORTING.values():
        conditions = read(text)["report"]
        assert conditions["if"] == "always()"
        last = {"expression": conditions["steps"][-1], "contexts": {}}
        requests = [{**last, "status": one} for one in STATUSES]
        assert evaluated({"": requests})[""] == [True, True, False]
    names = [step.get("id") for step in read_action("report")["runs"]["steps"]]
    assert evaluated_in_action("report", names.index("report")) == [True, True, False]


def test_record_is_uploaded_whatever_the_step_result() -> None:
    for state, status in product(("", "ended", "checkpoint"), ("", "true")):
        contexts: dict[str, Any] = {
            "inputs": {"fetch": status},
            "steps": {"run": {"outputs": {"state": state}}},
        }
        is_last = state != "checkpoint" and not status
        assert evaluated_in_action("run", -1, **contexts) == [is_last] * 3
        expected = [state == "checkpoint", False, False]
        assert evaluated_in_action("run", -2, **contexts) == expected


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
