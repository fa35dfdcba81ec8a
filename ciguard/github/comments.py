"""The one comment of a pull request that is kept up to date instead of repeated.

It is found again by a hidden marker at its very start and by its author: anybody can write the
marker, only we can write as ourselves.
"""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, Literal
from urllib.parse import quote

from ciguard.github.models import Account, Comment
from ciguard.github.refusals import Forbidden, GitHubError, OutcomeUnknown

if TYPE_CHECKING:
    from ciguard.github.client import GitHub

MAX_CHARS: Final = 65_536  # GitHub's limit for a comment; over it: 422 "Body is too long"

# The author of what GITHUB_TOKEN writes; the token itself may not ask who it is.
ACTIONS_BOT: Final = Account(login="github-actions[bot]", type="Bot")


@dataclass(frozen=True, slots=True)
class KeptComment:
    """What was done, and where to look at it."""

    action: Literal["created", "updated", "unchanged"]
    html_url: str


def with_marker(key: str, body: str) -> str:
    """Put the hidden line in front by which the comment is found again.

    Args:
        key: what the comment is about (the workflow's file name), so that two workflows of one
            repository do not overwrite each other.
    """
    # Quoted, as a ">" would end the HTML comment early and a line end the marker.
    return f"<!-- ciguard:{quote(key, safe=' ')} -->\n{body}"


def keep_comment(
    github: GitHub, repository: str, pull_request: int, *, key: str, body: str
) -> KeptComment:
    """Make `body` the one comment for `key`: update it, or create it where there is none.

    Duplicates (two runs created one at the same time) are removed, the oldest stays. Calls: who we
    are, one per 100 comments, and one to write where the text differs.

    Raises:
        ValueError: with its marker the text is longer than MAX_CHARS: the caller sheds sections.
        Forbidden: the token may not write here.
        GitHubError: otherwise not done.
    """
    text = with_marker(key, body)
    if len(text) > MAX_CHARS:
        raise ValueError(f"a comment of {len(text)} characters, GitHub takes {MAX_CHARS}")
    thread = _Thread(github, repository, pull_request, _myself(github), with_marker(key, ""))
    ours = thread.ours()
    if not ours:
        return thread.create(text)
    oldest, *repeated = ours
    kept = thread.update(oldest, text)
    for comment in repeated:
        thread.remove(comment)
    return kept


@dataclass(frozen=True, slots=True)
class _Thread:
    """A pull request's comments, of which `author`'s that start with `marker` are ours."""

    github: GitHub
    repository: str
    pull_request: int
    author: Account
    marker: str

    @property
    def path(self) -> str:
        return f"/repos/{self.repository}/issues/{self.pull_request}/comments"

    def path_of(self, comment: Comment) -> str:
        return f"/repos/{self.repository}/issues/comments/{comment.id}"

    def ours(self) -> list[Comment]:
        """Read the thread; ours by age, the oldest first."""
        found = self.github.items(Comment, self.path)
        return sorted((one for one in found if self.is_ours(one)), key=lambda one: one.id)

    def is_ours(self, comment: Comment) -> bool:
        first_line = _settled(comment.body).partition("\n")[0]
        return comment.user == self.author and first_line == self.marker.strip()

    def create(self, text: str) -> KeptComment:
        try:
            made = self.github.create(Comment, self.path, {"body": text})
        except OutcomeUnknown:
            # The comment may be there although nobody said so: look before writing it again.
            there = self.ours()
            made = there[0] if there else self.github.create(Comment, self.path, {"body": text})
        return KeptComment("created", made.html_url)

    def update(self, comment: Comment, text: str) -> KeptComment:
        if _settled(comment.body) == _settled(text):
            return KeptComment("unchanged", comment.html_url)
        changed = self.github.change(Comment, self.path_of(comment), {"body": text})
        return KeptComment("updated", changed.html_url)

    def remove(self, comment: Comment) -> None:
        try:
            self.github.remove(self.path_of(comment))
        except GitHubError as error:
            if error.status != HTTPStatus.NOT_FOUND:  # the other run was faster
                raise


def _myself(github: GitHub) -> Account:
    try:
        return github.item(Account, "/user")
    except Forbidden:
        return ACTIONS_BOT


def _settled(body: str) -> str:
    """Undo what a web form does to a text on its way: line ends, blanks around it."""
    return body.replace("\r\n", "\n").strip()
