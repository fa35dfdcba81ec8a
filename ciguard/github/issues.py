"""The one issue that says that the base branch is red: opened, kept up to date, closed, reopened.

It is found again as the sticky comment is (`github.marks`). Two runs that open one at the same
moment end with one open issue; an issue cannot be deleted, so the younger one is closed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal
from urllib.parse import quote

from ciguard.github.marks import is_marked, myself, newest, run_of, settled, with_marker
from ciguard.github.models import Account, Issue
from ciguard.github.refusals import OutcomeUnknown

if TYPE_CHECKING:
    from ciguard.github.client import GitHub

MOST_READ: Final = 1_000  # of the issues that we have written, the last changed first
_GREEN: Final = "completed"
_DOUBLE: Final = "not_planned"

Action = Literal[
    "opened", "updated", "reopened", "closed", "unchanged", "not needed", "left to a newer run"
]


@dataclass(frozen=True, slots=True)
class KeptIssue:
    """What was done, and where to look at it; without an issue, ""."""

    action: Action
    html_url: str = ""


def keep_issue(
    github: GitHub,
    repository: str,
    *,
    key: str,
    title: str,
    body: str,
    is_red: bool,
    run: tuple[int, int] | None = None,
) -> KeptIssue:
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
    shelf = _Shelf(github, repository, myself(github), key)
    text = with_marker(key, body, run)
    ours = shelf.ours()
    if not ours:
        if not is_red:
            return KeptIssue("not needed")
        made = shelf.open(title, text)
        ours = shelf.ours()
        if len(ours) < 2:  # noqa: PLR2004  # nobody else's beside it
            return KeptIssue("opened", made.html_url)
    oldest, *repeated = ours
    for one in repeated:
        if one.state == "open":
            shelf.change(one, {"state": "closed", "state_reason": _DOUBLE})
    said = newest([text, *(one.body or "" for one in ours)])
    if said != text:
        return shelf.of_a_newer_run(ours, said)
    return shelf.update(oldest, title, text, is_red=is_red)


@dataclass(frozen=True, slots=True)
class _Shelf:
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
        found = self.github.items(Issue, self.path + query, most=MOST_READ)
        return sorted((one for one in found if self.is_ours(one)), key=lambda one: one.number)

    def is_ours(self, issue: Issue) -> bool:
        theirs = issue.user != self.author or issue.pull_request is not None
        return not theirs and is_marked(issue.body or "", self.key)

    def open(self, title: str, text: str) -> Issue:
        data = {"title": title, "body": text}
        try:
            return self.github.create(Issue, self.path, data)
        except OutcomeUnknown:
            # It may be there although nobody said so: look before writing it again.
            there = self.ours()
            return there[0] if there else self.github.create(Issue, self.path, data)

    def change(self, issue: Issue, data: dict[str, str]) -> Issue:
        return self.github.change(Issue, f"{self.path}/{issue.number}", data)

    def update(self, issue: Issue, title: str, text: str, *, is_red: bool) -> KeptIssue:
        """Say it, and open or close the issue; one that stays closed stays as it is."""
        is_open = issue.state == "open"
        if not is_red and not is_open:
            return KeptIssue("not needed", issue.html_url)
        if is_red and is_open and settled(issue.body or "") == settled(text):
            return KeptIssue("unchanged", issue.html_url)
        data = {"title": title, "body": text}
        action: Action = "updated"
        if is_red and not is_open:
            action, data = "reopened", {**data, "state": "open"}
        elif not is_red:
            action, data = "closed", {**data, "state": "closed", "state_reason": _GREEN}
        return KeptIssue(action, self.change(issue, data).html_url)

    def of_a_newer_run(self, ours: list[Issue], said: str) -> KeptIssue:
        """Keep the oldest, as the newest run wants it: in a race that one wrote another issue."""
        oldest = ours[0]
        if run_of(oldest.body or "") != run_of(said):
            speaker = next(one for one in ours if one.body == said)
            data = {"title": speaker.title, "body": said, "state": "open"}
            oldest = self.change(oldest, data)
        return KeptIssue("left to a newer run", oldest.html_url)
