"""Files of the base commit: by git, in the checkout or from `origin`; else from GitHub's API.

A job that only judges need not check anything out, and then there is no git to ask.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ciguard.errors import RemoteError
from ciguard.git.checkout import Checkout

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ciguard.github.events import ActionsRun


def files_at(
    folder: Path, environ: Mapping[str, str], run: ActionsRun, commit: str, names: Sequence[str]
) -> dict[str, bytes]:
    """Those of the files that a commit has in this folder.

    Raises:
        RemoteError: neither git nor GitHub gives it, or a file of it is no file.
    """
    try:
        return Checkout(folder, environ).files_at(commit, names)
    except RemoteError as error:
        # Imported here: pydantic and httpx cost 0.2 s that a checkout need not pay.
        from ciguard.github.contents import files_at as contents_at  # noqa: PLC0415
        from ciguard.sources.inputs import explaining_client, token_of  # noqa: PLC0415

        token, prefix = token_of(environ), _prefix(folder, environ)
        if not token:
            raise
        try:
            with explaining_client(run.api_url, token) as github:
                paths = [f"{prefix}{name}" for name in names]
                found = contents_at(github, run.repository, commit, paths)
        except RemoteError as other:
            what = f"{error.what}; and by GitHub's API: {other.what}"
            raise RemoteError(what, where=error.where, fix=error.fix) from other
        return {path.removeprefix(prefix): content for path, content in found.items()}


def changed_files(
    folder: Path,
    environ: Mapping[str, str],
    run: ActionsRun | None,
    commits: tuple[str, str],
    names: Sequence[str],
) -> dict[str, bool]:
    """Of each file that one of two commits has, whether they differ; {} where one cannot be had.

    Args:
        run: without one, GitHub is not asked.
    """
    found = []
    for commit in commits:
        try:
            if run is None:
                found.append(Checkout(folder, environ).files_at(commit, names))
            else:
                found.append(files_at(folder, environ, run, commit, names))
        except RemoteError:
            return {}
    before, now = found
    return {name: before.get(name) != now.get(name) for name in names if {name} & {*before, *now}}


def _prefix(folder: Path, environ: Mapping[str, str]) -> str:
    """Where the folder is in the repository, as far as the workspace tells; "a/b/" or ""."""
    workspace = environ.get("GITHUB_WORKSPACE")
    here = folder.resolve()
    if not workspace or not here.is_relative_to(Path(workspace).resolve()):
        return ""
    inside = here.relative_to(Path(workspace).resolve()).as_posix()
    return "" if inside == "." else f"{inside}/"
