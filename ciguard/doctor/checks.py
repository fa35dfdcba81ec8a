"""The checks that `ciguard doctor` makes, as values. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Sequence

Level = Literal["ok", "warning", "error"]
SCHEMA: Final = 1
MIN_CALLS: Final = 100  # of an hour: a report of a bad run takes as many


@dataclass(frozen=True, slots=True)
class Check:
    """One thing: `what` was found, and what to do where it is not as it should be."""

    name: str
    level: Level
    what: str
    fix: str = ""


def ok(name: str, what: str) -> Check:
    """As it should be."""
    return Check(name, "ok", what)


def warning(name: str, what: str, fix: str = "") -> Check:
    """Works without it, with less."""
    return Check(name, "warning", what, fix)


def error(name: str, what: str, fix: str = "") -> Check:
    """Does not work."""
    return Check(name, "error", what, fix)


def has_errors(checks: Sequence[Check]) -> bool:
    """Say whether something does not work."""
    return any(one.level == "error" for one in checks)


def as_json(checks: Sequence[Check]) -> dict[str, Any]:
    """For programs; documented in docs/reference/json.md."""
    levels = [one.level for one in checks]
    return {
        "schema": SCHEMA,
        "errors": levels.count("error"),
        "warnings": levels.count("warning"),
        "checks": [
            {"name": one.name, "level": one.level, "what": one.what, "fix": one.fix}
            for one in checks
        ],
    }


def check_rate_limit(remaining: int, limit: int) -> Check:
    """How many calls the token has left in this hour."""
    what = f"{remaining:,} of {limit:,} calls left in this hour"
    if remaining >= MIN_CALLS:
        return ok("API calls", what)
    return warning("API calls", what, "wait for the next hour, or use a token of your own")


def check_artifact_version(server_url: str, version: str, *, is_own: bool, artifacts: int) -> Check:
    """Whether server and workflow speak of the same artifacts.

    Args:
        version: of an Enterprise Server; "" for none.
        is_own: it is such a server.
        artifacts: generation that the workflow uses.
    """
    server = f"{server_url} (Enterprise Server {version or 'of an unknown version'})"
    what = f"{server if is_own else server_url}: artifacts of generation {artifacts}"
    if is_own and artifacts != 3:  # noqa: PLR2004  # the generation before
        fix = "set artifacts = 3 in [workflow], unless this server has the newer ones"
        return warning("artifacts", what, fix)
    if not is_own and artifacts == 3:  # noqa: PLR2004
        fix = "remove artifacts = 3 from [workflow]: github.com refuses that generation"
        return error("artifacts", what, fix)
    return ok("artifacts", what)
