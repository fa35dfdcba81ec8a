"""Suites for the projects of other languages than Python. Pure: names and texts of files in."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ciguard.init.languages import RECIPES, ProjectFolder, Recipe
from ciguard.init.project import INNER_FOLDERS, Suggestion, matches
from ciguard.init.toolchains import TOP, Environment, checkout_command, steps_of
from ciguard.init.workflow_files import StarterSuite
from ciguard.text import count_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from ciguard.run.frameworks.base import Framework


def suggest_languages(
    files: Sequence[str],
    texts: Mapping[str, str],
    frameworks: Mapping[str, Framework],
    notify: Callable[[str], None],
) -> tuple[Suggestion, frozenset[str]]:
    """A suite for each project that names a framework and has tests of it; and the project files.

    A project inside of another one of the same framework belongs to that one.

    Args:
        files: of the repository.
        texts: of project files, by path.
        frameworks: adapters, by name.
        notify: gets what was found.
    """
    suites: list[StarterSuite] = []
    environments: dict[str, Environment] = {}
    taken: dict[tuple[str, str], str] = {}  # by project file and kind, the framework
    homes: set[tuple[str, str]] = set()
    there = frozenset(files)
    paths = sorted(texts, key=lambda path: (path.count("/"), path))
    for recipe in (one for one in RECIPES if one.framework in frameworks):
        patterns = frameworks[recipe.framework].file_patterns
        for path in paths:
            folder, _, name = path.rpartition("/")
            project = ProjectFolder(folder or TOP, there, texts[path])
            kind = recipe.kind or recipe.framework
            inner = INNER_FOLDERS & set(folder.split("/"))
            if name != recipe.project_file or inner or not recipe.named.search(project.text):
                continue
            if (path, kind) in taken or _is_inside(project.path, recipe.framework, homes):
                continue
            count = _count_tests(project, patterns)
            shown = project.has(recipe.shown_by) if recipe.shown_by else count
            if not shown:
                continue
            taken[path, kind] = recipe.framework
            homes.add((recipe.framework, project.path))
            environment = recipe.environment(project)
            environments[project.path] = _both(environments.get(project.path), environment)
            suites.append(_suite(recipe, project, environment))
            where = "" if project.path == TOP else f" below {project.path}"
            notify(f"{recipe.framework}: {recipe.shown_by or count_of(count, 'test file')}{where}")
    found = Suggestion(
        steps_of(environments), checkout_command(environments), _with_unique_names(suites), {}
    )
    return found, frozenset(path for path, _ in taken)


def _is_inside(path: str, framework: str, homes: Collection[tuple[str, str]]) -> bool:
    return any(
        name == framework and (home == TOP or f"{path}/".startswith(f"{home}/"))
        for name, home in homes
    )


def _count_tests(project: ProjectFolder, patterns: Iterable[str]) -> int:
    wanted = tuple(patterns)
    inside = (path for path in project.files if path.startswith(project.start))
    return sum(any(matches(path, one) for one in wanted) for path in inside)


def _both(one: Environment | None, other: Environment) -> Environment:
    """What two frameworks of one folder need, once."""
    if one is None:
        return other
    return Environment(
        tools=tuple(dict.fromkeys((*one.tools, *other.tools))),
        install=tuple(dict.fromkeys((*one.install, *other.install))),
        fresh_install=tuple(dict.fromkeys((*one.fresh_install, *other.fresh_install))),
        command=(),
    )


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
    """The framework's name; of several suites of it, with the folder."""
    names = [one.name for one in suites]
    return tuple(
        one
        if names.count(one.name) == 1
        else replace(one, name=f"{one.name}-{one.cwd.replace('/', '-') or 'top'}")
        for one in suites
    )


def joined(*suggestions: Suggestion) -> Suggestion:
    """One configuration of several: Python's first."""
    return Suggestion(
        setup="\n".join(one.setup for one in suggestions if one.setup),
        checkout=" && ".join(one.checkout for one in suggestions if one.checkout),
        suites=tuple(suite for one in suggestions for suite in one.suites),
        unknown={path: tool for one in suggestions for path, tool in one.unknown.items()},
    )
