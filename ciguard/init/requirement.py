"""What a workflow installs: the requirement that gives the ciguard which is running now.

`ciguard` on the public package index is another program, so a name alone is never enough.
Source: PEP 610 (direct_url.json, written by installers beside a package's metadata).
"""

from __future__ import annotations

import json

DISTRIBUTION = "ciguard-shards"


def direct_requirement(direct_url: str | None) -> str:
    """The PEP 508 direct reference of an installation from version control, pinned to its commit.

    Args:
        direct_url: text of direct_url.json; None where the installation has none.

    Returns:
        "" where a runner could not fetch the same: an index, a file, a checkout of this machine.
    """
    if direct_url is None:
        return ""
    origin = json.loads(direct_url)
    url, vcs = origin["url"], origin.get("vcs_info")
    if vcs is None or not url.startswith(("https://", "http://", "ssh://")):
        return ""
    folder = f"#subdirectory={origin['subdirectory']}" if origin.get("subdirectory") else ""
    return f"{DISTRIBUTION} @ {vcs['vcs']}+{url}@{vcs['commit_id']}{folder}"
