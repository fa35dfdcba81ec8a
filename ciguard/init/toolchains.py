"""Tools that install a Python project: how each is recognised, its set-up steps, its test command.

A workflow tests with the lowest Python that the project allows: a user may have it, wheels for it
exist, and what runs there mostly runs on newer ones, not the other way round.
Pure: texts of files in, steps out. Commands and options are those of uv 0.13, Poetry 2.5, pip 25.1.
"""

from __future__ import annotations

import configparser
import contextlib
import operator
import re
import shlex
import tomllib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from ciguard.errors import InputError
from ciguard.workflow.job_templates import ACTIONS, quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ciguard.run.frameworks.base import Framework

TOP: Final = "."
PROJECT_FILE: Final = "pyproject.toml"
VERSION_FILE: Final = ".python-version"
TEST_GROUPS: Final = ("test", "tests", "testing", "dev")
# Of the words of a name, at least one is "requirements", and all are of these.
_REQUIREMENT_WORDS: Final = {"requirements", "base", *TEST_GROUPS}
_REQUIREMENT_FILE: Final = re.compile(r"[\w.-]*requirements[\w.-]*\.txt|requirements/[\w.-]+\.txt")

# Minor versions of CPython 3 with security fixes in 2026-11 (devguide.python.org/versions), then
# what older projects are left with.
SUPPORTED: Final = (11, 12, 13, 14, 15)
UNSUPPORTED: Final = (10, 9, 8)
LAST_PATCH: Final = 99  # a set-up action takes the newest patch of a minor version

_CLAUSE: Final = re.compile(r"(>=|<=|~=|==|!=|<|>|\^|~)\s*v?(\d+(?:\.\d+)*)(\.\*)?")
_PLAIN: Final = re.compile(r"3\.\d+(\.\d+)?")
_Version = tuple[int, ...]
_COMPARISONS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
    "==": operator.eq,
    "!=": operator.ne,
}


@dataclass(frozen=True, slots=True)
class Environment:
    """What makes the tests of one folder runnable.

    Attributes:
        tools: steps (YAML) that put a tool on PATH; environments may share them.
        install: shell commands, run in the folder.
        fresh_install: the same for a fresh checkout of a suspect; they write nothing outside of it.
        command: of a suite; () for the framework's own.
        args, env: of a suite, as the project's own call has them.
    """

    tools: tuple[str, ...]
    install: tuple[str, ...]
    fresh_install: tuple[str, ...]
    command: tuple[str, ...]
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Place:
    """What an environment is made for.

    Attributes:
        folder: of the project, "." for the top.
        texts: files of the project by their path in that folder.
        framework: of its tests.
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
    """Say whether pip is given the file: `dev-requirements.txt` and `requirements/test.txt` are."""
    words = set(re.split(r"[/._-]", path.removesuffix(".txt").lower()))
    return _REQUIREMENT_FILE.fullmatch(path) is not None and words <= _REQUIREMENT_WORDS


def uses_uv(texts: Mapping[str, str]) -> bool:
    return "uv.lock" in texts


def uses_poetry(texts: Mapping[str, str]) -> bool:
    return "poetry.lock" in texts or "poetry" in project_table(texts, "tool")


def project_table(texts: Mapping[str, str], *path: str) -> dict[str, Any]:
    """A table of pyproject.toml; empty where the file has none.

    Raises:
        InputError: the file is no TOML.
    """
    try:
        found: Any = tomllib.loads(texts.get(PROJECT_FILE, ""))
    except (ValueError, RecursionError) as error:
        raise InputError(f"no TOML: {error}", where=PROJECT_FILE, fix="correct the file") from error
    for name in path:
        found = found.get(name) if isinstance(found, dict) else None
    return found if isinstance(found, dict) else {}


def uv(place: Place) -> Environment:
    """An environment from uv.lock."""
    _check_lock(place, "uv.lock", "uv add --dev")
    texts, name = place.texts, place.framework.name
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
    words += [f"--group {one}" for one in groups if one not in default and default != "all"]
    words += [] if place.has_pinned_python else [f"--python {place.python}"]
    command = " ".join(words)
    tools = (f"- uses: {ACTIONS['setup_uv']}",)
    run = ("uv", "run", "--no-sync", *place.framework.default_command)
    return Environment(tools, (command,), (command,), run)


def poetry(place: Place) -> Environment:
    """An environment from poetry.lock, by the version of Poetry that wrote it."""
    if "poetry.lock" in place.texts:
        _check_lock(place, "poetry.lock", "poetry add --group test")
    settings = project_table(place.texts, "tool", "poetry")
    version = re.search(r"generated by Poetry ([\d.]+\d)", place.texts.get("poetry.lock", ""))
    package = f"poetry=={version[1]}" if version else "poetry"
    optional = {
        name: group.get("dependencies", {})
        for name, group in project_table(place.texts, "tool", "poetry", "group").items()
        if isinstance(group, dict) and group.get("optional")
    }
    declared = project_table(place.texts, "project", "optional-dependencies")
    extras = settings.get("extras") or declared
    words = ["poetry install --no-interaction"]
    words += ["--all-extras"] if extras else []
    words += (
        [f"--with {','.join(names)}"]
        if (names := _test_groups(optional, place.framework.name))
        else []
    )
    # Poetry 1 takes the Python that it was itself installed with.
    install = ("poetry env use python", " ".join(words))
    tools = (_setup_python(place), f"- run: pipx install {package}")
    return Environment(tools, install, install, ("poetry", "run", *place.framework.default_command))


def pip(place: Place) -> Environment:
    """An environment from what pip reads; a virtual one where there are others."""
    arguments = " ".join(pip_arguments(place.texts, place.framework.name))
    # Python 3.11 and 3.12 come with a pip that does not know --group.
    newer = ("install 'pip>=25.1'",) if "--group" in arguments else ()
    installs = (*newer, f"install {arguments}")
    python = ".venv/bin/python"
    fresh = ("python3 -m venv .venv", *(f"{python} -m pip {words} -q" for words in installs))
    tools = (_setup_python(place),)
    if place.is_alone:
        return Environment(tools, tuple(f"python -m pip {words}" for words in installs), fresh, ())
    install = ("python -m venv .venv", *(f"{python} -m pip {words}" for words in installs))
    return Environment(tools, install, fresh, (python, *place.framework.default_command[1:]))


# By name: what recognises a project, and what makes its environment. The first match counts.
TOOLCHAINS: Final[
    dict[str, tuple[Callable[[Mapping[str, str]], bool], Callable[[Place], Environment]]]
] = {
    "uv": (uses_uv, uv),
    "poetry": (uses_poetry, poetry),
    "pip": (lambda _: True, pip),
}


def pip_arguments(texts: Mapping[str, str], framework: str) -> list[str]:
    """What is declared, in the order of the files, and the framework where no such file names it.

    At most one extra and one group. To name the framework beside an extra that has it does no harm;
    beside files with hashes, pip refuses it.
    """
    extra = next(iter(_test_groups(_pip_extras(texts), framework)), "")
    group = next(iter(_test_groups(project_table(texts, "dependency-groups"), framework)), "")
    wanted: list[str] = []
    if "project" in project_table(texts) or "setup.py" in texts:
        wanted += ["-e", f"'.[{extra}]'" if extra else "."]
    if group:
        wanted += ["--group", group]
    files = [name for name in sorted(texts) if is_requirement_file(name)]
    for name in files:
        wanted += ["-r", name]
    return wanted if any(_names(texts[name], framework) for name in files) else [*wanted, framework]


def declares_tests(texts: Mapping[str, str], framework: str) -> bool:
    """Return whether pip finds what the tests need: an extra, a group or a file of that name."""
    groups = project_table(texts, "dependency-groups")
    files = [name for name in texts if is_requirement_file(name)]
    return (
        bool(_test_groups(_pip_extras(texts), framework) or _test_groups(groups, framework))
        or any(_names(texts[name], framework) for name in files)
        or any(word in re.split(r"[/._-]", name) for name in files for word in TEST_GROUPS)
    )


def _pip_extras(texts: Mapping[str, str]) -> Mapping[str, Any]:
    if "optional-dependencies" in project_table(texts, "project"):
        return project_table(texts, "project", "optional-dependencies")
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    with contextlib.suppress(configparser.Error):  # setuptools tells
        parser.read_string(texts.get("setup.cfg", ""))
    place = "options.extras_require"
    return (
        {name: text.splitlines() for name, text in parser.items(place)} if place in parser else {}
    )


def _test_groups(declared: Mapping[str, Any], framework: str) -> list[str]:
    """Groups or extras for tests: by their own name first, then those that have the framework."""
    named = [name for name in TEST_GROUPS if name in declared]
    having = [
        name
        for name, entries in declared.items()
        if name not in named
        and isinstance(entries, (list, dict))
        and any(_names(one, framework) for one in entries if isinstance(one, str))
    ]
    return named + having


def _names(requirements: str, package: str) -> bool:
    """Return whether a line requires a package, not one whose name only begins so."""
    return re.search(rf"(?m)^\s*{re.escape(package)}(?![\w.-])", requirements) is not None


def _check_lock(place: Place, name: str, add: str) -> None:
    package = place.framework.name
    if f'name = "{package}"' not in place.texts[name]:
        where = name if place.folder == "." else f"{place.folder}/{name}"
        raise InputError(f"has no {package}", where=where, fix=f"{add} {package}")


def _setup_python(place: Place) -> str:
    folder = "" if place.folder == "." else f"{place.folder}/"
    named = f"python-version-file: {quoted(f'{folder}{VERSION_FILE}')}"
    entry = named if place.has_pinned_python else f"python-version: {quoted(place.python)}"
    return f"- uses: {ACTIONS['setup_python']}\n  with:\n    {entry}"


def steps_of(environments: Mapping[str, Environment]) -> str:
    """YAML steps that make environments, by folder; a tool that is there is not set up again."""
    steps: list[str] = []
    current: dict[str, str] = {}
    for folder, environment in environments.items():
        for step in environment.tools:
            name = step.partition("@")[0]
            if current.get(name) != step:
                steps.append(step)
            current[name] = step
        place = "" if folder == "." else f"\n  working-directory: {quoted(folder)}"
        steps += [f"- run: {command}{place}" for command in environment.install]
    return "\n".join(steps)


def checkout_command(environments: Mapping[str, Environment]) -> str:
    """One shell command that makes a fresh checkout ready."""
    commands = []
    for folder, environment in environments.items():
        joined = " && ".join(environment.fresh_install)
        commands.append(joined if folder == "." else f"(cd {shlex.quote(folder)} && {joined})")
    return " && ".join(commands)


def lowest_allowed(specifiers: str) -> str:
    """The lowest supported version that a requires-python allows, such as "3.13".

    Args:
        specifiers: PEP 440 specifiers, or Poetry's constraint with `^`, `~` and `||`.

    Returns:
        The newest unsupported one where no supported one is allowed; "" where none is at all, or
        where the text is something else.
    """
    for minor in (*SUPPORTED, *UNSUPPORTED):
        version = (3, minor, LAST_PATCH)
        for alternative in specifiers.split("||"):
            clauses = [text.strip() for text in alternative.split(",") if text.strip()]
            if clauses and all(_is_allowed(version, clause) for clause in clauses):
                return f"3.{minor}"
    return ""


def is_supported(version: str) -> bool:
    """Return whether CPython's version gets security fixes."""
    return version in {f"3.{minor}" for minor in SUPPORTED}


def _is_allowed(version: _Version, clause: str) -> bool:
    found = _CLAUSE.fullmatch(clause)
    if found is None:
        return clause == "*"
    sign, bound = found[1], tuple(map(int, found[2].split(".")))
    if sign in _COMPARISONS:
        return _COMPARISONS[sign](version[: len(bound)] if found[3] else version, bound)
    fixed_parts = {"~=": len(bound) - 1, "^": 1, "~": min(2, len(bound))}[sign]
    return version >= bound and version[:fixed_parts] == bound[:fixed_parts]


def pinned(python_version_file: str) -> str:
    """The version in a `.python-version`; "" where it names anything but one plain CPython."""
    text = python_version_file.strip()
    return text if _PLAIN.fullmatch(text) else ""
