"""Where a workflow finds ciguard's actions: as configured, or where ciguard was installed from."""

from __future__ import annotations

import json
import re
from importlib import metadata
from typing import Final

from ciguard.errors import UsageError
from ciguard.github.repository_ref import SERVER_URL, parse_remote

DISTRIBUTION: Final = "ciguard-shards"
# What `uses:` of a step can hold, before the name of an action is put in.
_ADDRESS: Final = re.compile(r"\$/|[\w-]+/[\w.-]+(/[\w.-]+)*@[\w./-]+( # .+)?")


def actions_address(configured: str) -> str:
    """Where the actions are: as configured, else where the running ciguard was installed from.

    Args:
        configured: `actions` of [init]; "" for none.

    Raises:
        UsageError: neither is known, or no step can use it.
    """
    found = known_address(configured)
    fix = 'set actions = "OWNER/ciguard@COMMIT # VERSION" in [init] of ciguard.toml'
    if not found:
        what = "the repository of ciguard's actions is not known"
        raise UsageError(what, where="init.actions", fix=fix)
    if not _ADDRESS.fullmatch(found):
        what = f"no address of actions: {found!r:.60}"
        raise UsageError(what, where="init.actions", fix=fix)
    return found


def known_address(configured: str) -> str:
    """The same unchecked; "" where neither is known."""
    return configured or address_of_installation(running_direct_url())


def address_of_installation(direct_url: str | None) -> str:
    """`OWNER/NAME@COMMIT` of an installation from a repository on github.com; "" of any other.

    Args:
        direct_url: text of direct_url.json (PEP 610); None where the installation has none.
    """
    origin = json.loads(direct_url or "{}")
    remote = parse_remote(origin.get("url", ""))
    if "vcs_info" not in origin or origin.get("subdirectory") or not remote:
        return ""
    return f"{remote[1]}@{origin['vcs_info']['commit_id']}" if remote[0] == SERVER_URL else ""


def running_direct_url() -> str | None:
    """The text of direct_url.json (PEP 610) of the running ciguard; None where there is none."""
    try:
        return metadata.distribution(DISTRIBUTION).read_text("direct_url.json")
    except metadata.PackageNotFoundError:
        return None
