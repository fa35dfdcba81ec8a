"""The address of ciguard's actions for `uses:`: configured, or the origin of the installation."""

from __future__ import annotations

import json
import re
from importlib import metadata
from typing import Final

from ciguard.errors import UsageError
from ciguard.github.repository_ref import SERVER_URL, parse_remote

DISTRIBUTION: Final = "ciguard-shards"
# The value of `uses:` without the name of an action.
_ADDRESS: Final = re.compile(r"\$/|[\w-]+/[\w.-]+(/[\w.-]+)*@[\w./-]+( # .+)?")


def actions_address(configured: str) -> str:
    """Return the address of the actions, checked.

    Args:
        configured: `actions` of [init]; "" for none.

    Raises:
        UsageError: the address is not known, or no step can use it.
    """
    address = known_address(configured)
    fix = 'set actions = "OWNER/ciguard@COMMIT # VERSION" in [init] of ciguard.toml'
    if not address:
        what = "the repository of ciguard's actions is not known"
        raise UsageError(what, where="init.actions", fix=fix)
    if not _ADDRESS.fullmatch(address):
        what = f"no address of actions: {address!r:.60}"
        raise UsageError(what, where="init.actions", fix=fix)
    return address


def known_address(configured: str) -> str:
    """Return the configured address, else that of the installation, unchecked; "" for neither."""
    return configured or address_of_installation(running_direct_url())


def address_of_installation(direct_url: str | None) -> str:
    """Return `OWNER/NAME@COMMIT` of an installation from a repository on github.com; else "".

    Args:
        direct_url: text of direct_url.json (PEP 610); None if the installation has none.
    """
    origin = json.loads(direct_url or "{}")
    remote = parse_remote(origin.get("url", ""))
    if "vcs_info" not in origin or origin.get("subdirectory") or not remote:
        return ""
    return f"{remote[1]}@{origin['vcs_info']['commit_id']}" if remote[0] == SERVER_URL else ""


def running_direct_url() -> str | None:
    """Return the text of direct_url.json (PEP 610) of the running ciguard; None for none."""
    try:
        return metadata.distribution(DISTRIBUTION).read_text("direct_url.json")
    except metadata.PackageNotFoundError:
        return None
