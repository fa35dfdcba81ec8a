"""Collection of units by the framework's own listing, run as in a leg, and of test files."""

from __future__ import annotations

import fnmatch
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from ciguard.codec.inventory_file import InventoryUnit
from ciguard.errors import CiguardError, InputError, combine
from ciguard.model import Suite
from ciguard.model.service_address import REQUEST_TOKEN, REQUEST_URL
from ciguard.run.frameworks.base import Framework, Listing
from ciguard.run.frameworks.id_limit import multiline
from ciguard.run.frameworks.listing import list_units
from ciguard.run.frameworks.registry import framework
from ciguard.run.plugin_files import extract_plugins

# Variables that authenticate a job at GitHub or a service: listing runs the code of a pull request,
# which must not have them. The generated plan job has none at all, because a program could also
# read the environment of its parent.
SECRETS: Final = frozenset(
    {"GITHUB_TOKEN", "GH_TOKEN", "ACTIONS_RUNTIME_TOKEN", "CIGUARD_HISTORY_TOKEN"}
    | {REQUEST_TOKEN, REQUEST_URL}
)
FIX: Final = "make every test collectable: a plan needs all of them"
INSTALL: Final = "install {} for this python, or put the python of the project first on PATH"
IGNORED: Final = frozenset({"node_modules", "__pycache__"})


def collect_units(
    adapter: Framework, suite: Suite, variant: str, folder: Path, environ: Mapping[str, str]
) -> Listing:
    """List the units of one variant of a suite by its framework, as `list_units` does.

    Args:
        environ: ciguard's environment with that of the pool; the program inherits it without
            `SECRETS`.

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
    """List the units of all variants of all suites.

    The combinations of a job's matrix are listed once: on this machine they do not differ.

    Args:
        pool_env: by suite, the environment variables of its pool.

    Returns:
        All units, and the suites with their active filters.

    Raises:
        InputError: with everything that cannot be collected.
    """
    units: list[InventoryUnit] = []
    mistakes: list[CiguardError] = []
    listed_suites = {}
    for name, suite in suites.items():
        listing = None
        filters: set[str] = set()
        omitted: dict[str, dict[str, int]] = {}
        untried: set[str] = set()
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
                absent = f"No module named {suite.framework}"
                is_absent = any(absent in error for error in listing.errors)
                fix = INSTALL.format(suite.framework) if is_absent else FIX
                mistakes += (InputError(error, where=where, fix=fix) for error in listing.errors)
                filters.update(listing.filters)
                untried.update(listing.untried)
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
        listed_suites[name] = replace(
            suite, filters=tuple(sorted(filters)), omitted=omitted, untried=tuple(sorted(untried))
        )
    if mistakes:
        raise combine(mistakes)
    return tuple(units), listed_suites


def reject_multiline_ids(
    units: Sequence[InventoryUnit], suites: Mapping[str, Suite], where: str
) -> None:
    """Refuse ids that the framework of their suite cannot pass to its program.

    Raises:
        InputError: with the first such id.
    """
    rows = {name: framework(suite.framework) for name, suite in suites.items()}
    for unit in units:
        if unit.suite in rows and not rows[unit.suite].takes_id(unit.unit):
            raise InputError(multiline(unit.unit), where=where)


def matching_files(patterns: Sequence[str], folder: Path, cwd: str) -> tuple[str, ...]:
    """Return files of a suite, relative to the repository, sorted; none without patterns.

    Hidden folders, virtual environments and folders of package managers are skipped.

    Args:
        patterns: with "/" for the path below `cwd`, otherwise for the file's name.
    """
    if not patterns:
        return ()
    matches = []
    root = folder / cwd
    for parent, folders, names in os.walk(root):
        folders[:] = [
            name
            for name in folders
            if not name.startswith(".")
            and name not in IGNORED
            and not Path(parent, name, "pyvenv.cfg").exists()
        ]
        for name in names:
            below_root = Path(parent, name).relative_to(root).as_posix()
            if any(
                fnmatch.fnmatchcase(below_root if "/" in pattern else name, pattern)
                for pattern in patterns
            ):
                matches.append(Path(os.path.normpath(Path(cwd, below_root))).as_posix())
    return tuple(sorted(matches))
