"""Reads the workflow files of a checkout, and the token of `gh` for the server of its remote."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from ciguard.audit.declared_jobs import test_workflows
from ciguard.audit.repository_runs import FOLDER, RepositoryRuns, Unread, read_workflow
from ciguard.errors import InputError, NothingToDo, RemoteError
from ciguard.git.checkout import Checkout
from ciguard.git.commands import program
from ciguard.github.repository_ref import is_enterprise_server, parse_remote, token_of
from ciguard.sources import local
from ciguard.workflow.test_commands import read_tasks

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ciguard.github.repository_ref import RepositoryRef

# Variables that git and gh do not receive: gh would give some of them for any server.
TOKENS: Final = ("GITHUB_TOKEN", "GH_TOKEN", "GITHUB_ENTERPRISE_TOKEN", "GH_ENTERPRISE_TOKEN")
GH_LIMIT_S: Final = 10.0


def read_checkout(
    folder: Path, environ: Mapping[str, str], workflow: str
) -> tuple[RepositoryRuns, str, str]:
    """Read the checkout that contains a folder.

    Args:
        workflow: name of a file that must exist, or "".

    Returns:
        Its workflow files, the address of `origin`, and the path of the folder in it.

    Raises:
        InputError, NothingToDo: no checkout, no workflow in it, or not the named one.
    """
    checkout = Checkout(folder, _without_tokens(environ))
    try:
        root, prefix, remote = Path(checkout.root()), checkout.prefix(), checkout.remote()
    except RemoteError as error:
        fix = "call it in a checkout, or name a repository on GitHub: ciguard audit OWNER/NAME"
        raise InputError(f"no checkout: {error.what}", where=str(folder), fix=fix) from error
    listed = sorted((root / FOLDER).glob("*.y*ml"))
    paths = {path.name: path for path in listed if path.is_file()}  # a link may be to a device
    if not paths:
        fix = "call it in a repository that uses GitHub Actions"
        raise NothingToDo("no workflow file", where=str(root / FOLDER), fix=fix)
    if workflow and workflow not in paths:
        fix = f"name one of: {', '.join(list(paths)[:20])}"
        raise InputError(f"no workflow {workflow!r}", where=str(root / FOLDER), fix=fix)
    tasks = read_tasks(lambda name: _text(root / name))
    read = [
        read_workflow(f"{FOLDER}/{name}", local.read(path), tasks) for name, path in paths.items()
    ]
    unread = tuple(file for file in read if isinstance(file, Unread))
    files = tuple(file for file in read if not isinstance(file, Unread))
    name = (parse_remote(remote) or ("", root.name))[1]
    facts = RepositoryRuns(name, "", "", files, test_workflows(files), unread=unread)
    return facts, remote, prefix


def _text(path: Path) -> str:
    return local.read(path).decode("utf-8", "replace") if path.is_file() else ""


def _without_tokens(environ: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environ.items() if name not in TOKENS}


def find_token(reference: RepositoryRef, environ: Mapping[str, str]) -> str:
    """Return a token for the server of a repository: of the environment, else of `gh`; else "".

    A checkout decides its remote. So the token of the environment goes only to the server that the
    environment names, or to GitHub's own, and none goes over a connection that is not encrypted.
    """
    server = reference.server_url
    is_named = bool(environ.get("GITHUB_SERVER_URL"))
    if not is_named and not server.startswith("https://"):
        return ""
    token = token_of(environ) if is_named or not is_enterprise_server(server) else ""
    if token:
        return token
    words = ("auth", "token", "--hostname", urlsplit(server).hostname or "")
    try:
        answer = subprocess.check_output(
            [program("gh", environ), *words],
            env=_without_tokens(environ),
            stdin=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=GH_LIMIT_S,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return answer.decode("utf-8", "replace").strip()
