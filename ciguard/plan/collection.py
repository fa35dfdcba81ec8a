"""What is there: units by the framework's own listing, run as a leg runs it, and test files."""

from __future__ import annotations

import fnmatch
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ciguard.run.frameworks.listing import list_units
from ciguard.run.frameworks.plugin_files import extract_plugins

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ciguard.model import Suite
    from ciguard.run.frameworks.base import Framework, Listing

# The plan's job reads the history with a token; a pull request's code, which runs here, may not.
SECRETS: Final = frozenset({"GITHUB_TOKEN", "GH_TOKEN"})
FIX: Final = "mend what cannot be collected: no plan is made without it"
IGNORED: Final = frozenset({"node_modules", "__pycache__"})


def collect_units(
    framework: Framework,
    suite: Suite,
    variant: str,
    folder: Path,
    environ: Mapping[str, str],
) -> Listing:
    """Let the framework list one variant of a suite, as `asked` does.

    Args:
        environ: what the program inherits, but for `SECRETS`: ours, with the pool's.

    Raises:
        InputError: there is no such program or folder.
    """
    inherited = {name: value for name, value in environ.items() if name not in SECRETS}
    with tempfile.TemporaryDirectory(prefix="ciguard-plan-") as private:
        inside = extract_plugins(str(Path(private, "inside")))
        return list_units(
            framework,
            suite,
            variant,
            folder=str(folder),
            private=private,
            inside=inside,
            environ=inherited,
        )


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
