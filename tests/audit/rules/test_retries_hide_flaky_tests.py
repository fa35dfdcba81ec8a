"""Retries of tests in each place of a workflow, and what only looks like one."""

from __future__ import annotations

from typing import Final

import pytest
from audit.workflow_findings import find, job, lines

RULE: Final = "retries-hide-flaky-tests"
RETRY = "- uses: nick-fields/retry@v3\n  with: {max_attempts: 3, command: npm "


@pytest.mark.parametrize(
    ("steps", "pattern", "line"),
    [
        ("- run: pytest --reruns 3", "--reruns", "- run: pytest --reruns 3"),
        ("- run: tox -- --reruns=2 --reruns-delay 1", "--reruns", "- run: tox -- --reruns=2"),
        ("- run: |\n    echo tests\n    pytest --retries 2", "--retries", "pytest --retries 2"),
        ("- run: pytest tests || pytest --lf", "||", "- run: pytest"),
        ("- run: pytest || pytest || exit 1", "||", "- run: pytest"),
        ("- run: pytest tests | tee log || true", "|| true", "- run: pytest"),
        ("- run: pytest tests > log 2>&1 || exit 0", "|| true", "- run: pytest"),
        ("- run: gotestsum --rerun-fails --packages ./...", "--rerun-fails", "- run: gotestsum"),
        ("- run: gotestsum --rerun-fails=5", "--rerun-fails", "- run: gotestsum"),
        ("- run: ctest --repeat until-pass:3", "--repeat until-pass", "- run: ctest"),
        ("- run: npx vitest --retry 2", "--retry", "- run: npx vitest"),
        ("- run: dotnet test -- --retry-failed-tests 3", "--retry-failed-tests", "- run: dotnet"),
        ("- run: mvn verify -Dsurefire.rerunFailingTestsCount=2", "rerunFailingTestsCount", "- ru"),
        (
            "- run: pytest\n  continue-on-error: true",
            "continue-on-error",
            "continue-on-error: true",
        ),
        (f"{RETRY}test}}", "nick-fields/retry", "- uses: nick-fields/retry@v3"),
        ("- run: make test\n  env: {A: '--reruns 2'}", "--reruns", "env: {A: '--reruns 2'}"),
        ("- run: make\n  env:\n    NEXTEST_RETRIES: 2", "NEXTEST_RETRIES", "NEXTEST_RETRIES: 2"),
    ],
)
def test_finds_retries_in_a_step(steps: str, pattern: str, line: str) -> None:
    text = job(steps)
    (found,) = find(RULE, text)
    assert (found.subject, found.certainty) == ("test", "certain")
    assert found.facts == {"patterns": [pattern]}
    (written,) = lines(found, text)
    assert written.startswith(line)


@pytest.mark.parametrize(
    "steps",
    [
        "- run: pytest --reruns 0",
        "- run: pytest tests  # without --reruns 3",
        "- run: pytest tests --lf && exit 1",
        "- run: pytest tests || echo failed",
        "- run: pytest a; pytest b",
        "- run: pytest a || npm test",
        "- run: curl --retry 5 https://example.org && pytest",
        "- run: apt-get update || true",
        "- run: make lint\n  continue-on-error: true",
        "- run: pytest\n  continue-on-error: false",
        "- run: npm ci --retries 3\n- run: npm test",
        f"{RETRY}ci}}",
        "- {id: t, run: pytest, continue-on-error: true}\n"
        "- if: steps.t.outcome == 'failure'\n  run: exit 1",
    ],
)
def test_finds_nothing_else(steps: str) -> None:
    assert find(RULE, job(steps)) == []


@pytest.mark.parametrize(
    ("steps", "doubt"),
    [
        ("- run: pytest --reruns $RERUNS", "retry_count_is_variable"),
        (
            "- run: pytest\n  continue-on-error: ${{ matrix.experimental }}",
            "continue_on_error_is_expression",
        ),
    ],
)
def test_doubts_what_only_a_run_can_tell(steps: str, doubt: str) -> None:
    (found,) = find(RULE, job(steps))
    assert (found.certainty, found.caveat) == ("possible", doubt)


def test_finds_an_option_in_a_matrix_and_in_the_workflow() -> None:
    matrix = "    strategy:\n      matrix:\n        args: ['-x', '--reruns 2']\n"
    text = job("- run: pytest ${{ matrix.args }}").replace("    steps:\n", matrix + "    steps:\n")
    text = text.replace("jobs:", "env:\n  PYTEST_ADDOPTS: --reruns 1\njobs:")
    shared, found = find(RULE, text)
    assert shared.subject == ".github/workflows/ci.yml"
    assert lines(shared, text) == ["PYTEST_ADDOPTS: --reruns 1"]
    assert lines(found, text) == ["args: ['-x', '--reruns 2']"]


def test_leaves_out_what_is_possible_beside_what_is_certain() -> None:
    (found,) = find(RULE, job("- run: pip install flaky\n- run: pytest --reruns 1"))
    assert (found.certainty, found.facts) == ("certain", {"patterns": ["--reruns"]})
