"""Tools that install a Python project: recognition, set-up steps and test command of each. Pure.

A workflow tests with the lowest Python that the project allows: users may have this version, wheels
for it exist, and code that runs there mostly runs on newer versions, but not conversely.
Commands and options are those of uv 0.13, Poetry 2.5, pip 25.1.
"""

from __future__ import annotations

import operator
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ciguard.errors import InputError
from ciguard.run.frameworks.base import Framework
from ciguard.workflow.job_templates import ACTIONS, quoted

TOP: Final = "."
PROJECT_FILE: Final = "pyproject.toml"
VERSION_FILE: Final = ".python-version"
TEST_GROUPS: Final = ("test", "tests", "testing", "dev")
# All words of the name of a requirements file are of these.
_REQUIREMENT_WORDS: Final = {"requirements", "base", *TEST_GROUPS}
_REQUIREMENT_FILE: Final = re.compile(r"[\w.-]*requirements[\w.-]*\.txt|requirements/[\w.-]+\.txt")

# Minor versions of CPython 3 with security fixes in 2026-11 (devguide.python.org/versions), then
# versions for older projects.
SUPPORTED: Final = (11, 12, 13, 14, 15)
UNSUPPORTED: Final = (10, 9, 8)
COREPACK_NOTE: Final = " # zizmor: ignore[adhoc-packages] Node.js 25 comes without corepack"
DEFAULT_PYTHON: Final = "3.12"  # of a project that names none

_BOUND: Final = re.compile(r"(>=|<=|~=|==|!=|<|>|\^|~)\s*v?[23](?!\d)(?:\.(\d{1,3}))?")
_PLAIN: Final = re.compile(r"3\.\d+(\.\d+)?")
_COMPARISONS: Final[Mapping[str, Callable[[int, int], bool]]] = {
    **dict.fromkeys((">=", ">", "~=", "^"), operator.ge),
    **dict.fromkeys(("==", "~"), operator.eq),
    **dict.fromkeys(("<", "<="), operator.lt),
    "!=": operator.ne,
}


@dataclass(frozen=True, slots=True)
class Environment:
    """The set-up and the command of the tests of a folder.

    Attributes:
        tools: steps (YAML) that put a tool on PATH; environments may share them.
        install: shell commands, run in the folder.
        command: of a suite; () for the framework's default.
        args, env: of a suite, from the test script of the project.
    """

    tools: tuple[str, ...]
    install: tuple[str, ...]
    command: tuple[str, ...]
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PythonProject:
    """A Python project that needs an environment for its tests.

    Attributes:
        folder: of the project, "." for the top.
        texts: files of the project by their path in the folder.
        framework: of the tests.
        python: version, such as "3.13".
        is_alone: no other project is installed on the same machine.
    """

    folder: str
    texts: Mapping[str, str]
    framework: Framework
    python: str
    is_alone: bool

    @property
    def has_pinned_python(self) -> bool:
        return bool(pinned(self.texts.get(VERSION_FILE, "")))


def is_requirement_file(path: str) -> bool:
    """Return whether pip installs from a file: `dev-requirements.txt`, `requirements/test.txt`."""
    words = set(re.split(r"[/._-]", path.removesuffix(".txt").lower()))
    return _REQUIREMENT_FILE.fullmatch(path) is not None and words <= _REQUIREMENT_WORDS


def uses_uv(texts: Mapping[str, str]) -> bool:
    return "uv.lock" in texts


def uses_poetry(texts: Mapping[str, str]) -> bool:
    return "poetry.lock" in texts or "poetry" in project_table(texts, "tool")


def project_table(texts: Mapping[str, str], *path: str) -> dict[str, Any]:
    """Return a table of pyproject.toml; empty if there is no such table.

    Raises:
        InputError: the file is no TOML.
    """
    try:
        table: Any = tomllib.loads(texts.get(PROJECT_FILE, ""))
    except (ValueError, RecursionError) as error:
        raise InputError(f"no TOML: {error}", where=PROJECT_FILE, fix="correct the file") from error
    for name in path:
        table = table.get(name) if isinstance(table, dict) else None
    return table if isinstance(table, dict) else {}


def uv(project: PythonProject) -> Environment:
    """Set up an environment from uv.lock."""
    _check_lock(project, "uv.lock", "uv add --dev")
    texts, name = project.texts, project.framework.name
    settings = project_table(texts, "tool", "uv")
    extras = project_table(texts, "project", "optional-dependencies")
    words = ["uv sync --locked"]
    words += ["--all-packages"] if "workspace" in settings else []
    if "conflicts" in settings:  # not all at once
        words += [f"--extra {extra}" for extra in _test_groups(extras, name)]
    elif extras:
        words += ["--all-extras"]
    default = settings.get("default-groups", ["dev"])
    groups = _test_groups(project_table(texts, "dependency-groups"), name)
    words += [f"--group {group}" for group in groups if group not in default and default != "all"]
    words += [] if project.has_pinned_python else [f"--python {project.python}"]
    command = " ".join(words)
    tools = (f"- uses: {ACTIONS['setup_uv']}",)
    run = ("uv", "run", "--no-sync", *project.framework.default_command)
    return Environment(tools, (command,), run)


def poetry(project: PythonProject) -> Environment:
    """Set up an environment from poetry.lock, with the version of Poetry that wrote it."""
    if "poetry.lock" in project.texts:
        _check_lock(project, "poetry.lock", "poetry add --group test")
    settings = project_table(project.texts, "tool", "poetry")
    version = re.search(r"generated by Poetry ([\d.]+\d)", project.texts.get("poetry.lock", ""))
    package = f"poetry=={version[1]}" if version else "poetry"
    optional = {
        name: group.get("dependencies", {})
        for name, group in project_table(project.texts, "tool", "poetry", "group").items()
        if isinstance(group, dict) and group.get("optional")
    }
    declared = project_table(project.texts, "project", "optional-dependencies")
    extras = settings.get("extras") or declared
    words = ["poetry install --no-interaction"]
    words += ["--all-extras"] if extras else []
    groups = _test_groups(optional, project.framework.name)
    words += [f"--with {','.join(groups)}"] if groups else []
    # Poetry 1 uses the Python with which it was installed itself.
    install = (f"poetry env use python && {' '.join(words)}",)
    tools = (_setup_python(project), f"- run: pipx install {package}")
    command = ("poetry", "run", *project.framework.default_command)
    return Environment(tools, install, command)


def pip(project: PythonProject) -> Environment:
    """Set up an environment by pip; a virtual environment if there are other projects."""
    arguments = " ".join(pip_arguments(project.texts, project.framework.name))
    # Python 3.11 and 3.12 come with a pip that does not know --group.
    newer = ("install 'pip>=25.1'",) if "--group" in arguments else ()
    installs = (*newer, f"install {arguments}")
    python = ".venv/bin/python"
    tools = (_setup_python(project),)
    if project.is_alone:
        return Environment(tools, tuple(f"python -m pip {words}" for words in installs), ())
    install = ("python -m venv .venv", *(f"{python} -m pip {words}" for words in installs))
    return Environment(tools, install, (python, *project.framework.default_command[1:]))


# Name -> (recognises a project, makes its environment). The first match counts.
TOOLCHAINS: Final[
    dict[str, tuple[Callable[[Mapping[str, str]], bool], Callable[[PythonProject], Environment]]]
] = {
    "uv": (uses_uv, uv),
    "poetry": (uses_poetry, poetry),
    "pip": (lambda _: True, pip),
}


def pip_arguments(texts: Mapping[str, str], framework: str) -> list[str]:
    """Return the declared requirements, and the framework unless a requirements file names it.

    At most one extra and one group. The framework may repeat a requirement of an extra; beside
    files with hashes, pip refuses it.
    """
    extras = project_table(texts, "project", "optional-dependencies")
    extra = next(iter(_test_groups(extras, framework)), "")
    group = next(iter(_test_groups(project_table(texts, "dependency-groups"), framework)), "")
    arguments: list[str] = []
    if "project" in project_table(texts) or "setup.py" in texts:
        arguments += ["-e", f"'.[{extra}]'" if extra else "."]
    if group:
        arguments += ["--group", group]
    files = [name for name in sorted(texts) if is_requirement_file(name)]
    for name in files:
        arguments += ["-r", name]
    is_named = any(_names(texts[name], framework) for name in files)
    return arguments if is_named else [*arguments, framework]


def declares_tests(texts: Mapping[str, str], framework: str) -> bool:
    """Return whether pip finds the requirements of the tests: an extra, a group or a file."""
    extras = project_table(texts, "project", "optional-dependencies")
    groups = project_table(texts, "dependency-groups")
    files = [name for name in texts if is_requirement_file(name)]
    return (
        bool(_test_groups(extras, framework) or _test_groups(groups, framework))
        or any(_names(texts[name], framework) for name in files)
        or any(word in re.split(r"[/._-]", name) for name in files for word in TEST_GROUPS)
    )


def _test_groups(declared: Mapping[str, Any], framework: str) -> list[str]:
    """Return groups or extras for tests: first by their name, then those with the framework."""
    by_name = [name for name in TEST_GROUPS if name in declared]
    by_framework = [
        name
        for name, entries in declared.items()
        if name not in by_name
        and isinstance(entries, (list, dict))
        and any(_names(entry, framework) for entry in entries if isinstance(entry, str))
    ]
    return by_name + by_framework


def _names(requirements: str, package: str) -> bool:
    """Return whether a line requires a package; a longer name with this prefix is another one."""
    return re.search(rf"(?m)^\s*{re.escape(package)}(?![\w.-])", requirements) is not None


def _check_lock(project: PythonProject, name: str, add: str) -> None:
    package = project.framework.name
    if f'name = "{package}"' not in project.texts[name]:
        where = name if project.folder == "." else f"{project.folder}/{name}"
        raise InputError(f"has no {package}", where=where, fix=f"{add} {package}")


def _setup_python(project: PythonProject) -> str:
    folder = "" if project.folder == "." else f"{project.folder}/"
    version_file = f"python-version-file: {quoted(f'{folder}{VERSION_FILE}')}"
    version = f"python-version: {quoted(project.python)}"
    entry = version_file if project.has_pinned_python else version
    return f"- uses: {ACTIONS['setup_python']}\n  with: {{{entry}}}"


def steps_of(environments: Iterable[tuple[str, Environment]]) -> str:
    """Return YAML steps that make environments of folders; each tool is set up once."""
    steps: list[str] = []
    current: dict[str, str] = {}
    for folder, environment in environments:
        for step in environment.tools:
            name = step.partition("@")[0]
            if current.get(name) != step:
                steps.append(step)
            current[name] = step
        folder_key = "" if folder == "." else f"\n  working-directory: {quoted(folder)}"
        for command in environment.install:
            note = COREPACK_NOTE if "--global corepack" in command else ""
            step = f"- run: {command}{note}{folder_key}"
            steps += [] if step in steps else [step]
    return "\n".join(steps)


def lowest_allowed(specifiers: str) -> str:
    """Return the lowest supported version that a requires-python allows, such as "3.13".

    Only bounds of minor versions count.

    Args:
        specifiers: PEP 440 specifiers, or Poetry's constraint with `^`, `~` and `||`.

    Returns:
        The newest unsupported version if no supported one is allowed; "" if no version is allowed,
        or if the text is no specifier.
    """
    for minor in (*SUPPORTED, *UNSUPPORTED):
        for alternative in specifiers.split("||"):
            bounds = _BOUND.findall(alternative.strip().replace("*", ">=3"))
            if bounds and all(_COMPARISONS[sign](minor, int(bound or 0)) for sign, bound in bounds):
                return f"3.{minor}"
    return ""


def pinned(python_version_file: str) -> str:
    """Return the version in a `.python-version`; "" unless it is one version of CPython."""
    text = python_version_file.strip()
    return text if _PLAIN.fullmatch(text) else ""
