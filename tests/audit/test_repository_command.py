"""`ciguard audit OWNER/NAME`: what it reads, in how many calls, and what it says of the rest."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from audit.conftest import SHARDS
from conftest import Ciguard, Golden
from fakegithub.past_runs import AT_LIMIT, WORKFLOW, Audit, PastRuns
from fakegithub.state import FakeGitHub, Fault

from ciguard.audit.repository_reader import MAX_CALLS
from ciguard.audit.rule_table import RULES, RUN_RULES

SAMPLES = Path(__file__).parents[1] / "samples"
OTHER_RULES = {r"No finding: [^.]+": "No finding: the other rules"}


def json_of(audit: Audit, *words: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(audit("--format", "json", *words).stdout)
    return found


@pytest.mark.parametrize("format_", ["text", "markdown", "json"])
def test_each_rule_has_its_section(
    shop: PastRuns, audit: Audit, golden: Golden, format_: str
) -> None:
    suffix = {"text": "txt", "markdown": "md", "json": "json"}[format_]
    answer = audit("--format", format_)
    golden(answer.stdout, SAMPLES / "audit" / f"repository.{suffix}", scrub=OTHER_RULES)
    assert len(shop.server.exchanges) <= MAX_CALLS


CARELESS = """
on: pull_request
jobs:
  test:
    runs-on: ubuntu-latest
    steps:
      - name: Test
        run: pytest --reruns 3 --junit-xml=junit.xml
      - uses: actions/upload-artifact@v5
        with: {name: junit, path: junit.xml}
  gate:
    needs: test
    if: always()
    runs-on: ubuntu-latest
    steps: [{run: echo done}]
"""


def test_rules_about_workflows_have_their_words(
    past: PastRuns, audit: Audit, golden: Golden
) -> None:
    past.workflow(CARELESS)
    past.server.required_by_protection = ["gate"]
    answer = audit("--fail-on", "retries-hide-flaky-tests", expect=14)
    golden(answer.stdout, SAMPLES / "audit" / "repository-workflows.txt", scrub=OTHER_RULES)
    page = audit("--format", "markdown").stdout
    # A rule about runs has no finding where no run was read, and does not say so.
    assert {*re.findall(r"\(([a-z-]+)\)\n", page)} == RULES.keys() - RUN_RULES.keys()
    assert "No finding" not in page


def test_guide_shows_what_is_printed() -> None:
    page = Path(__file__).parents[2] / "docs/how-to/audit.md"
    (_, *shown) = re.findall(r"(?s)```console\n(.*?)```", page.read_text("utf-8"))[1].splitlines()
    printed = (SAMPLES / "audit" / "repository.txt").read_text("utf-8").splitlines()
    assert shown == printed[: len(shown)]


def test_page_has_the_same_headline(shop: PastRuns, audit: Audit) -> None:
    page = audit("--format", "html").stdout
    headline = json_of(audit)["headline"]
    assert f"<title>{headline}</title>" in page
    assert 'href="https://github.com/octo-org/shop/actions/runs/' in page


def test_second_reading_asks_only_what_may_have_changed(shop: PastRuns, audit: Audit) -> None:
    first = audit().stdout
    before = len(shop.server.exchanges)
    assert audit().stdout == first
    again = shop.server.exchanges[before:]
    assert {one.answer.status for one in again} == {304}
    assert len(again) == 6  # repository, folder, file, rules, branch, runs


def test_new_attempt_of_a_run_is_read_again(past: PastRuns, audit: Audit) -> None:
    run = past.run("failure")
    past.job(run, conclusion="failure")
    audit()
    past.server.runs[0].update(run_attempt=2, conclusion="success")
    past.job(run, attempt=2)
    assert json_of(audit)["runs"][0]["jobs"] == 2


def test_calls_end_at_the_limit_and_the_next_reading_goes_on(
    shop: PastRuns, audit: Audit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ciguard.audit.repository_reader.MAX_CALLS", 20)
    read: list[int] = []
    found: dict[str, Any] = {}
    for _ in range(4):
        before = len(shop.server.exchanges)
        found = json_of(audit)
        assert len(shop.server.exchanges) - before <= 20
        read.append(sum(run["jobs"] is not None for run in found["runs"]))
    assert read == sorted(read)
    assert read[0] < 24
    assert read[-1] == 24
    assert {one["what"] for one in found["unread"]} == set()


def test_what_was_not_read_is_said(
    shop: PastRuns, audit: Audit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ciguard.audit.repository_reader.MAX_CALLS", 20)
    answer = audit()
    jobs = sum("/jobs" in line for line in shop.server.request_log())
    assert f"jobs of {jobs} of 24 runs read: no calls are left" in answer.stdout
    assert answer.stderr.splitlines() == ["reading runs: 24", "GitHub: 20 of 20 calls"]


@pytest.mark.soak
def test_reading_of_100_red_runs_fits_the_calls(past: PastRuns, audit: Audit) -> None:
    past.workflow(SHARDS)
    for _ in range(100):
        run = past.run("cancelled")
        for shard in (1, 2, 3):
            past.job(run, f"test ({shard})", "cancelled", annotations=[AT_LIMIT], minutes=45)
    found = json_of(audit)
    assert len(past.server.exchanges) == MAX_CALLS == 300
    (jobs, *_) = [one for one in found["unread"] if one["what"] == "jobs"]
    assert jobs["why"] == "call_limit"
    assert 70 < jobs["read"] < 100


def test_broken_connection_is_resumed(past: PastRuns, audit: Audit) -> None:
    past.green(8)
    past.server.faults.append(Fault(path=f"/runs/{past.numbers[5]}/jobs", status=0, times=3))
    assert "jobs of 5 of 8 runs read" in audit().stdout
    before = len(past.server.exchanges)
    assert "not read" not in audit().stdout
    asked = [one.request.path for one in past.server.exchanges[before:]]
    assert sum("/jobs" in path for path in asked) == 3


def test_annotations_that_the_token_may_not_read_are_named(past: PastRuns, audit: Audit) -> None:
    for _ in range(3):
        past.job(past.run("cancelled"), conclusion="cancelled", minutes=45.2)
    message = "Resource not accessible by personal access token"
    past.server.faults.append(Fault(path="/annotations", status=403, message=message, times=9))
    answer = audit()
    assert "annotations of 0 of 3 red runs read: answered 403" in answer.stdout
    assert "possible: died at its limit of 45 min 00 s in 3 of 3 executions" in " ".join(
        answer.stdout.split()
    )
    asked = [line for line in past.server.request_log() if "/annotations" in line]
    assert len(asked) == 1


def test_required_checks_that_are_not_known_are_named(past: PastRuns, audit: Audit) -> None:
    past.server.faults.append(Fault(path="/rules/branches", status=404, message="Not Found"))
    past.green(1)
    found = json_of(audit)
    assert found["required_checks"] is None
    assert [one["what"] for one in found["unread"]] == ["required_checks"]


def test_runs_are_shared_by_the_workflows(past: PastRuns, audit: Audit) -> None:
    past.workflow(name="nightly.yml")
    past.green(8)
    for _ in range(2):
        past.job(past.run(path=".github/workflows/nightly.yml"))
    found = json_of(audit, "--runs", "6")
    counts = [run["workflow"].rpartition("/")[2] for run in found["runs"]]
    assert sorted(counts) == ["nightly.yml"] * 2 + ["tests.yml"] * 4


def test_workflow_that_is_called_belongs_to_its_caller(past: PastRuns, audit: Audit) -> None:
    past.workflow(WORKFLOW.replace("[push, pull_request]", "workflow_call"), "unit.yml")
    caller = "on: push\njobs:\n  all:\n    uses: ./.github/workflows/unit.yml\n"
    past.workflow(caller, "tests.yml")
    for _ in range(2):
        cancelled = past.run("cancelled")
        past.job(
            cancelled, "all / test", conclusion="cancelled", annotations=[AT_LIMIT], minutes=45
        )
    found = json_of(audit)
    assert found["test_workflows"] == [".github/workflows/tests.yml"]
    assert [one["rule"] for one in found["findings"]] == ["shard-died-at-limit"]
    assert found["findings"][0]["facts"]["limit_s"] == 2700.0


def test_named_workflow_is_read_alone(past: PastRuns, audit: Audit) -> None:
    past.workflow("on: push\njobs: {build: {runs-on: x, steps: [{run: make}]}}", "build.yml")
    past.green(2)
    past.job(past.run(path=".github/workflows/build.yml"), "build")
    assert len(json_of(audit)["runs"]) == 2
    found = json_of(audit, "--workflow", "build.yml")
    assert [run["workflow"] for run in found["runs"]] == [".github/workflows/build.yml"]


@pytest.mark.parametrize(
    ("rules", "code"),
    [
        ("shard-died-at-limit", 14),
        ("imbalanced-matrix", 0),
        ("imbalanced-matrix, shard-died-at-limit", 14),
    ],
)
def test_rule_fails_only_where_it_found_something(
    past: PastRuns, audit: Audit, rules: str, code: int
) -> None:
    past.green(5, minutes=44)
    past.job(past.run("cancelled"), conclusion="cancelled", annotations=[AT_LIMIT], minutes=45)
    answer = audit("--fail-on", rules, expect=code)
    assert ("ciguard audit: found " in answer.stderr) == (code != 0)


def test_place_in_a_file_is_a_link_to_its_line(past: PastRuns, audit: Audit) -> None:
    past.workflow(WORKFLOW.replace("if: always(), ", ""))
    address = "https://github.com/octo-org/shop/blob/main/.github/workflows/tests.yml#L11"
    assert (
        "- test: results uploaded only if the tests passed\n  (.github/workflows/tests.yml:11;"
        in audit().stdout
    )
    assert f"]({address})" in audit("--format", "markdown").stdout
    (found,) = json_of(audit)["findings"]
    assert found["rule"] == "results-only-on-success"
    assert found["evidence"][0]["url"] == address


def test_bad_words_are_refused(past: PastRuns, audit: Audit, ciguard: Ciguard) -> None:
    assert "no rule 'orphan'" in audit("--fail-on", "orphan", expect=2).stderr
    both = audit("--matrix", "a.yml", "--tests", "b", expect=2)
    assert "OWNER/NAME and --matrix" in both.stderr
    assert "-o need --matrix" in audit("-o", "plan.json", expect=2).stderr
    assert past.server.exchanges == []
    assert "--tests FILE" in ciguard("audit", "--matrix", "a", cwd=SAMPLES, expect=2).stderr
    wrong = ciguard("audit", "shop", cwd=SAMPLES, expect=2)
    assert wrong.stderr.startswith('ciguard audit: expected OWNER/NAME, found "shop"')


def test_no_token_is_an_error_with_its_fix(audit: Audit) -> None:
    answer = audit(expect=2, GITHUB_TOKEN="")
    assert "octo-org/shop: there is no token for GitHub" in answer.stderr
    assert "fix: set GITHUB_TOKEN or GH_TOKEN" in answer.stderr


def test_repository_that_cannot_be_read_is_an_error(server: FakeGitHub, audit: Audit) -> None:
    server.faults.append(Fault(path="/repos/octo-org/shop", status=404, message="Not Found"))
    answer = audit(expect=4)
    assert "GET /repos/octo-org/shop: answered 404: Not Found" in answer.stderr
    assert "fix: check that it exists and that the token may see it" in answer.stderr


def test_rate_limit_before_any_run_is_an_error(past: PastRuns, audit: Audit) -> None:
    past.green(1)
    limit = {"retry-after": "3000"}
    message = "API rate limit exceeded for user ID 1."
    fault = Fault(path="/actions/", status=403, message=message, headers=limit, times=9)
    past.server.faults.append(fault)
    assert "GitHub asks to wait 3000 s" in audit(expect=4).stderr


def test_repository_without_a_workflow_has_nothing_to_audit(
    server: FakeGitHub, audit: Audit
) -> None:
    server.files["README.md", "main"] = b"shop"
    assert "the default branch has no workflow" in audit(expect=5).stderr


def test_workflow_that_is_not_there_is_an_error(past: PastRuns, audit: Audit) -> None:
    assert past.server.files
    answer = audit("--workflow", "ci.yml", expect=3)
    assert "octo-org/shop/.github/workflows: no workflow 'ci.yml'" in answer.stderr
    assert "fix: name one of: tests.yml" in answer.stderr


def test_file_that_is_no_yaml_hides_no_other(past: PastRuns, audit: Audit) -> None:
    past.workflow("on: [push", "broken.yml")
    past.green(1)
    answer = audit()
    assert ".github/workflows/broken.yml cannot be read as a workflow" in answer.stdout
    assert "1 run of 1 workflow" in answer.stdout


def test_repository_without_a_test_command_says_so(past: PastRuns, audit: Audit) -> None:
    past.workflow("on: push\njobs: {build: {runs-on: x, steps: [{run: make}]}}")
    answer = audit()
    assert (
        answer.stdout.splitlines()[0]
        == "octo-org/shop: no finding in 1 workflow file; no run was read"
    )
    assert "--into FILE" in answer.stdout
