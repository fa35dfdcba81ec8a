"""What a git server's refusal means for a history, and what to do about it. Pure.

The words are those of git's `remote-curl.c`, `send-pack.c`, `receive-pack.c`, and of GitHub's
pre-receive hooks as its users quote them (GH001, GH003, GH006, GH013).
"""

from __future__ import annotations

import re
from typing import Final

# In the line of `git push --porcelain` that begins with "!": somebody else was there first. Refused
# by the remote as "non-fast-forward" is none: that server takes no forced push, whoever comes.
_LOST_RACE: Final = re.compile(
    r"^!\t[^\t]*\t(?:\[rejected\] \((?:stale info|fetch first|non-fast-forward)\)|"
    r"\[remote rejected\] \((?:fetch first|cannot lock ref|failed to (?:update|lock)|"
    r"reference already exists|incorrect old value))",
    re.MULTILINE,
)
# Another try may do better.
_PASSING: Final = re.compile(
    r"Could not resolve host|Temporary failure in name resolution|Failed to connect|"
    r"Couldn't connect|Connection (?:reset|refused|timed out|closed)|returned error: (?:429|5\d\d)|"
    r"early EOF|RPC failed|unexpected disconnect|hung up unexpectedly|Operation (?:too slow|timed)|"
    r"SSL_ERROR_SYSCALL|gnutls_handshake|GnuTLS recv error|Internal Server Error"
)
_RULE: Final = re.compile(
    r"GH003|GH006|GH013|protected branch|rule violations|hook declined|non-fast-forward|"
    r"[Ff]orce.push"
)
_TOO_LARGE: Final = re.compile(r"GH001|file size limit|exceeds the (?:maximum|limit)|too large")
_NO_PERMISSION: Final = re.compile(
    r"returned error: 40[134]|denied|not granted|Authentication failed|could not read "
    r"(?:Username|Password)|read.only|[Rr]epository not found"
)

_SPEAKER: Final = re.compile(r"^(?:remote: *)?(?:fatal: |error: |ERROR: )?")
_NOISE: Final = re.compile(r"(?:To |Done$|hint: |failed to push some refs|Everything up-to-date)")


def lost_race(output_text: str) -> bool:
    """Say of a refused push that somebody else had written in between."""
    return _LOST_RACE.search(output_text) is not None


def is_transient(output_text: str) -> bool:
    """Say that the network or the server failed in a way that passes."""
    return _PASSING.search(output_text) is not None


def summarize(output_text: str) -> str:
    """The lines that tell why, without who says it and whereto, in one."""
    lines = []
    for line in output_text.splitlines():
        last = line.rpartition("\t")[2] if line.startswith("!\t") else line
        text = _SPEAKER.sub("", last).strip()
        if text and not _NOISE.match(text):
            lines.append(text)
    return "; ".join(lines)


def advice(output_text: str, *, writing: bool) -> str:
    """What to do about a refusal; "" where only the reader can know."""
    if writing and _TOO_LARGE.search(
        output_text
    ):  # before the rule, by which GitHub declines it too
        return "see `ciguard history show`: tests whose ids change from run to run make it large"
    if writing and _RULE.search(output_text):
        return (
            "leave this branch out of the repository's rules and hooks, or let this token force a "
            "push to it: every write replaces the one commit"
        )
    if not _NO_PERMISSION.search(output_text):
        return ""
    if writing:
        return (
            "the job needs `permissions: contents: write` and GITHUB_TOKEN in its environment; "
            "a pull request's from a fork cannot have it"
        )
    return "the job needs `permissions: contents: read` and GITHUB_TOKEN in its environment"
