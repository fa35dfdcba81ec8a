"""The first guess: which framework, and what to install before the tests."""

from __future__ import annotations

import pytest
import yaml

from ciguard.init.project import detect_framework, matches, suggested_setup

PATTERNS = {"unitary": ("check_*.py",), "spinner": ("*.spin", "specs/*.txt"), "command": ()}


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (["check_a.py", "deep/down/check_b.py", "setup.py"], ("unitary", 2)),
        (["check_a.py", "x.spin", "specs/a.txt"], ("spinner", 2)),
        (["README.md"], ("", 0)),
        ([], ("", 0)),
    ],
)
def test_framework_with_most_files_is_detected(files: list[str], expected: tuple[str, int]) -> None:
    assert detect_framework(files, PATTERNS) == expected


def test_no_framework_is_detected_without_patterns() -> None:
    assert detect_framework(["a"], {}) == ("", 0)


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


PYPROJECT = """
[project]
name = "x"
optional-dependencies = {docs = ["sphinx"], test = ["unitary"]}
[dependency-groups]
dev = ["ruff"]
"""


@pytest.mark.parametrize(
    ("texts", "installed"),
    [
        ({}, "unitary"),
        ({"requirements.txt": "unitary==1\n"}, "-r requirements.txt"),
        ({"requirements-dev.txt": "x"}, "-r requirements-dev.txt unitary"),
        ({"pyproject.toml": PYPROJECT}, "-e '.[test]' --group dev unitary"),
        ({"pyproject.toml": "[tool.x]"}, "unitary"),
        ({"setup.py": "setup()"}, "-e . unitary"),
        # What configures the framework does not install it.
        ({"setup.py": "setup(tests_require=['unitary'])"}, "-e . unitary"),
        ({"pyproject.toml": "[project]\n[tool.unitary.options]\nx = 1"}, "-e . unitary"),
        ({"setup.py": "setup()", "setup.cfg": "[tool:unitary]\nx = 1"}, "-e . unitary"),
        ({"pyproject.toml": PYPROJECT.replace("test =", "qa =")}, "-e . --group dev unitary"),
    ],
)
def test_suggested_setup_installs_the_declared_dependencies(
    texts: dict[str, str], installed: str
) -> None:
    python, install = yaml.safe_load(suggested_setup(texts, "unitary", "3.11"))
    assert python["with"] == {"python-version": "3.11"}
    assert install == {"run": f"python -m pip install {installed}"}


def test_no_install_step_without_dependencies() -> None:
    assert len(yaml.safe_load(suggested_setup({}, "", "3.11"))) == 1
