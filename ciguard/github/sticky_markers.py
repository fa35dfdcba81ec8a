"""How what we wrote is found again: a hidden marker at its very start, and our own name.

Anybody can write the marker, only we can write as ourselves. A second hidden line says which run
said it, so that a run that ends late does not overwrite what a newer one found.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from ciguard.github.api_errors import Forbidden
from ciguard.github.models import Account

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ciguard.github.client import GitHub

# The author of what GITHUB_TOKEN writes; the token itself may not ask who it is.
ACTIONS_BOT: Final = Account(login="github-actions[bot]", type="Bot")
_RUN: Final = re.compile(r"<!-- ciguard-run:(\d{1,18})/(\d{1,6}) -->")


def with_marker(key: str, body: str, run: tuple[int, int] | None = None) -> str:
    """Put the hidden lines in front by which a text is found again.

    Args:
        key: what the text is about (the workflow's file name), so that two workflows of one
            repository do not overwrite each other.
        run: run and attempt that say so; None where it is not known.
    """
    run_line = "" if run is None else f"<!-- ciguard-run:{run[0]}/{run[1]} -->\n"
    return f"{_marker(key)}\n{run_line}{body}"


def _marker(key: str) -> str:
    # Quoted, as a ">" would end the HTML comment early and a line end the marker.
    return f"<!-- ciguard:{quote(key, safe=' ')} -->"


def is_marked(body: str, key: str) -> bool:
    """Say whether a text begins with the marker of this key."""
    return normalized(body).partition("\n")[0] == _marker(key)


def run_of(body: str) -> tuple[int, int]:
    """Run and attempt that said so; (0, 0), older than every other, where it is not known."""
    second = normalized(body).partition("\n")[2].partition("\n")[0]
    found = _RUN.fullmatch(second)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def newest_text(bodies: Iterable[str]) -> str:
    """What the newest run says; of the same run, what stands first."""
    return max(bodies, key=run_of)


def normalized(body: str) -> str:
    """Undo what a web form does to a text on its way: line ends, blanks around it."""
    return body.replace("\r\n", "\n").strip()


def own_account(github: GitHub) -> Account:
    """Who we are; GITHUB_TOKEN may not ask, and is the robot of GitHub Actions."""
    if github.is_app_token:
        return ACTIONS_BOT
    try:
        return github.item(Account, "/user")
    except Forbidden:
        return ACTIONS_BOT
