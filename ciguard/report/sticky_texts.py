"""Sticky texts: the one comment of a pull request and the one issue of a branch, kept up to date.

A hidden marker at its start and its author identify such a text: others can write the marker, but
not as our account. A second hidden line has the run that wrote the text, so that a run that ends
late does not overwrite the text of a newer run. If two runs write at the same time, the oldest text
stays with the content of the newer run, and the other texts are removed; an issue, which cannot be
removed, is closed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, ClassVar, Final, Literal
from urllib.parse import quote

from ciguard.github.api_errors import Forbidden, GitHubError, MaybeDone
from ciguard.github.models import Account, Text

if TYPE_CHECKING:
    from ciguard.github.client import GitHub

MAX_CHARS: Final = 65_536  # GitHub's limit for a comment; over it: 422 "Body is too long"
MAX_ISSUES: Final = 1_000  # of our account, the last changed first
# The author of texts by GITHUB_TOKEN, which may not ask for its own account.
ACTIONS_BOT: Final = Account(login="github-actions[bot]", type="Bot")
_TRIES: Final = 3  # another run may remove a text before it is changed
_RUN: Final = re.compile(r"<!-- ciguard-run:(\d{1,18})/(\d{1,6}) -->")

Action = Literal[
    "created", "updated", "unchanged", "closed", "reopened", "not_needed", "superseded"
]


@dataclass(frozen=True, slots=True)
class StickyText:
    """The action that was done, and the page of the text; "" without a text.

    `superseded`: the text of a newer run stays.
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
    """Make `body` the one comment for `key`: update the comment, or create it.

    Calls: one for our account, one per 100 comments, and one to write a text that differs; after a
    first comment the list once more, as another run may have written its own meanwhile.

    Args:
        run: run and attempt of the text; the text of a newer run is not overwritten.
        author: our account, if the caller knows it (a GitHub App); None to ask GitHub.

    Raises:
        Forbidden: the token may not write here.
        GitHubError: not written for another reason, as if text and marker exceed MAX_CHARS.
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
    """Keep the one issue for `key` open while the branch is red, else closed.

    Calls: one for our account, one per 100 issues of ours, one to write an issue that differs;
    after a first issue the list once more.

    Args:
        run: run and attempt of the text; the text of a newer run is not overwritten.
        author: our account, if the caller knows it (a GitHub App); None to ask GitHub.

    Raises:
        Forbidden: the token may not write issues.
        GitHubError: not written for another reason, as if the repository has no issues (410).
    """
    path = f"/repos/{repository}/issues"
    issues = _Issues(github, path, path, author or own_account(github), key)
    ours = issues.ours()
    if not is_red and not any(issue.state == "open" for issue in ours):
        return StickyText("not_needed", ours[0].html_url if ours else "")
    content = {"title": title, "body": with_marker(key, body, run), "state": "open"}
    if not is_red:
        content |= {"state": "closed", "state_reason": "completed"}
    return issues.upsert(ours, content)


@dataclass(frozen=True, slots=True)
class _Texts:
    """The comments of a pull request or issues of a repository; ours have our author and marker."""

    github: GitHub
    list_path: str
    item_path: str
    author: Account
    key: str
    fields: ClassVar[set[str]]  # fields that are kept up to date

    def listed(self) -> Iterable[Text]:
        raise NotImplementedError

    def discard(self, text: Text) -> None:
        """Remove a duplicate; another run may have removed it before."""
        raise NotImplementedError

    def ours(self) -> list[Text]:
        """Return our texts, the oldest first."""
        by_author = (text for text in self.listed() if text.user == self.author)
        marker = f"{_marker(self.key)}\n"
        ours = (text for text in by_author if f"{normalized(text.body or '')}\n".startswith(marker))
        return sorted(ours, key=lambda text: text.id)

    def upsert(self, ours: list[Text], content: Mapping[str, str]) -> StickyText:
        if not ours:
            created = self.create(content)
            ours = self.ours()
            if len(ours) < 2:  # noqa: PLR2004  # no other run created one meanwhile
                return StickyText("created", created.html_url)
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
            # GitHub may have created the text although its answer was lost.
            ours = self.ours()
            return ours[0] if ours else self.github.post(Text, self.list_path, data)

    def deduplicate(self, ours: list[Text], content: Mapping[str, str]) -> StickyText:
        """Keep the oldest text, with the newest content of all; each writer does the same."""
        known = [{**text.model_dump(include=self.fields), "body": text.body or ""} for text in ours]
        newest = max([content, *known], key=lambda fields: run_of(fields["body"]))
        action = self.update(ours[0], known[0], newest)
        for text in ours[1:]:
            self.discard(text)
        return StickyText(action if newest is content else "superseded", ours[0].html_url)

    def update(self, text: Text, known: Mapping[str, str], content: Mapping[str, str]) -> Action:
        if all(normalized(content[name]) == normalized(value) for name, value in known.items()):
            return "unchanged"
        self.change(text, content)
        if known.get("state") == content.get("state"):
            return "updated"
        return "reopened" if content["state"] == "open" else "closed"

    def change(self, text: Text, content: Mapping[str, str]) -> None:
        self.github.patch(Text, f"{self.item_path}/{text.id}", content)


class _Comments(_Texts):
    fields: ClassVar = {"body"}

    def listed(self) -> Iterable[Text]:
        return self.github.items(Text, self.list_path)

    def discard(self, text: Text) -> None:
        try:
            self.github.delete(f"{self.item_path}/{text.id}")
        except GitHubError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise


class _Issues(_Texts):
    fields: ClassVar = {"title", "body", "state"}

    def listed(self) -> Iterable[Text]:
        query = f"?state=all&sort=updated&creator={quote(self.author.login, safe='')}"
        texts = self.github.items(Text, self.list_path + query, limit=MAX_ISSUES)
        return (text for text in texts if text.pull_request is None)

    def discard(self, text: Text) -> None:
        if text.state == "open":
            self.change(text, {"state": "closed", "state_reason": "not_planned"})


def with_marker(key: str, body: str, run: tuple[int, int] | None = None) -> str:
    """Return the text after the hidden lines that identify it.

    Args:
        key: file name of the workflow, so that two workflows of one repository do not overwrite
            each other.
        run: run and attempt of the text; None if they are unknown.
    """
    run_line = "" if run is None else f"<!-- ciguard-run:{run[0]}/{run[1]} -->\n"
    return f"{_marker(key)}\n{run_line}{body}"


def _marker(key: str) -> str:
    # Quoted: ">" would end the HTML comment, and a line end the marker.
    return f"<!-- ciguard:{quote(key, safe=' ')} -->"


def run_of(body: str) -> tuple[int, int]:
    """Return run and attempt of a text; (0, 0), older than any other, if they are unknown."""
    second_line = normalized(body).partition("\n")[2].partition("\n")[0]
    match = _RUN.fullmatch(second_line)
    return (int(match[1]), int(match[2])) if match else (0, 0)


def normalized(text: str) -> str:
    """Undo the changes of a web form: other line ends, and blanks around the text."""
    return text.replace("\r\n", "\n").strip()


def own_account(github: GitHub) -> Account:
    """Return our account; that of GITHUB_TOKEN, which may not ask, is the bot of GitHub Actions."""
    if github.is_app_token:
        return ACTIONS_BOT
    try:
        return github.item(Account, "/user")
    except Forbidden:
        return ACTIONS_BOT
