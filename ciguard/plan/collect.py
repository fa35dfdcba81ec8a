"""What is there: units by the framework's own listing, run as a leg runs it, and test files."""

from __future__ import annotations

import fnmatch
import os
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ciguard.errors import InputError
from ciguard.run.frameworks.base import Listing, environment
from ciguard.run.frameworks.entering import lay_out

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ciguard.model import Suite
    from ciguard.run.frameworks.base import Framework

LAST_LINES: Final = 10  # of what a failed listing said
# The plan's job reads the history with a token; a pull request's code, which runs here, may not.
SECRETS: Final = frozenset({"GITHUB_TOKEN", "GH_TOKEN"})
IGNORED: Final = frozenset({"node_modules", "__pycache__"})


def collected(
    framework: Framework,
    suite: Suite,
    variant: str,
    folder: Path,
    environ: Mapping[str, str],
) -> Listing:
    """Let the framework list one variant of a suite.

    Args:
        folder: of the repository; the suite's own lies below it.
        environ: what the program inherits, but for `SECRETS`: ours, with the pool's.

    Returns:
        Its units, or what went wrong: with errors the units are not all there are.

    Raises:
        InputError: there is no such program or folder.
    """
    inherited = {name: value for name, value in environ.items() if name not in SECRETS}
    with tempfile.TemporaryDirectory(prefix="ciguard-plan-") as private:
        inside = lay_out(str(Path(private, "inside")))
        answer = Path(private, "answer")
        invocation = framework.listing(suite, variant, str(answer), inside)
        if not invocation.argv:
            fix = 'set list = ["program", "argument", ...], or pass --inventory'
            raise InputError(f"framework {framework.NAME} needs a command that lists", fix=fix)
        try:
            done = subprocess.run(
                invocation.argv,
                cwd=folder / suite.cwd,
                env=environment(inherited, suite, variant, invocation),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                check=False,
            )
        except OSError as error:
            what = f"cannot be started: {error.strerror or error}: {error.filename}"
            fix = "look at command and cwd, and whether the project is installed here"
            raise InputError(what, fix=fix) from error
        content = answer.read_bytes() if answer.is_file() else b""
        listing = framework.read_listing(suite, content, done.stdout, done.returncode)
    return _explained(listing, done.stderr)


def _explained(listing: Listing, stderr: bytes) -> Listing:
    """What went wrong, with what was said on stderr; a good listing as it is."""
    said = stderr.decode("utf-8", "replace").strip().splitlines()[-LAST_LINES:]
    if not listing.errors or not said:
        return listing
    return Listing(listing.units, (*listing.errors, "\n".join(["it said on stderr:", *said])))


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
