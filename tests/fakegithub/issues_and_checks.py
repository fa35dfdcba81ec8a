"""What the fake GitHub is told besides comments: issues and checks."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from fakegithub.state import DOCS, Answer, FakeGitHub, Login, Request, paged, refused, user_json

Json = Any
MAX_SUMMARY_CHARS: Final = 65_535
MAX_ANNOTATIONS: Final = 50
TIME: Final = "2026-11-21T10:00:00Z"


def issue_json(github: FakeGitHub, repository: str, number: int, login: Login) -> Json:
    return {
        "number": number,
        "html_url": f"https://github.com/{repository}/issues/{number}",
        "state": "open",
        "state_reason": None,
        "title": "",
        "body": None,
        "user": user_json(login),
        "created_at": TIME,
    }


def list_issues(github: FakeGitHub, _: Login, __: Mapping[str, str], request: Request) -> Answer:
    creator, state = request.query.get("creator"), request.query.get("state", "open")
    found = [
        one
        for _, one in sorted(github.issues.items(), reverse=True)
        if creator in (None, one["user"]["login"]) and state in ("all", one["state"])
    ]
    shown, link = paged(github.address, request, found)
    return Answer(200, shown, link)


def create_issue(
    github: FakeGitHub, login: Login, part: Mapping[str, str], request: Request
) -> Answer:
    requested = json.loads(request.body)
    if not requested.get("title"):
        return refused(422, "Validation Failed")
    number = 100 + len(github.issues)
    github.issues[number] = {**issue_json(github, part["repository"], number, login), **requested}
    return Answer(201, dict(github.issues[number]))


def change_issue(github: FakeGitHub, _: Login, part: Mapping[str, str], request: Request) -> Answer:
    issue = github.issues.get(int(part["number"]))
    if issue is None:
        return refused(404, "Not Found")
    issue.update(json.loads(request.body))
    return Answer(200, dict(issue))


def _invalid_output(output: Mapping[str, Json]) -> Answer | None:
    """GitHub's own words for the two limits that matter."""
    message = ""
    if len(output.get("summary", "")) > MAX_SUMMARY_CHARS:
        message = f"Only {MAX_SUMMARY_CHARS} characters are allowed; summary is too long"
    if len(output.get("annotations", ())) > MAX_ANNOTATIONS:
        message = "No more than 50 items are allowed"
    if not message:
        return None
    value = {"message": f"Invalid request.\n\n{message}.", "documentation_url": DOCS}
    return Answer(422, {**value, "status": "422"})


def check_json(
    github: FakeGitHub, repository: str, number: int, requested: Mapping[str, Json]
) -> Json:
    url = f"{github.address}/repos/{repository}/check-runs/{number}"
    output = requested["output"]
    return {
        "id": number,
        "node_id": f"CR_{number}",
        "head_sha": requested["head_sha"],
        "external_id": requested.get("external_id", ""),
        "url": url,
        "html_url": f"https://github.com/{repository}/runs/{number}",
        "details_url": requested.get("details_url"),
        "status": requested["status"],
        "conclusion": requested["conclusion"],
        "started_at": TIME,
        "completed_at": TIME,
        "name": requested["name"],
        "output": {
            "title": output["title"],
            "summary": output["summary"],
            "text": None,
            "annotations_count": len(output["annotations"]),
            "annotations_url": f"{url}/annotations",
        },
        "check_suite": None,
        "app": None,
        "pull_requests": [],
    }


def create_check(github: FakeGitHub, _: Login, part: Mapping[str, str], request: Request) -> Answer:
    requested = json.loads(request.body)
    invalid = _invalid_output(requested["output"])
    if invalid:
        return invalid
    number = 500 + len(github.checks)
    made = check_json(github, part["repository"], number, requested)
    github.checks[number] = made
    github.noted[number] = list(requested["output"]["annotations"])
    return Answer(201, dict(made))


def change_check(github: FakeGitHub, _: Login, part: Mapping[str, str], request: Request) -> Answer:
    number = int(part["check"])
    if number not in github.checks:
        return refused(404, "Not Found")
    output = json.loads(request.body)["output"]
    invalid = _invalid_output(output)
    if invalid:
        return invalid
    github.noted[number] += output["annotations"]  # GitHub adds to what is there
    made = github.checks[number]
    made["output"]["annotations_count"] = len(github.noted[number])
    return Answer(200, dict(made))


def list_checks(github: FakeGitHub, _: Login, part: Mapping[str, str], request: Request) -> Answer:
    name = request.query.get("check_name")
    found = [
        one
        for one in github.checks.values()
        if one["head_sha"] == part["sha"] and name in (None, one["name"])
    ]
    shown, link = paged(github.address, request, found)
    return Answer(200, {"total_count": len(found), "check_runs": shown}, link)


_HERE: Final = r"/repos/(?P<repository>[^/]+/[^/]+)"
ISSUE_AND_CHECK_ROUTES: Final[Mapping[str, Callable[..., Answer]]] = {
    rf"GET {_HERE}/issues": list_issues,
    rf"POST {_HERE}/issues": create_issue,
    rf"PATCH {_HERE}/issues/(?P<number>\d+)": change_issue,
    rf"POST {_HERE}/check-runs": create_check,
    rf"PATCH {_HERE}/check-runs/(?P<check>\d+)": change_check,
    rf"GET {_HERE}/commits/(?P<sha>[^/]+)/check-runs": list_checks,
}
