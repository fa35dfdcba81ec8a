"""The first guess: the framework, the projects with their environments, the version of Python."""

from __future__ import annotations

import pytest

from ciguard.init.project import Suggestion, matches, suggest
from ciguard.run.frameworks.registry import FRAMEWORKS

FRAMEWORK = FRAMEWORKS["pytest"]


@pytest.mark.parametrize(
    ("path", "pattern", "expected"),
    [
        ("a/test_b.py", "test_*.py", True),
        ("a/test_b.py", "a/*.py", True),
        ("b/a/test_b.py", "a/*.py", False),
        ("TEST_B.py", "test_*.py", False),
    ],
)
def test_pattern_without_a_folder_matches_anywhere(path: str, pattern: str, expected: bool) -> None:
    assert matches(path, pattern) is expected


UV_LOCK = '[[package]]\nname = "pytest"\n'
PACKAGE = '[project]\nname = "x"\n'
UV, POETRY = "uv run --no-sync python -m pytest", "poetry run python -m pytest"
VENV = ".venv/bin/python -m pytest"


def suites(suggestion: Suggestion) -> list[tuple[str, str, str]]:
    """Name, folder and command of each."""
    return [(one.name, one.cwd or ".", " ".join(one.command)) for one in suggestion.suites]


@pytest.mark.parametrize(
    ("texts", "tests", "expected"),
    [
        ({}, ["test_a.py"], [("", ".", "")]),
        ({"uv.lock": UV_LOCK}, ["tests/test_a.py"], [("", ".", UV)]),
        ({"back/requirements.txt": "x"}, ["back/tests/test_a.py"], [("back", "back", "")]),
        (
            {"a/uv.lock": UV_LOCK, "b/poetry.lock": UV_LOCK},
            ["a/test_a.py", "b/c/test_b.py"],
            [("a", "a", UV), ("b", "b", POETRY)],
        ),
        # Two that pip installs: neither is installed where the other is.
        (
            {"a/setup.py": "", "b/requirements/test.txt": "pytest"},
            ["a/test_a.py", "b/test_b.py"],
            [("a", "a", VENV), ("b", "b", VENV)],
        ),
        # A workspace has one lock file, so one environment, and a suite for each member.
        (
            {
                "uv.lock": UV_LOCK,
                "pyproject.toml": "[tool.uv.workspace]\nmembers = ['libs/*']\nexclude = ['libs/x']",
                "libs/a/pyproject.toml": PACKAGE,
                "libs/b/pyproject.toml": PACKAGE,
                "libs/x/pyproject.toml": PACKAGE,
                "old/requirements.txt": "pytest",
            },
            [*(f"libs/{one}/test_a.py" for one in "abx"), "old/test_o.py", "test_c.py"],
            [
                ("", ".", UV),
                *((one, f"libs/{one}", UV) for one in "ab"),
                ("x", "libs/x", VENV),
                ("old", "old", VENV),
            ],
        ),
        (
            {"x/core/setup.py": "", "y/core/setup.py": "", "z/setup.py": ""},
            ["x/core/test_a.py", "y/core/test_b.py"],
            [("x-core", "x/core", VENV), ("y-core", "y/core", VENV)],
        ),
        # Samples, and what only configures a linter, are no projects.
        (
            {"tests/samples/s/setup.py": "", "src/pyproject.toml": "[tool.ruff]"},
            ["tests/samples/s/test_s.py", "src/test_a.py"],
            [("", ".", "")],
        ),
        ({"tox.ini": ""}, ["test_a.py"], []),
        ({"pyproject.toml": f"{PACKAGE}[tool.hatch.build]"}, ["test_a.py"], [("", ".", "")]),
        ({"pyproject.toml": f"{PACKAGE}[tool.hatch.envs.test]"}, ["test_a.py"], []),
        ({"tox.ini": "", "requirements-test.txt": "pytest"}, ["test_a.py"], [("", ".", "")]),
        ({"pdm.lock": "", "requirements-test.txt": "pytest"}, ["test_a.py"], []),
    ],
)
def test_suite_and_environment_for_each_project(
    texts: dict[str, str], tests: list[str], expected: list[tuple[str, str, str]]
) -> None:
    assert suites(suggest(tests, texts, FRAMEWORK)) == expected


def test_workspace_is_set_up_once_at_its_root() -> None:
    """A `uv sync` in a member uninstalls what the tests of the root need."""
    member = "[tool.uv.workspace]\nmembers = ['libs/a']"
    texts = {"pyproject.toml": member, "uv.lock": UV_LOCK, "libs/pyproject.toml": PACKAGE}
    texts |= {"libs/a/pyproject.toml": PACKAGE, "libs/a/uv.lock": UV_LOCK}
    found = suggest(["test_a.py", "libs/a/test_b.py"], texts, FRAMEWORK)
    assert suites(found) == [("", ".", UV), ("a", "libs/a", UV)]
    assert found.setup.count("uv sync") == 1
    assert "--all-packages" in found.setup


def test_suite_ignores_projects_with_tests_below_its_folder() -> None:
    texts = dict.fromkeys(("setup.py", "api/setup.py", "web/setup.py"), "")
    found = suggest(["test_a.py", "api/test_b.py"], texts, FRAMEWORK)
    assert [one.args for one in found.suites] == [("--ignore=api",), ()]


def test_top_without_a_project_is_no_suite_beside_others() -> None:
    told: list[str] = []
    tests = ["scripts/test_a.py", "api/test_b.py"]
    found = suggest(tests, {"api/setup.py": ""}, FRAMEWORK, told.append)
    assert [one.cwd for one in found.suites] == ["api"]
    assert told == ["test files outside of every project: not in the workflow"]


def test_project_below_a_top_that_cannot_be_set_up_is_not_enough() -> None:
    texts = {"pixi.lock": "", "vendored/setup.py": ""}
    found = suggest(["test_a.py", "vendored/test_b.py"], texts, FRAMEWORK)
    assert found.unknown == {".": "pixi"}


@pytest.mark.parametrize(
    ("texts", "step", "reason"),
    [
        ({}, 'python-version: "3.12"', ""),
        ({".python-version": "3.13\n"}, 'python-version-file: ".python-version"', ""),
        (
            {"pyproject.toml": '[project]\nrequires-python = ">=3.13"'},
            'python-version: "3.13"',
            "tests run with Python 3.13: pyproject.toml requires >=3.13",
        ),
        (
            {"pyproject.toml": '[tool.poetry.dependencies]\npython = "^3.14"'},
            'python-version: "3.14"',
            "tests run with Python 3.14: pyproject.toml requires ^3.14",
        ),
        (
            {"pyproject.toml": '[project]\nrequires-python = "<3.11"'},
            'python-version: "3.10"',
            "tests run with Python 3.10: pyproject.toml requires <3.11",
        ),
        (
            {"pyproject.toml": '[project]\nrequires-python = ">=4"'},
            'python-version: "3.12"',
            "tests run with Python 3.12: pyproject.toml requires >=4",
        ),
    ],
)
def test_version_comes_from_the_project(texts: dict[str, str], step: str, reason: str) -> None:
    told: list[str] = []
    assert step in suggest(["test_a.py"], texts, FRAMEWORK, told.append).setup
    assert told == ([reason] if reason else [])
