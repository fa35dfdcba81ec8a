"""The framework of a workflow's test job, by its command and the repository's files."""

from __future__ import annotations

import pytest

from ciguard.config.file import Config
from ciguard.init.move_in import job_framework
from ciguard.workflow.movable_job import NotMovable, read_job

PACKAGE = '{"devDependencies": {"jest": "^30"}}'
BOTH = '{"devDependencies": {"vitest": "^4", "@playwright/test": "^1"}}'
FILES = ("package.json", "bun.lock", "src/cart.test.ts", "test_a.py")


def found(command: str, package: str = PACKAGE, *, toml: str = "") -> str:
    steps = f"    steps:\n      - run: {command}\n"
    job = read_job(f"on: push\njobs:\n  test:\n    runs-on: a\n{steps}", "ci.yml", "", "")
    config = Config.model_validate({"suite": {"test": {"framework": toml}}} if toml else {})
    return job_framework(job, config, "test", FILES, {"package.json": package})


@pytest.mark.parametrize(
    ("command", "framework"),
    [
        ("pytest", ""),
        ("make test", ""),
        ("npm test", "jest"),
        ("yarn test", "jest"),
        ("npx jest", "jest"),
        ("bun run test", "jest"),
        ("npx mocha", "mocha"),
        ("node --import tsx --test", "node-test"),
        ("npx c8 node --test", "node-test"),
        ("npx tsx --test test/*.ts", "node-test"),
        ("mvn -B verify", "maven"),
    ],
)
def test_command_and_files_name_the_framework(command: str, framework: str) -> None:
    assert found(command) == framework


def test_several_that_a_command_can_mean_are_named() -> None:
    with pytest.raises(NotMovable, match="the framework of its tests is not configured") as raised:
        found("npm test", BOTH)
    assert raised.value.fix == (
        'in ciguard.toml, write into [suite."test"]: framework = "vitest" or "playwright"'
    )


@pytest.mark.parametrize(
    ("command", "package", "what"),
    [
        ("npm test", '{"devDependencies": {"borp": "1"}}', "package.json: Bun with borp"),
        ("bun run test", "{}", "package.json: Bun"),
        ("bun test", "{}", "ciguard has no adapter for bun: bun test"),
    ],
)
def test_runner_without_an_adapter_is_named(command: str, package: str, what: str) -> None:
    with pytest.raises(NotMovable, match="ciguard has no adapter for ") as raised:
        found(command, package)
    assert what in raised.value.what


def test_framework_that_ciguard_starts_enters_no_script() -> None:
    with pytest.raises(NotMovable, match="ciguard starts phpunit itself: vendor/bin/phpunit"):
        found("vendor/bin/phpunit --testdox")


def test_configured_framework_is_taken() -> None:
    assert found("npm test", BOTH, toml="vitest") == ""
