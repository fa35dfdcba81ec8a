"""Suggestion of a configuration: the projects of a repository, their suites and set-up steps. Pure.

The input is names and texts of files. A monorepo has a suite and an environment for each project.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Final

from ciguard.errors import InputError
from ciguard.init.languages import PROJECT_FILES, RECIPES, ProjectFolder, Recipe
from ciguard.init.other_tools import PYTHON_TOOLS, is_bun_project, python_tool
from ciguard.init.toolchains import (
    DEFAULT_PYTHON,
    PROJECT_FILE,
    TOOLCHAINS,
    TOP,
    VERSION_FILE,
    Environment,
    PythonProject,
    is_requirement_file,
    lowest_allowed,
    pinned,
    project_table,
    steps_of,
)
from ciguard.init.workflow_files import StarterSuite
from ciguard.run.frameworks.base import Framework
from ciguard.text import count_of

# The files whose text is read; of all other files, only the name is used.
DEPENDENCY_FILES: Final = (
    *(PROJECT_FILE, "setup.py", "setup.cfg", "uv.lock", "poetry.lock", VERSION_FILE),
    *(name for tool in PYTHON_TOOLS.values() for name in tool.files),
    *PROJECT_FILES,
)
TEST_FOLDERS: Final = frozenset({"test", "tests", "testing"})
# A folder of this name, and each folder below it, is part of the project around it.
INNER_FOLDERS: Final = TEST_FOLDERS | {
    *("requirements", "docs", "doc", "examples", "samples"),
    *("fixtures", "templates", "vendor", "third_party"),
}


@dataclass(frozen=True, slots=True)
class Suggestion:
    """The suggested configuration of a repository.

    Attributes:
        setup: YAML steps; "" for none.
        suites: ordered by the path of their folders; empty if no project's tests can run.
        unknown: folders whose tests need a tool without a set-up here, with the tool's name.
    """

    setup: str
    suites: tuple[StarterSuite, ...]
    unknown: Mapping[str, str]


def files_of(framework: Framework, files: Iterable[str]) -> list[str]:
    """Return the test files of a framework; a pattern without "/" fits in any folder."""
    globs = framework.file_patterns
    return [path for path in files if any(matches(path, glob) for glob in globs)]


def matches(path: str, pattern: str) -> bool:
    return fnmatchcase(path if "/" in pattern else path.rsplit("/", 1)[-1], pattern)


def is_dependency_file(path: str) -> bool:
    """Return whether a file's text shows dependencies."""
    folder, name = _split(path)
    below = f"{folder.rpartition('/')[2]}/{name}"
    is_project_file = any(fnmatchcase(name, pattern) for pattern in DEPENDENCY_FILES)
    return is_project_file or is_requirement_file(name) or is_requirement_file(below)


def _split(path: str) -> tuple[str, str]:
    folder, _, name = path.rpartition("/")
    return folder or TOP, name


def suggest(
    test_files: Iterable[str],
    texts: Mapping[str, str],
    framework: Framework,
    notify: Callable[[str], None] = lambda _: None,
) -> Suggestion:
    """Suggest suites and set-up for the Python projects that have tests.

    Args:
        texts: content of dependency files by their path in the repository.
        framework: of the test files.
        notify: receives the reason for a version.

    Raises:
        InputError: a lock file lacks the framework.
    """
    projects = _texts_by_project(texts)
    tested = {_project_of(path, projects) for path in test_files}
    is_project = _is_project(projects[TOP]) or python_tool(projects[TOP], framework.name)
    if len(tested) > 1 and TOP in tested and not is_project:
        tested.remove(TOP)
        notify("test files outside of every project: not in the workflow")
    unknown: dict[str, str] = {}
    homes: dict[str, str] = {}  # folder with tests -> folder of its environment
    for folder in sorted(tested):
        home = _workspace_of(folder, projects)
        if tool := python_tool(projects.get(home, {}), framework.name):
            unknown[folder] = tool
        else:
            homes[folder] = home
    environments: dict[str, Environment] = {}
    for home in sorted(set(homes.values())):
        home_texts = projects.get(home, {})
        version = _choose_python(home_texts, home, notify)
        is_alone = len(set(homes.values())) == 1
        project = PythonProject(home, home_texts, framework, version, is_alone)
        set_up = next(set_up for fits, set_up in TOOLCHAINS.values() if fits(home_texts))
        environments[home] = set_up(project)
    names = _suite_names(homes)
    suites = tuple(
        StarterSuite(
            name=names[folder],
            cwd="" if folder == TOP else folder,
            command=environments[home].command,
            args=tuple(map(framework.ignore_folder.format, _below(folder, tested))),
        )
        for folder, home in homes.items()
    )
    return Suggestion(steps_of(environments.items()), suites, unknown)


def _texts_by_project(texts: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Return the dependency files of each project by their path in its folder; also for the top."""
    folders: dict[str, dict[str, str]] = {TOP: {}}
    for path, text in sorted(texts.items()):
        folder, name = _split(path)
        parent, last = _split(folder)
        if last == "requirements":
            folder, name = parent, f"{last}/{name}"
        if not INNER_FOLDERS & set(folder.split("/")):
            folders.setdefault(folder, {})[name] = text
    return {name: files for name, files in folders.items() if name == TOP or _is_project(files)}


def _is_project(texts: Mapping[str, str]) -> bool:
    """Return whether the files declare a project: a pyproject.toml may only configure a linter."""
    try:
        content = project_table(texts)
    except InputError:
        return False  # a sample; a malformed file of the top folder is refused later
    return (
        "project" in content
        or "poetry" in project_table(texts, "tool")
        or any(name in texts for name in ("setup.py", "uv.lock", "poetry.lock"))
        or any(is_requirement_file(name) for name in texts)
    )


def _project_of(path: str, projects: Collection[str]) -> str:
    folder = _split(path)[0]
    while folder not in projects and folder != TOP:
        folder = _split(folder)[0]
    return folder


def _workspace_of(folder: str, projects: Mapping[str, Mapping[str, str]]) -> str:
    """Return the folder whose uv.lock locks a folder: that of its workspace, otherwise its own.

    uv ignores the uv.lock of a member: `uv sync` there changes the workspace's environment.
    """
    above = folder
    while above != TOP:
        above = _split(above)[0]
        texts = projects.get(above, {})
        workspace = project_table(texts, "tool", "uv", "workspace")
        name = folder if above == TOP else folder.removeprefix(f"{above}/")
        is_member = any(fnmatchcase(name, pattern) for pattern in workspace.get("members", ()))
        is_excluded = any(fnmatchcase(name, pattern) for pattern in workspace.get("exclude", ()))
        if "uv.lock" in texts and is_member and not is_excluded:
            return above
    return folder


def _below(folder: str, folders: Iterable[str]) -> list[str]:
    """Return the folders below a folder, relative to it."""
    start = "" if folder == TOP else f"{folder}/"
    below = (name for name in folders if name not in (folder, TOP) and name.startswith(start))
    return [name.removeprefix(start) for name in sorted(below)]


def _suite_names(folders: Iterable[str]) -> dict[str, str]:
    """Name each suite by the last part of its folder if that is unique, otherwise by the path."""
    listed = tuple(folders)
    last = Counter(_split(folder)[1] for folder in listed)
    return {
        folder: name if last[name := _split(folder)[1]] == 1 else folder.replace("/", "-")
        for folder in listed
        if folder != TOP
    } | {TOP: ""}


def _choose_python(texts: Mapping[str, str], folder: str, notify: Callable[[str], None]) -> str:
    if version := pinned(texts.get(VERSION_FILE, "")):
        return version
    poetry = project_table(texts, "tool", "poetry", "dependencies")
    project = project_table(texts, "project")
    specifiers = str(project.get("requires-python") or poetry.get("python", ""))
    version = lowest_allowed(specifiers) or DEFAULT_PYTHON
    if specifiers:
        where = PROJECT_FILE if folder == TOP else f"{folder}/{PROJECT_FILE}"
        notify(f"tests run with Python {version}: {where} requires {specifiers}")
    return version


def suggest_languages(
    files: Sequence[str],
    texts: Mapping[str, str],
    frameworks: Mapping[str, Framework],
    notify: Callable[[str], None],
) -> tuple[Suggestion, frozenset[str]]:
    """Suggest a suite for each project that names a framework and has tests; with project files.

    A project inside another project of the same framework belongs to the outer project.

    Args:
        files: of the repository.
        texts: of project files, by path.
        frameworks: adapters, by name.
        notify: receives the frameworks with the number of test files.
    """
    suites: list[StarterSuite] = []
    environments: list[tuple[str, Environment]] = []
    used: set[tuple[str, str]] = set()  # project file and kind
    homes: set[tuple[str, str]] = set()
    all_files = frozenset(files)
    # In a folder, the shortest name first: Shop.sln before Shop.Mobile.sln.
    paths = sorted(texts, key=lambda path: (path.count("/"), _split(path)[0], len(path), path))
    for recipe in (recipe for recipe in RECIPES if recipe.framework in frameworks):
        for path in paths:
            folder, _, name = path.rpartition("/")
            project = ProjectFolder(folder or TOP, all_files, texts[path], name)
            kind = recipe.kind or recipe.framework
            allowed = TEST_FOLDERS if recipe.in_tests else set()
            inner = (INNER_FOLDERS - allowed) & set(folder.split("/"))
            is_named = fnmatchcase(name, recipe.project_file)
            if not is_named or inner or not recipe.mention.search(project.text):
                continue
            if name == "package.json" and is_bun_project(folder, all_files):
                continue
            is_inside = any(
                framework == recipe.framework and project.start.startswith(start)
                for framework, start in homes
            )
            if (path, kind) in used or is_inside:
                continue
            inside = {path for path in project.files if path.startswith(project.start)}
            count = len(files_of(frameworks[recipe.framework], inside))
            shown_by = name if recipe.shown_by == recipe.project_file else recipe.shown_by
            if not (project.has(shown_by) if shown_by else count):
                continue
            used.add((path, kind))
            homes.add((recipe.framework, "" if recipe.is_only else project.start))
            environment = recipe.environment(project)
            environments.append((project.path, environment))
            suites.append(_suite(recipe, project, environment))
            where = "" if project.path == TOP else f" below {project.path}"
            notify(f"{recipe.framework}: {shown_by or count_of(count, 'test file')}{where}")
    suggestion = Suggestion(steps_of(environments), _with_unique_names(suites), {})
    return suggestion, frozenset(path for path, _ in used)


def _suite(recipe: Recipe, project: ProjectFolder, environment: Environment) -> StarterSuite:
    return StarterSuite(
        name=recipe.framework,
        framework=recipe.framework,
        cwd="" if project.path == TOP else project.path,
        command=environment.command,
        args=(*environment.args, *recipe.args),
        env=environment.env,
    )


def _with_unique_names(suites: Sequence[StarterSuite]) -> tuple[StarterSuite, ...]:
    """Name each suite by its framework; several suites of a framework also by their folders."""
    names = [suite.name for suite in suites]
    return tuple(
        suite
        if names.count(suite.name) == 1
        else replace(suite, name=f"{suite.name}-{suite.cwd.replace('/', '-') or 'top'}")
        for suite in suites
    )


def join_suggestions(first: Suggestion, second: Suggestion) -> Suggestion:
    """Join two suggestions to one configuration, in this order."""
    return Suggestion(
        setup="\n".join(filter(None, (first.setup, second.setup))),
        suites=(*first.suites, *second.suites),
        unknown={**first.unknown, **second.unknown},
    )
