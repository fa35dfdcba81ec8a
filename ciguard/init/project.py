"""A first guess at a project: its test framework, and the steps that prepare a machine for it."""

from __future__ import annotations

import tomllib
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final

from ciguard.init.workflow_files import ACTIONS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

PROJECT_FILE: Final = "pyproject.toml"
REQUIREMENT_FILES: Final = (
    "requirements.txt",
    "requirements-dev.txt",
    "requirements-test.txt",
    "dev-requirements.txt",
    "test-requirements.txt",
    "requirements/dev.txt",
    "requirements/test.txt",
)
# The files whose text is looked at; of all others only the name counts.
DEPENDENCY_FILES: Final = (PROJECT_FILE, "setup.py", "setup.cfg", *REQUIREMENT_FILES)
TEST_GROUPS: Final = ("test", "tests", "testing", "dev")


def detect_framework(
    files: Iterable[str], patterns: Mapping[str, Sequence[str]]
) -> tuple[str, int]:
    """The framework that most of the files belong to, and how many; ("", 0) for none.

    Args:
        files: paths relative to the repository, with "/".
        patterns: by framework, what its test files are called; without "/", anywhere.
    """
    names = tuple(files)
    counts = {
        framework: sum(any(matches(name, wanted) for wanted in of_it) for name in names)
        for framework, of_it in patterns.items()
    }
    best = max(counts, key=lambda framework: counts[framework], default="")
    return (best, counts[best]) if best and counts[best] else ("", 0)


def matches(path: str, pattern: str) -> bool:
    return fnmatchcase(path if "/" in pattern else path.rsplit("/", 1)[-1], pattern)


def suggested_setup(texts: Mapping[str, str], framework: str, python: str) -> str:
    """YAML steps: a Python, and one pip line from what the project declares.

    Args:
        texts: content of those DEPENDENCY_FILES that exist, by name.
        framework: installed by its name where nothing that is installed names it; "" for none.
        python: version for the tests, like "3.12".
    """
    steps = f'- uses: {ACTIONS["setup_python"]}\n  with:\n    python-version: "{python}"'
    wanted = required_packages(texts, framework)
    return f"{steps}\n- run: python -m pip install {' '.join(wanted)}" if wanted else steps


def suggested_checkout(texts: Mapping[str, str], framework: str) -> str:
    """A shell command that makes a fresh checkout ready, and touches nothing outside of it."""
    wanted = required_packages(texts, framework)
    install = f" && .venv/bin/python -m pip install -q {' '.join(wanted)}" if wanted else ""
    return f"python3 -m venv .venv{install}"


def required_packages(texts: Mapping[str, str], framework: str) -> list[str]:
    """Arguments for pip: what is declared, and the framework where no requirement file names it.

    To name it beside an extra that has it does no harm; beside files with hashes, pip refuses it.
    """
    wanted = declared_requirements(texts)
    if framework and not any(framework in texts.get(name, "") for name in REQUIREMENT_FILES):
        wanted.append(framework)
    return wanted


def declared_requirements(texts: Mapping[str, str]) -> list[str]:
    """Arguments for pip, in the order of the files; at most one extra and one group."""
    project = tomllib.loads(texts.get(PROJECT_FILE, ""))
    extra = _first_group(project.get("project", {}).get("optional-dependencies", {}))
    group = _first_group(project.get("dependency-groups", {}))
    wanted: list[str] = []
    if "project" in project or "setup.py" in texts:
        wanted += ["-e", f"'.[{extra}]'" if extra else "."]
    if group:
        wanted += ["--group", group]
    for name in REQUIREMENT_FILES:
        wanted += ["-r", name] if name in texts else []
    return wanted


def _first_group(declared: Mapping[str, Any]) -> str:
    return next((name for name in TEST_GROUPS if name in declared), "")
