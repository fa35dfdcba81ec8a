"""The one comment of a pull request, and the one issue of a red branch, that are kept up to date.

Each is found again by a hidden marker at its very start and by its author: anybody can write the
marker, only we can write as ourselves. A second hidden line says which run wrote it, so that a run
that ends late does not overwrite what a newer one found. Two runs that write at the same moment
end with one text, of the newer run: the oldest stays, the others are removed. An issue cannot be
removed, so it is closed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, ClassVar, Final, Literal
from urllib.parse import quote

from ciguard.github.api_errors import Forbidden, GitHubError, MaybeDone
from ciguard.github.models import Account, Text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ciguard.github.client import GitHub

MAX_CHARS: Final = 65_536  # GitHub's limit for a comment; over it: 422 "Body is too long"
MAX_ISSUES: Final = 1_000  # of the issues that we have written, the last changed first
# The author of what GITHUB_TOKEN writes; the token itself may not ask who it is.
ACTIONS_BOT: Final = Account(login="github-actions[bot]", type="Bot")
_TRIES: Final = 3  # a text that is gone when it is to be changed was removed by another run
_RUN: Final = re.compile(r"<!-- ciguard-run:(\d{1,18})/(\d{1,6}) -->")

Action = Literal[
    "created", "updated", "unchanged", "closed", "reopened", "not_needed", "superseded"
]


@dataclass(frozen=True, slots=True)
class StickyText:
    """The action that was done, and the page of the text; "" without one.

    `superseded`: a newer run has written, and its text stays.
    """

    action: Action
    html_url: str = ""


def upsert_comment(
    github: GitHub,
    repository: str,
    pull_request: int,
    *,
    key: str,
    body: str,
    run: tuple[int, int] | None = None,
    author: Account | None = None,
) -> StickyText:
    """Make `body` the one comment for `key`: update it, or create it where there is none.

    Calls: who we are, one per 100 comments, and one to write where the text differs; after a first
    comment the list once more, for another run may have written its own meanwhile.

    Args:
        run: run and attempt that say so. What a newer one says is not overwritten.
        author: who we are, where the caller knows (a GitHub App); None to find out.

    Raises:
        Forbidden: the token may not write here.
        GitHubError: otherwise not done; also where text and marker are longer than MAX_CHARS.
    """
    path = f"/repos/{repository}/issues"
    author = author or own_account(github)
    list_path = f"{path}/{pull_request}/comments"
    comments = _Comments(github, list_path, f"{path}/comments", author, key)
    return comments.upsert(comments.ours(), {"body": with_marker(key, body, run)})


def upsert_issue(
    github: GitHub,
    repository: str,
    *,
    key: str,
    title: str,
    body: str,
    is_red: bool,
    run: tuple[int, int] | None = None,
    author: Account | None = None,
) -> StickyText:
    """Make the one issue for `key` say what the branch is: open while it is red, else closed.

    Calls: who we are, one per 100 issues that we have written, one to write where it differs;
    after a first issue the list once more.

    Args:
        run: run and attempt that say so. What a newer one says is not overwritten.
        author: who we are, where the caller knows (a GitHub App); None to find out.

    Raises:
        Forbidden: the token may not write issues.
        GitHubError: otherwise not done; also where the repository has no issues (410).
    """
    path = f"/repos/{repository}/issues"
    issues = _Issues(github, path, path, author or own_account(github), key)
    ours = issues.ours()
    if not is_red and not any(one.state == "open" for one in ours):
        return StickyText("not_needed", ours[0].html_url if ours else "")
    content = {"title": title, "body": with_marker(key, body, run), "state": "open"}
    if not is_red:
        content |= {"state": "closed", "state_reason": "completed"}
    return issues.upsert(ours, content)


@dataclass(frozen=True, slots=True)
class _Texts:
    """Texts at one place, of which `author`'s that start with the key's marker are ours."""

    github: GitHub
    list_path: str
    item_path: str
    author: Account
    key: str
    fields: ClassVar[set[str]]  # what of a text is kept up to date

    def listed(self) -> Iterable[Text]:
        raise NotImplementedError

    def discard(self, one: Text) -> None:
        """Take away a second text; another run may be faster."""
        raise NotImplementedError

    def ours(self) -> list[Text]:
        """By age, the oldest first."""
        found = (one for one in self.listed() if one.user == self.author)
        return sorted(
            (one for one in found if is_marked(one.body or "", self.key)), key=lambda one: one.id
        )

    def upsert(self, ours: list[Text], content: Mapping[str, str]) -> StickyText:
        if not ours:
            made = self.create(content)
            ours = self.ours()
            if len(ours) < 2:  # noqa: PLR2004  # no other run's beside it
                return StickyText("created", made.html_url)
        for attempt in range(_TRIES):
            try:
                return self.deduplicate(ours, content)
            except GitHubError as error:
                if error.status != HTTPStatus.NOT_FOUND or attempt == _TRIES - 1:
                    raise
            ours = self.ours()
            if not ours:
                break
        return StickyText("created", self.create(content).html_url)

    def create(self, content: Mapping[str, str]) -> Text:
        data = {name: text for name, text in content.items() if name != "state"}
        try:
            return self.github.post(Text, self.list_path, data)
        except MaybeDone:
            # The text may be there although no answer came: look before writing it again.
            there = self.ours()
            return there[0] if there else self.github.post(Text, self.list_path, data)

    def deduplicate(self, ours: list[Text], content: Mapping[str, str]) -> StickyText:
        """Leave the oldest, with the newest of all texts; each writer does the same."""
        known = [{**one.model_dump(include=self.fields), "body": one.body or ""} for one in ours]
        newest = max([content, *known], key=lambda one: run_of(one["body"]))
        action = self.update(ours[0], known[0], newest)
        for one in ours[1:]:
            self.discard(one)
        return StickyText(action if newest is content else "superseded", ours[0].html_url)

    def update(self, one: Text, known: Mapping[str, str], content: Mapping[str, str]) -> Action:
        if all(normalized(content[name]) == normalized(text) for name, text in known.items()):
            return "unchanged"
        self.change(one, content)
        if known.get("state") == content.get("state"):
            return "updated"
        return "reopened" if content["state"] == "open" else "closed"

    def change(self, one: Text, content: Mapping[str, str]) -> None:
        self.github.patch(Text, f"{self.item_path}/{one.id}", content)


class _Comments(_Texts):
    fields: ClassVar = {"body"}

    def listed(self) -> Iterable[Text]:
        return self.github.items(Text, self.list_path)

    def discard(self, one: Text) -> None:
        try:
            self.github.delete(f"{self.item_path}/{one.id}")
        except GitHubError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise


class _Issues(_Texts):
    fields: ClassVar = {"title", "body", "state"}

    def listed(self) -> Iterable[Text]:
        query = f"?state=all&sort=updated&creator={quote(self.author.login, safe='')}"
        found = self.github.items(Text, self.list_path + query, limit=MAX_ISSUES)
        return (one for one in found if one.pull_request is None)

    def discard(self, one: Text) -> None:
        if one.state == "open":
            self.change(one, {"state": "closed", "state_reason": "not_planned"})


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
    """Return whether a text begins with the marker of this key."""
    return normalized(body).partition("\n")[0] == _marker(key)


def run_of(body: str) -> tuple[int, int]:
    """Run and attempt that said so; (0, 0), older than every other, where it is not known."""
    second = normalized(body).partition("\n")[2].partition("\n")[0]
    found = _RUN.fullmatch(second)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def normalized(text: str) -> str:
    """Undo what a web form does to a text on its way: line ends, blanks around it."""
    return text.replace("\r\n", "\n").strip()


def own_account(github: GitHub) -> Account:
    """Return the own login; GITHUB_TOKEN may not ask, and is the robot of GitHub Actions."""
    if github.is_app_token:
        return ACTIONS_BOT
    try:
        return github.item(Account, "/user")
    except Forbidden:
        return ACTIONS_BOT
