"""The address of ciguard's actions for `uses:`: configured, or that of the running ciguard."""

from __future__ import annotations

import contextlib
import json
import re
import tomllib
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Final

from ciguard.errors import UsageError
from ciguard.git.commands import output_of
from ciguard.github.repository_ref import SERVER_URL, parse_remote
from ciguard.workflow.yaml_values import get

DISTRIBUTION: Final = "ciguard-shards"
UNKNOWN_ADDRESS: Final = "OWNER/ciguard@COMMIT"
SET_ACTIONS: Final = (
    f'set actions = "{UNKNOWN_ADDRESS} # VERSION" in ciguard.toml, or the variable CIGUARD_ACTIONS'
)
_FILE: Final = "ciguard.toml"
# The value of `uses:` without the name of an action.
_ADDRESS: Final = re.compile(r"\$/|[\w-]+/[\w.-]+(/[\w.-]+)*@[\w./-]+( # .+)?")
_VERSION: Final = re.compile(r"v?\d+(\.\w+)+")


def actions_address(configured: str) -> str:
    """Return the address of the actions, checked.

    Args:
        configured: `actions` of the configuration; "" for none.

    Raises:
        UsageError: the address is not known, or no step can use it.
    """
    address = known_address(configured)
    if not address:
        what = "the repository of ciguard's actions is not known"
        raise UsageError(what, where="actions", fix=SET_ACTIONS)
    if not _ADDRESS.fullmatch(address):
        what = f"no address of actions: {address!r:.60}"
        raise UsageError(what, where="actions", fix=SET_ACTIONS)
    return address


def known_address(configured: str) -> str:
    """Return the configured address, or that of the running ciguard, unchecked; "" for neither.

    A runner finds the running ciguard in its repository on github.com only if it was installed from
    there, or if it runs from a clean checkout whose commit is on a branch of `origin`.
    """
    return (
        configured
        or address_of_installation(_running_direct_url())
        or address_of_checkout(Path(__file__).parents[2])
    )


def address_and_set_up(folder: Path, environ: Mapping[str, str]) -> tuple[str, str]:
    """Return the address for a checkout, and a text before `ciguard init` that sets an unknown one.

    The key is not read as configuration: that would cost 0.1 s.
    """
    configured = ""
    with contextlib.suppress(OSError, ValueError, RecursionError):  # `init` reports them
        is_own = (folder / _FILE).is_file()
        file = folder / (_FILE if is_own else "pyproject.toml")
        content = tomllib.loads(file.read_text("utf-8"))
        configured = get(content if is_own else get(content.get("tool"), "ciguard"), "actions")
    address = known_address(environ.get("CIGUARD_ACTIONS") or str(configured or ""))
    if address:
        return address.partition(" #")[0], ""
    if (folder / _FILE).is_file():  # a line at its end might belong to a table
        return UNKNOWN_ADDRESS, f"CIGUARD_ACTIONS={UNKNOWN_ADDRESS} "
    return UNKNOWN_ADDRESS, f"echo 'actions = \"{UNKNOWN_ADDRESS}\"' > {_FILE}\n"


def address_of_installation(direct_url: str | None) -> str:
    """Return `OWNER/NAME@COMMIT # VERSION` of an installation from a repository on github.com.

    Args:
        direct_url: text of direct_url.json (PEP 610); None if the installation has none.

    Returns:
        "" for another installation; without the comment if no version was named.
    """
    origin = json.loads(direct_url or "{}")
    vcs = origin.get("vcs_info")
    if vcs is None or origin.get("subdirectory"):
        return ""
    return _address(origin.get("url", ""), vcs["commit_id"], vcs.get("requested_revision", ""))


def address_of_checkout(folder: Path) -> str:
    """Return the address of a clean checkout whose commit is on a branch of `origin`, or ""."""
    if not (folder / "actions/plan/action.yml").is_file():
        return ""  # site-packages, which may lie in a checkout of another project
    commit = _git(folder, "rev-parse", "HEAD")
    branches = _git(folder, "branch", "--remotes", "--list", "origin/*", "--contains", "HEAD")
    if not branches or _git(folder, "status", "--porcelain"):
        return ""
    tags = _git(folder, "tag", "--points-at", "HEAD", "--sort=-version:refname").split()
    return _address(_git(folder, "remote", "get-url", "origin"), commit, (*tags, "")[0])


def _git(folder: Path, *words: str) -> str:
    return (output_of(folder, *words) or "").strip()


def _address(url: str, commit: str, version: str) -> str:
    remote = parse_remote(url)
    if remote is None or remote[0] != SERVER_URL:
        return ""
    return f"{remote[1]}@{commit}" + (f" # {version}" if _VERSION.fullmatch(version) else "")


def _running_direct_url() -> str | None:
    """Return the text of direct_url.json (PEP 610) of the running ciguard; None for none."""
    try:
        return metadata.distribution(DISTRIBUTION).read_text("direct_url.json")
    except metadata.PackageNotFoundError:
        return None
