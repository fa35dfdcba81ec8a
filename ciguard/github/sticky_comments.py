"""The one comment of a pull request that is kept up to date instead of repeated.

It is found again by a hidden marker at its start and by its author (`sticky_markers`). Two runs
that write at the same moment end with one comment, which says what the newer of them found.
"""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, Literal

from ciguard.github.api_errors import GitHubError, MaybeDone
from ciguard.github.models import Account, Comment
from ciguard.github.sticky_markers import (
    is_marked,
    newest_text,
    normalized,
    own_account,
    with_marker,
)

if TYPE_CHECKING:
    from ciguard.github.client import GitHub

MAX_CHARS: Final = 65_536  # GitHub's limit for a comment; over it: 422 "Body is too long"

TURNS: Final = 3  # a comment that is gone when it is to be changed was removed by another run


@dataclass(frozen=True, slots=True)
class StickyComment:
    """What was done, and where to look at it."""

    action: Literal["created", "updated", "unchanged", "left to a newer run"]
    html_url: str


def upsert_comment(
    github: GitHub,
    repository: str,
    pull_request: int,
    *,
    key: str,
    body: str,
    run: tuple[int, int] | None = None,
) -> StickyComment:
    """Make `body` the one comment for `key`: update it, or create it where there is none.

    Duplicates (two runs created one at the same time) are removed, the oldest stays. Calls: who we
    are, one per 100 comments, and one to write where the text differs; behind a first comment the
    list once more, for another run may have written its own meanwhile.

    Args:
        run: run and attempt that say so. What a newer one says is not overwritten.

    Raises:
        ValueError: with its marker the text is longer than MAX_CHARS: the caller sheds sections.
        BodyTooLong: GitHub takes less than that: likewise.
        Forbidden: the token may not write here.
        GitHubError: otherwise not done.
    """
    text = with_marker(key, body, run)
    if len(text) > MAX_CHARS:
        raise ValueError(f"a comment of {len(text)} characters, GitHub takes {MAX_CHARS}")
    thread = _Thread(github, repository, pull_request, own_account(github), key)
    ours = thread.ours()
    if not ours:
        made = thread.create(text)
        ours = thread.ours()
        if len(ours) < 2:  # noqa: PLR2004  # nobody else's beside it
            return made
    for _ in range(TURNS - 1):
        try:
            return thread.deduplicate(ours, text)
        except GitHubError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
        ours = thread.ours()
    return thread.deduplicate(ours, text) if ours else thread.create(text)


@dataclass(frozen=True, slots=True)
class _Thread:
    """A pull request's comments, of which `author`'s that start with the key's marker are ours."""

    github: GitHub
    repository: str
    pull_request: int
    author: Account
    key: str

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
        return comment.user == self.author and is_marked(comment.body, self.key)

    def create(self, text: str) -> StickyComment:
        try:
            made = self.github.post(Comment, self.path, {"body": text})
        except MaybeDone:
            # The comment may be there although nobody said so: look before writing it again.
            there = self.ours()
            made = there[0] if there else self.github.post(Comment, self.path, {"body": text})
        return StickyComment("created", made.html_url)

    def deduplicate(self, ours: list[Comment], text: str) -> StickyComment:
        """Leave the oldest, with the newest of all that is said; whoever does it does the same."""
        oldest, *repeated = ours
        text_to_keep = newest_text([text, *(one.body for one in ours)])
        upserted = self.update(oldest, text_to_keep)
        for comment in repeated:
            self.remove(comment)
        return (
            upserted
            if text_to_keep == text
            else StickyComment("left to a newer run", upserted.html_url)
        )

    def update(self, comment: Comment, text: str) -> StickyComment:
        if normalized(comment.body) == normalized(text):
            return StickyComment("unchanged", comment.html_url)
        changed = self.github.patch(Comment, self.path_of(comment), {"body": text})
        return StickyComment("updated", changed.html_url)

    def remove(self, comment: Comment) -> None:
        try:
            self.github.delete(self.path_of(comment))
        except GitHubError as error:
            if error.status != HTTPStatus.NOT_FOUND:  # the other run was faster
                raise
