"""What is there: units by the framework's own listing, run as a leg runs it, and test files."""

from __future__ import annotations

import fnmatch
import os
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ciguard.codec.inventory_file import InventoryUnit
from ciguard.errors import CiguardError, InputError, combine
from ciguard.model.service_address import REQUEST_TOKEN, REQUEST_URL
from ciguard.run.frameworks.listing import list_units
from ciguard.run.frameworks.registry import framework
from ciguard.run.plugin_files import extract_plugins
from ciguard.text import one_line

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ciguard.model import Suite
    from ciguard.run.frameworks.base import Framework, Listing

# By which a job speaks to GitHub or a service: a pull request's code, which runs here, may not. The
# generated plan job has none of them, as a program could read those of its parent as well.
SECRETS: Final = frozenset(
    {"GITHUB_TOKEN", "GH_TOKEN", "ACTIONS_RUNTIME_TOKEN", "CIGUARD_HISTORY_TOKEN"}
    | {REQUEST_TOKEN, REQUEST_URL}
)
FIX: Final = "make every test collectable: a plan needs all of them"
IGNORED: Final = frozenset({"node_modules", "__pycache__"})


def collect_units(
    adapter: Framework,
    suite: Suite,
    variant: str,
    folder: Path,
    environ: Mapping[str, str],
) -> Listing:
    """Let the framework list one variant of a suite, as `list_units` does.

    Args:
        environ: what the program inherits, but for `SECRETS`: ours, with the pool's.

    Raises:
        InputError: there is no such program or folder.
    """
    inherited = {name: value for name, value in environ.items() if name not in SECRETS}
    with tempfile.TemporaryDirectory(prefix="ciguard-plan-") as private:
        inside = extract_plugins(str(Path(private, "inside")))
        return list_units(
            adapter,
            suite,
            variant,
            folder=str(folder),
            private=private,
            inside=inside,
            environ=inherited,
        )


def collect_suites(
    suites: Mapping[str, Suite],
    pool_env: Mapping[str, Mapping[str, str]],
    folder: Path,
    environ: Mapping[str, str],
) -> tuple[tuple[InventoryUnit, ...], dict[str, Suite]]:
    """Let the framework of each suite list all its variants.

    The combinations of a job's matrix are listed once: on this machine they do not differ.

    Args:
        pool_env: by suite, what its pool adds to the environment.

    Returns:
        All units, and the suites with the filters that are active now.

    Raises:
        InputError: all that cannot be collected, together.
    """
    units: list[InventoryUnit] = []
    mistakes: list[CiguardError] = []
    listed_suites = {}
    for name, suite in suites.items():
        listing = None
        filters: set[str] = set()
        omitted: dict[str, dict[str, int]] = {}
        for variant, entry in suite.variants.items():
            suite_variant = " ".join(filter(None, (name, variant)))
            where = f"suite {suite_variant}" if suite_variant else ""
            if listing is None or entry.matrix is None:
                try:
                    listing = collect_units(
                        framework(suite.framework),
                        suite,
                        variant,
                        folder,
                        {**environ, **pool_env[name]},
                    )
                except InputError as error:
                    mistakes.append(InputError(error.what, where=where, fix=error.fix))
                    continue
                mistakes += (InputError(error, where=where, fix=FIX) for error in listing.errors)
                filters.update(listing.filters)
                for reason, files in listing.omitted.items():
                    omitted.setdefault(reason, {}).update(files)
            units += (
                InventoryUnit(
                    *(unit.unit, name, variant, unit.file or None),
                    timeout_ms=unit.timeout_ms,
                    group=unit.group,
                )
                for unit in listing.units
            )
        listed_suites[name] = replace(suite, filters=tuple(sorted(filters)), omitted=omitted)
    if mistakes:
        raise combine(mistakes)
    return tuple(units), listed_suites


def reject_multiline_ids(
    units: Sequence[InventoryUnit], suites: Mapping[str, Suite], where: str
) -> None:
    """Refuse ids that the framework of their suite cannot hand to its program.

    Raises:
        InputError: names the first.
    """
    rows = {name: framework(suite.framework) for name, suite in suites.items()}
    for unit in units:
        if unit.suite in rows and not rows[unit.suite].takes_id(unit.unit):
            what = f"{one_line(unit.unit)}: its framework takes ids one a line"
            raise InputError(what, where=where, fix="rename the test, or leave it out")


def matching_files(patterns: Sequence[str], folder: Path, cwd: str) -> tuple[str, ...]:
    """Files of a suite, as seen from the repository, sorted; without patterns none.

    Hidden folders, virtual environments and what a package manager unpacked are not looked into.

    Args:
        patterns: one with "/" is for the path below `cwd`, another for the file's name.
    """
    if not patterns:
        return ()
    found = []
    root = folder / cwd
    for place, folders, names in os.walk(root):
        folders[:] = [
            name
            for name in folders
            if not name.startswith(".")
            and name not in IGNORED
            and not Path(place, name, "pyvenv.cfg").exists()
        ]
        for name in names:
            path = Path(place, name)
            below = path.relative_to(root).as_posix()
            if any(
                fnmatch.fnmatchcase(below if "/" in pattern else name, pattern)
                for pattern in patterns
            ):
                found.append(Path(os.path.normpath(Path(cwd, below))).as_posix())
    return tuple(sorted(found))
