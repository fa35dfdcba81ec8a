"""The framework of a workflow's test job, by its command and the repository's files."""

from __future__ import annotations

import pytest

from ciguard.config.file import Config
from ciguard.init.move_in import find_coverage_gates, job_framework
from ciguard.workflow.movable_job import NotMovable, read_job

PACKAGE = '{"devDependencies": {"jest": "^30"}}'
BOTH = '{"devDependencies": {"vitest": "^4", "@playwright/test": "^1"}}'
FILES = ("package.json", "src/cart.test.ts", "test_a.py")


def found(command: str, package: str = PACKAGE, *, toml: str = "") -> str:
    steps = f"    steps:\n      - run: {command}\n"
    job = read_job(f"on: push\njobs:\n  test:\n    runs-on: a\n{steps}", "ci.yml", "", "")
    config = Config.model_validate({"suite": {"test": {"framework": toml}}} if toml else {})
    return job_framework(job, config, FILES, {"package.json": package}, is_new=not toml)


@pytest.mark.parametrize(
    ("command", "framework"),
    [
        ("pytest", ""),
        ("make test", ""),
        ("npm test", "jest"),
        ("yarn test", "jest"),
        ("npx jest", "jest"),
        ("npx mocha", "mocha"),
        ("mvn -B verify", "maven"),
    ],
)
def test_command_and_files_name_the_framework(command: str, framework: str) -> None:
    assert found(command) == framework


def test_several_that_a_command_can_mean_are_named() -> None:
    with pytest.raises(NotMovable, match="the framework of its tests is not configured") as raised:
        found("npm test", BOTH)
    assert raised.value.fix == (
        'add to ciguard.toml: [suite."test"], with framework = "vitest" or framework = "playwright"'
    )


def test_framework_that_ciguard_starts_enters_no_script() -> None:
    with pytest.raises(NotMovable, match="ciguard starts phpunit itself: vendor/bin/phpunit"):
        found("vendor/bin/phpunit --testdox")


def test_configured_framework_is_taken() -> None:
    assert found("npm test", BOTH, toml="vitest") == ""


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("[tool.coverage.report]\nfail_under = 90\n", ["f:2"]),
        ("[report]\n  fail_under=100", ["f:2"]),
        ('addopts = ["--cov-fail-under=80"]', ["f:1"]),
        ("a\nb: pytest --cov-fail-under 80", ["f:2"]),
        ('session.run("coverage", "report", "--fail-under", "100")', ["f:1"]),
        ("fail_under = 0\n# fail_under = 90\nx = 1 # --cov-fail-under=9\n", []),
        ("fail_under =\n90\n", []),
        ("", []),
    ],
)
def test_gate_is_found_by_its_words(text: str, found: list[str]) -> None:
    assert find_coverage_gates({"f": text}) == found
