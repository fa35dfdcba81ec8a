"""Tools without a generated workflow, and the snippet that `ciguard init` prints for them. Pure.

The Python tools of this table can install a framework that ciguard runs, but no generated workflow
with them was ever executed, so none is written.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ciguard.errors import InputError
from ciguard.init.languages import ProjectFolder, go, node
from ciguard.init.toolchains import (
    TOP,
    declares_tests,
    project_table,
    steps_of,
    uses_poetry,
    uses_uv,
)
from ciguard.workflow.job_templates import ACTIONS, quoted

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from ciguard.run.frameworks.base import Framework


@dataclass(frozen=True, slots=True)
class PythonTool:
    """A tool that makes the environment of a test framework.

    Attributes:
        files: each of them shows the tool, as does [tool.`table`] of pyproject.toml.
            [tool.hatch] alone may configure the build backend, which runs no tests.
        install: command of a step.
        prefix: of the framework's command; the whole command if the prefix ends with "--".
        has_lock: pip would install other versions than the locked ones.
    """

    files: tuple[str, ...]
    table: str
    install: str
    prefix: tuple[str, ...]
    has_lock: bool = False
    env: tuple[tuple[str, str], ...] = ()


CONDA: Final = ("conda", "run", "--no-capture-output", "--name", "test")
TOX_PASSES: Final = "testenv.pass_env+=PYTHONPATH,CIGUARD_*"
PYTHON_TOOLS: Final = {
    "pdm": PythonTool(
        ("pdm.lock",), "", "pipx install pdm && pdm sync -G :all", ("pdm", "run"), has_lock=True
    ),
    "pixi": PythonTool(("pixi.lock",), "", "pixi install --locked", ("pixi", "run"), has_lock=True),
    "pipenv": PythonTool(
        ("Pipfile.lock",),
        "",
        "pipx install pipenv && pipenv sync --dev",
        ("pipenv", "run"),
        has_lock=True,
    ),
    "conda": PythonTool(
        ("environment.yml", "environment.yaml"),
        "",
        "conda env create --name test --file environment.yml",
        CONDA,
    ),
    "hatch": PythonTool(
        ("hatch.toml",), "hatch.envs", "pipx install hatch", ("hatch", "test", "--")
    ),
    "nox": PythonTool(("noxfile.py",), "", "pipx install nox", ("nox", "-s", "test", "--")),
    "tox": PythonTool(
        ("tox.ini",),
        "tox",
        "pipx install tox",
        ("tox", "-e", "py", "--"),
        env=(("TOX_OVERRIDE", TOX_PASSES),),
    ),
}
# Project files of other languages, by the end of their names.
LANGUAGES: Final = {
    "package.json": "Node.js",
    "go.mod": "Go",
    "pom.xml": "Maven",
    "build.gradle": "Gradle",
    "build.gradle.kts": "Gradle",
    ".sln": ".NET",
    ".csproj": ".NET",
    "Cargo.toml": "Cargo",
    "CMakeLists.txt": "CMake",
    "Gemfile": "Ruby",
    "composer.json": "PHP",
}
NODE_FRAMEWORKS: Final = ("vitest", "jest", "mocha", "ava", "@playwright/test", "cypress")
NODE_TEST: Final = re.compile(r"\bnode\b[^\"]* --test\b")


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
    """Return the error for a repository without a suite, with a snippet for ciguard.toml.

    Args:
        framework: the framework that was searched for.
        unknown: tool of Python, by the folder of its tests.
        texts: content of each package.json by path.
        files: all files of the repository.
    """
    names = set(files)
    projects_found = [f"{tool} (in {folder})" for folder, tool in unknown.items()]
    projects = other_projects(names, texts)
    projects_found += [f"{path} ({described})" for path, described in projects.items()]
    patterns = " and ".join(framework.file_patterns)
    what = (
        f"no tests that ciguard init can set up; looked for {patterns} with uv.lock, poetry.lock "
        f"or what pip installs; found {', '.join(projects_found) or 'no project at all'}"
    )
    if unknown:
        snippet = _python_snippet(next(iter(unknown.values())), framework)
        hint = "this may work (nobody has tried it)"
    else:
        path = next(iter(projects), "")
        snippet = _command_snippet(path, names, texts.get(path, ""))
        hint = "name the commands that list and run the tests, and the result files"
    fix = f"{hint}; put it into ciguard.toml and run ciguard init again:\n\n{snippet}"
    return InputError(what, fix=fix)


def other_projects(files: Iterable[str], texts: Mapping[str, str]) -> dict[str, str]:
    """Return the project files of other languages, the top first, with language and framework."""
    projects = {}
    for path in sorted(files, key=lambda path: (path.count("/"), path)):
        name = path.rpartition("/")[2]
        for end, language in LANGUAGES.items():
            if name == end or (end.startswith(".") and name.endswith(end)):
                text = texts.get(path, "")
                frameworks = [tool for tool in NODE_FRAMEWORKS if f'"{tool}"' in text]
                if NODE_TEST.search(text):
                    frameworks = ["node --test, for which ciguard has no adapter"]
                projects[path] = " with ".join([language, *frameworks[:1]])
    return projects


def _python_snippet(name: str, framework: Framework) -> str:
    tool = PYTHON_TOOLS[name]
    command = (*tool.prefix, *(() if tool.prefix[-1] == "--" else framework.default_command))
    step = f'- uses: {ACTIONS["setup_python"]}\n  with:\n    python-version: "3.12"'
    env = "".join(f"\nenv = {{ {key} = {quoted(text)} }}" for key, text in tool.env)
    suite = f'[suite.""]\ncommand = {quoted(command)}{env}\ntimeout = "10m"\n'
    return f"[workflow]\nsetup = '''\n{step}\n- run: {tool.install}\n'''\n\n{suite}"


def _command_snippet(path: str, files: Collection[str], package_json: str) -> str:
    """Return a suite of another language with its set-up; the user adds two commands."""
    folder = path.rpartition("/")[0]
    setup = _setup(path, folder, files, package_json)
    shown = f"[workflow]\nsetup = '''\n{setup}\n'''\n\n" if setup else ""
    return f"""{shown}[suite.main]
framework = "command"
cwd = {quoted(folder or ".")}
list = ["./list-tests"]                    # missing: prints one test per line
command = ["./run-tests", "{{units_file}}"]  # missing: runs the tests that the file lists
results = ["reports/**/*.xml"]             # result files that it writes: JUnit, TRX, JSON, ...
timeout = "10m"
"""


def _setup(path: str, folder: str, files: Collection[str], package_json: str) -> str:
    """Return steps for Node.js or Go in the project's version; "" for other languages."""
    start = f"{folder}/" if folder else ""
    project = ProjectFolder(folder or TOP, files, package_json)
    if path == f"{start}go.mod":
        return steps_of({project.path: go(project)})
    return steps_of({project.path: node(project)}) if path == f"{start}package.json" else ""
