"""Tools and languages that `ciguard init` cannot set up, and its message about them. Pure.

A generated workflow with them was never executed, so none is written. A job of the user's own
workflow that runs the tests by these tools can be moved.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ciguard.errors import InputError
from ciguard.init.toolchains import declares_tests, project_table, uses_poetry, uses_uv
from ciguard.run.frameworks.base import Framework
from ciguard.text import name_some
from ciguard.workflow.job_templates import quoted


@dataclass(frozen=True, slots=True)
class PythonTool:
    """A tool that makes the environment of a test framework.

    Attributes:
        files: each of them shows the tool, as does [tool.`table`] of pyproject.toml.
            [tool.hatch] alone may configure the build backend, which runs no tests.
        has_lock: pip would install other versions than the locked ones.
    """

    files: tuple[str, ...]
    table: str = ""
    has_lock: bool = False


PYTHON_TOOLS: Final = {
    "pdm": PythonTool(("pdm.lock",), has_lock=True),
    "pixi": PythonTool(("pixi.lock",), has_lock=True),
    "pipenv": PythonTool(("Pipfile.lock",), has_lock=True),
    "conda": PythonTool(("environment.yml", "environment.yaml")),
    "hatch": PythonTool(("hatch.toml",), "hatch.envs"),
    "nox": PythonTool(("noxfile.py",)),
    "tox": PythonTool(("tox.ini",), "tox"),
}
# Project files of other languages, by the end of their names.
LANGUAGES: Final = {
    "package.json": "Node.js",
    "go.mod": "Go",
    "pom.xml": "Maven",
    "build.gradle": "Gradle",
    "build.gradle.kts": "Gradle",
    ".sln": ".NET",
    ".slnx": ".NET",
    ".csproj": ".NET",
    "Cargo.toml": "Cargo",
    "CMakeLists.txt": "CMake",
    "Gemfile": "Ruby",
    "composer.json": "PHP",
}
NODE_FRAMEWORKS: Final = ("vitest", "jest", "mocha", "ava", "@playwright/test", "cypress", "borp")
MAX_NAMED: Final = 3  # projects in a message
NODE_LOCKS: Final = ("pnpm-lock.yaml", "yarn.lock", "package-lock.json", "npm-shrinkwrap.json")
BUN_LOCKS: Final = ("bun.lock", "bun.lockb")
OWN_JOB: Final = (
    "write a workflow whose job runs the tests, and run ciguard init: it shards the job"
)


def python_tool(texts: Mapping[str, str], framework: str) -> str:
    """Return the tool that a project requires; "" if uv, Poetry or pip can set up the project."""
    if uses_uv(texts) or uses_poetry(texts):
        return ""
    hatch = project_table(texts, "tool", "hatch")
    tables = {**project_table(texts, "tool"), **{f"hatch.{name}": hatch[name] for name in hatch}}
    for name, tool in PYTHON_TOOLS.items():
        is_used = tool.table in tables or any(file in texts for file in tool.files)
        if is_used and (tool.has_lock or not declares_tests(texts, framework)):
            return name
    return ""


def no_suite(
    framework: Framework, unknown: Mapping[str, str], texts: Mapping[str, str], files: Iterable[str]
) -> InputError:
    """Return the error for a repository without a suite.

    Args:
        framework: the framework that was searched for.
        unknown: tool of Python, by the folder of its tests.
        texts: content of each package.json by path.
        files: all files of the repository.
    """
    projects_found = [f"{tool} (in {folder})" for folder, tool in unknown.items()]
    projects = other_projects(files, texts)
    projects_found += [f"{path} ({described})" for path, described in projects.items()]
    patterns = " and ".join(framework.file_patterns)
    what = (
        f"no tests that ciguard init can set up; looked for {patterns} with uv.lock, poetry.lock "
        f"or what pip installs; found {first_of(projects_found) or 'no project at all'}"
    )
    fix = f"{OWN_JOB}. Or name commands in ciguard.toml:\n\n"
    return InputError(what, fix=fix + _command_snippet(next(iter(projects), "")))


def first_of(names: Sequence[str]) -> str:
    """Join the first names, with the number of the others."""
    return name_some(names, str, MAX_NAMED)


def is_bun_project(folder: str, files: Collection[str]) -> bool:
    """Return whether Bun installs the packages of a folder; `npm install` would ignore its lock."""
    start = "" if folder in ("", ".") else f"{folder}/"
    locks = [name for name in (*NODE_LOCKS, *BUN_LOCKS) if f"{start}{name}" in files]
    if not locks and start:
        return is_bun_project("", files)
    return bool(locks) and locks[0] in BUN_LOCKS


def other_projects(files: Iterable[str], texts: Mapping[str, str]) -> dict[str, str]:
    """Return the project files of other languages, the top first, with language and framework."""
    projects, files = {}, frozenset(files)
    for path in sorted(files, key=lambda path: (path.count("/"), path)):
        name = path.rpartition("/")[2]
        for end, language in LANGUAGES.items():
            if name == end or (end.startswith(".") and name.endswith(end)):
                text = texts.get(path, "")
                frameworks = [tool for tool in NODE_FRAMEWORKS if f'"{tool}"' in text]
                is_bun = name == "package.json" and is_bun_project(path.rpartition("/")[0], files)
                projects[path] = " with ".join(["Bun" if is_bun else language, *frameworks[:1]])
    return projects


def _command_snippet(path: str) -> str:
    """Return a suite of another language; the user adds two commands."""
    return f"""[suite.main]
framework = "command"
cwd = {quoted(path.rpartition("/")[0] or ".")}
list = ["./list-tests"]                    # missing: prints one test per line
command = ["./run-tests", "{{units_file}}"]  # missing: runs the tests that the file lists
results = ["reports/**/*.xml"]             # result files that it writes: JUnit, TRX, JSON, ...
timeout = "10m"
"""
