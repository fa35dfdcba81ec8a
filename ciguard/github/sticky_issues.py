"""The one issue that says that the base branch is red: opened, kept up to date, closed, reopened.

It is found again as the sticky comment is (`sticky_markers`). Two runs that open one at the same
moment end with one open issue; an issue cannot be deleted, so the younger one is closed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal
from urllib.parse import quote

from ciguard.github.api_errors import MaybeDone
from ciguard.github.models import Account, Issue
from ciguard.github.sticky_markers import (
    is_marked,
    newest_text,
    normalized,
    own_account,
    run_of,
    with_marker,
)

if TYPE_CHECKING:
    from ciguard.github.client import GitHub

MAX_ISSUES: Final = 1_000  # of the issues that we have written, the last changed first
_GREEN: Final = "completed"
_DOUBLE: Final = "not_planned"

Action = Literal[
    "opened", "updated", "reopened", "closed", "unchanged", "not needed", "left to a newer run"
]


@dataclass(frozen=True, slots=True)
class StickyIssue:
    """What was done, and where to look at it; without an issue, ""."""

    action: Action
    html_url: str = ""


def upsert_issue(
    github: GitHub,
    repository: str,
    *,
    key: str,
    title: str,
    body: str,
    is_red: bool,
    run: tuple[int, int] | None = None,
) -> StickyIssue:
    """Make the one issue for `key` say what the branch is: open while it is red, else closed.

    Calls: who we are, one per 100 issues that we have written, one to write where it differs;
    behind a first issue the list once more.

    Args:
        run: run and attempt that say so. What a newer one says is not overwritten.

    Raises:
        BodyTooLong: the caller sheds sections.
        Forbidden: the token may not write issues.
        GitHubError: otherwise not done; also where the repository has no issues (410).
    """
    shelf = _StickyIssues(github, repository, own_account(github), key)
    text = with_marker(key, body, run)
    ours = shelf.ours()
    if not ours:
        if not is_red:
            return StickyIssue("not needed")
        made = shelf.open(title, text)
        ours = shelf.ours()
        if len(ours) < 2:  # noqa: PLR2004  # nobody else's beside it
            return StickyIssue("opened", made.html_url)
    oldest, *repeated = ours
    for one in repeated:
        if one.state == "open":
            shelf.change(one, {"state": "closed", "state_reason": _DOUBLE})
    text_to_keep = newest_text([text, *(one.body or "" for one in ours)])
    if text_to_keep != text:
        return shelf.keep_newer_text(ours, text_to_keep)
    return shelf.update(oldest, title, text, is_red=is_red)


@dataclass(frozen=True, slots=True)
class _StickyIssues:
    """A repository's issues, of which `author`'s that start with the key's marker are ours."""

    github: GitHub
    repository: str
    author: Account
    key: str

    @property
    def path(self) -> str:
        return f"/repos/{self.repository}/issues"

    def ours(self) -> list[Issue]:
        """By age, the oldest first."""
        query = f"?state=all&sort=updated&creator={quote(self.author.login, safe='')}"
        found = self.github.items(Issue, self.path + query, limit=MAX_ISSUES)
        return sorted((one for one in found if self.is_ours(one)), key=lambda one: one.number)

    def is_ours(self, issue: Issue) -> bool:
        theirs = issue.user != self.author or issue.pull_request is not None
        return not theirs and is_marked(issue.body or "", self.key)

    def open(self, title: str, text: str) -> Issue:
        data = {"title": title, "body": text}
        try:
            return self.github.post(Issue, self.path, data)
        except MaybeDone:
            # It may be there although nobody said so: look before writing it again.
            there = self.ours()
            return there[0] if there else self.github.post(Issue, self.path, data)

    def change(self, issue: Issue, data: dict[str, str]) -> Issue:
        return self.github.patch(Issue, f"{self.path}/{issue.number}", data)

    def update(self, issue: Issue, title: str, text: str, *, is_red: bool) -> StickyIssue:
        """Say it, and open or close the issue; one that stays closed stays as it is."""
        is_open = issue.state == "open"
        if not is_red and not is_open:
            return StickyIssue("not needed", issue.html_url)
        if is_red and is_open and normalized(issue.body or "") == normalized(text):
            return StickyIssue("unchanged", issue.html_url)
        data = {"title": title, "body": text}
        action: Action = "updated"
        if is_red and not is_open:
            action, data = "reopened", {**data, "state": "open"}
        elif not is_red:
            action, data = "closed", {**data, "state": "closed", "state_reason": _GREEN}
        return StickyIssue(action, self.change(issue, data).html_url)

    def keep_newer_text(self, ours: list[Issue], newest_text: str) -> StickyIssue:
        """Keep the oldest, as the newest run wants it: in a race that one wrote another issue."""
        oldest = ours[0]
        if run_of(oldest.body or "") != run_of(newest_text):
            speaker = next(one for one in ours if one.body == newest_text)
            data = {"title": speaker.title, "body": newest_text, "state": "open"}
            oldest = self.change(oldest, data)
        return StickyIssue("left to a newer run", oldest.html_url)
