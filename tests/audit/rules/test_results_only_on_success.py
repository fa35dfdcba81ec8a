"""Uploads after tests, with and without a condition that holds after a failure."""

from __future__ import annotations

from typing import Final

import pytest
from audit.workflow_findings import find, job, lines

from ciguard.workflow.test_commands import read_tasks

RULE: Final = "results-only-on-success"
TESTS = "- run: pytest --junitxml=junit.xml\n"
JUNIT = "- uses: actions/upload-artifact@v4\n  with: {name: results, path: junit.xml}\n"
COVERAGE = "- uses: codecov/codecov-action@v5\n"
BINARIES = "- uses: actions/upload-artifact@v4\n  with: {name: wheels, path: dist}\n"


@pytest.mark.parametrize(
    "upload",
    [
        JUNIT,
        JUNIT + "  if: success()\n",
        JUNIT + "  if: matrix.os == 'linux'\n",
        JUNIT + "  if: ${{ !failure() }}\n",
        "- uses: dorny/test-reporter@v1\n",
        "- uses: codecov/codecov-action@v5\n  with: {report_type: test_results}\n",
        "- uses: actions/upload-artifact@v4\n  with: {path: out/test-results/**/*.trx}\n",
    ],
)
def test_finds_results_that_are_uploaded_on_success_only(upload: str) -> None:
    text = job(TESTS + upload)
    (found,) = find(RULE, text)
    assert (found.subject, found.certainty) == ("test", "certain")
    assert found.facts == {"kinds": ["results"]}
    assert [place.line for place in found.evidence] == [7]
    assert lines(found, text) == [upload.splitlines()[0]]


@pytest.mark.parametrize(
    "condition", ["always()", "${{ !cancelled() }}", "success() || failure()", "${{ failure( ) }}"]
)
def test_accepts_an_upload_after_a_failure(condition: str) -> None:
    assert find(RULE, job(f"{TESTS}{JUNIT}  if: {condition}\n")) == []


@pytest.mark.parametrize(
    "steps",
    [
        TESTS + BINARIES,
        TESTS + "- uses: ./.github/actions/upload\n",
        "- run: make build\n" + JUNIT,
        TESTS + "  continue-on-error: true\n" + JUNIT,
        TESTS + JUNIT + JUNIT + "  if: failure()\n",
        TESTS + COVERAGE + JUNIT + "  if: always()\n",
    ],
)
def test_accepts_jobs_that_lose_nothing(steps: str) -> None:
    assert find(RULE, job(steps)) == []


@pytest.mark.parametrize("steps", [TESTS, JUNIT + TESTS, TESTS + COVERAGE, "- run: make ci\n"])
def test_finds_jobs_without_an_upload(steps: str) -> None:
    text = job(steps)
    (found,) = find(
        RULE,
        text,
        tasks=read_tasks({"Makefile": "ci:\n\t@pytest tests\n", "package.json": ""}.__getitem__),
    )
    assert (found.certainty, found.facts) == ("certain", {"kinds": []})
    assert lines(found, text) == ["test:"]


def test_is_certain_of_results_beside_safe_coverage() -> None:
    (found,) = find(RULE, job(TESTS + COVERAGE + "  if: always()\n" + JUNIT))
    assert (found.certainty, found.facts) == ("certain", {"kinds": ["results"]})


def test_reads_a_test_command_in_an_action() -> None:
    retried = "- uses: nick-fields/retry@v3\n  with: {max_attempts: 3, command: npm test}\n"
    (found,) = find(RULE, job(retried + JUNIT))
    assert found.certainty == "certain"
