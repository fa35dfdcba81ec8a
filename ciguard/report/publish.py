"""The publication of a report on GitHub: as comment, check and issue.

Pull request, commit and branch come from GitHub's event, never from a record. A text that the token
may not write becomes a note of the job's summary, and the verdict stays the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Any, ClassVar, Final, Literal
from urllib.parse import quote

from pydantic import SecretStr

from ciguard.document import Block
from ciguard.errors import ExitCode
from ciguard.github.api_errors import Forbidden, GitHubError, MaybeDone
from ciguard.github.client import GitHub
from ciguard.github.events import ActionsRun, current_run
from ciguard.github.models import Account, CheckRun, Text
from ciguard.github.repository_ref import token_of
from ciguard.github.run_client import open_pulls, pulls_of
from ciguard.guard.annotations_and_outputs import Annotation, annotations_of
from ciguard.render.markdown import SizeLimit, as_markdown, utf16_units
from ciguard.report.view import Report, ReportData, links_of_run
from ciguard.text import one_line

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
        pull_request: number of the pull request or issue.
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
    """Keep the one issue for `key` open while the branch is red, otherwise closed.

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


_ACTION_WORDS: Final = {"not_needed": "not needed", "superseded": "left to a newer run"}
MAX_ANNOTATIONS: Final = 50  # errors, and as many warnings: GitHub takes 50 in a call
LEFT_TO_SERVICE: Final = 'comment left to the service ([report] by = "service")'
FORK: Final = (
    "A fork's pull request has a read-only token: set `forks = true` under `[workflow]`; `ciguard "
    "init` then writes a workflow that comments."
)


@dataclass(frozen=True, slots=True)
class Published:
    """The texts that were written, and notes with advice on those that were not, in Markdown."""

    done: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    exit_code: int = ExitCode.OK


@dataclass(frozen=True, slots=True)
class Channels:
    comment: bool = False
    check: bool = False
    issue: bool = False

    def __bool__(self) -> bool:
        return self.comment or self.check or self.issue


def publish_in_job(
    environ: Mapping[str, str], answer: Report, wanted: Channels, *, comment_by: str = "workflow"
) -> Published:
    """Publish in the wanted channels, with the token of this job.

    Args:
        comment_by: "service" if the service comments, and not the job.

    Raises:
        InputError: variables or payload are malformed.
        UsageError: there is no token, or several that differ.
    """
    run = current_run(environ) if wanted else None
    if run is None:
        return Published(
            ("nothing is published: this is not a run of GitHub Actions",) if wanted else ()
        )
    done: tuple[str, ...] = ()
    if wanted.comment and comment_by == "service":
        done, wanted = (LEFT_TO_SERVICE,), replace(wanted, comment=False)
    elif wanted.comment and not _actions(run, wanted):
        done = ("no comment: this run belongs to no pull request",)
    if answer.contents is not None and answer.contents.plan.drill is not None:
        wanted = replace(wanted, issue=False)
    if not _actions(run, wanted):
        return Published(done)
    with GitHub(run.api_url, SecretStr(token_of(environ))) as github:
        published = publish(github, run, answer, wanted)
    return replace(published, done=(*done, *published.done))


def publish(
    github: GitHub,
    run: ActionsRun,
    answer: Report,
    wanted: Channels,
    *,
    author: Account | None = None,
) -> Published:
    """Publish in the wanted channels that suit the run.

    Args:
        run: the judged run, or the run that judges it.
        author: account of the client; None: the token's own account.
    """
    done, notes, code = [], [], ExitCode.OK
    publisher = _Publisher(github, run, answer, author)
    for channel, act in _actions(run, wanted):
        try:
            done.append(act(publisher))
        except Forbidden as error:
            fix = FORK if run.is_fork and channel == "comment" else f"To allow it, {error.fix}."
            refused = f"could not be written with this token ({error.what})"
            notes.append(f"The {channel} {refused}. {fix}")
        except GitHubError as error:
            detail = one_line(" ".join(str(error).split()), 400)
            notes.append(f"The {channel} could not be written: {detail}")
            code = ExitCode.REMOTE
    return Published(tuple(done), tuple(notes), code)


def _actions(run: ActionsRun, wanted: Channels) -> list[tuple[str, Callable[[_Publisher], str]]]:
    """Return the writers by channel; none if only a comment is wanted, without a pull request."""
    actions: list[tuple[str, Callable[[_Publisher], str]]] = []
    if wanted.comment:
        actions.append(("comment", _Publisher.comment))
    if wanted.check:
        actions.append(("check", _Publisher.check))
    if wanted.issue and run.is_base_branch:
        actions.append(("issue", _Publisher.issue))
    is_comment_alone = wanted.comment and len(actions) == 1
    has_pull_request = run.pull_request is not None or run.triggering.event == "pull_request"
    return [] if is_comment_alone and not has_pull_request else actions


def _done(channel: str, text: StickyText) -> str:
    words = _ACTION_WORDS.get(text.action, text.action)
    return f"{channel} {words}: {text.html_url}".removesuffix(": ")


@dataclass(frozen=True, slots=True)
class _Publisher:
    github: GitHub
    run: ActionsRun
    answer: Report
    author: Account | None = None

    @property
    def key(self) -> str:
        return self.run.subject_workflow

    def comment(self) -> str:
        numbers = self.pull_requests()
        if not numbers:
            return "no comment: no open pull request is known for this run"
        run, text = self.run, self.sticky_text()
        comments = [
            upsert_comment(
                self.github,
                run.repository,
                number,
                key=self.key,
                body=text,
                run=run.subject_run,
                author=self.author,
            )
            for number in numbers
        ]
        return "\n".join(_done("comment", comment) for comment in comments)

    def sticky_text(self) -> str:
        """Return the report, short enough for GitHub together with its marker."""
        room = MAX_CHARS - len(with_marker(self.key, "", self.run.subject_run))
        return self.answer.text(SizeLimit(room, utf16_units))

    def pull_requests(self) -> tuple[int, ...]:
        """Return the pull request of the event; for another run, those with its head commit."""
        run = self.run
        if run.pull_request is not None:
            return (run.pull_request,)
        if run.triggering.event != "pull_request" or run.triggering.head_sha is None:
            return ()
        pulls = pulls_of(self.github, run.repository, run.triggering.head_sha)
        return tuple(pull.number for pull in open_pulls(run.triggering, pulls, run.repository))

    def check(self) -> str:
        run, answer = self.run, self.answer
        sha = run.triggering.head_sha if run.is_triggered else run.head_sha
        if sha is None:
            return "no check: GitHub did not say which commit this is"
        stamp = run.subject_run or (0, 0)
        check = create_check(
            self.github,
            run.repository,
            sha,
            name=f"ciguard ({self.key})",
            external_id=f"{stamp[0]}/{stamp[1]}",
            passed=not answer.exit_code,
            title=one_line(answer.headline, MAX_TITLE),
            summary=answer.text(SizeLimit(MAX_SUMMARY, utf16_units)),
            annotations=check_annotations(answer.contents, self.key) if answer.contents else (),
            details_url=links_of_run(run, {}, {}).run,
        )
        return f"check created: {check.html_url or check.id}"

    def issue(self) -> str:
        run, answer = self.run, self.answer
        word = "is red" if answer.exit_code else "has regressed"
        issue = upsert_issue(
            self.github,
            run.repository,
            key=self.key,
            title=one_line(f"{run.branch} {word} ({self.key})", 200),
            body=self.sticky_text(),
            is_red=answer.needs_attention,
            run=run.subject_run,
            author=self.author,
        )
        return _done("issue", issue)


def check_annotations(contents: ReportData, workflow: str) -> tuple[Annotation, ...]:
    """Return the annotations of a check: decisive findings, then failures, then warnings.

    Args:
        workflow: file for annotations without a file, as GitHub requires one.
    """
    default = f".github/workflows/{workflow}" if workflow.endswith((".yml", ".yaml")) else ".github"
    return tuple(
        replace(item, line=item.line or 1) if item.file else replace(item, file=default, line=1)
        for item in annotations_of(contents.verdict, MAX_ANNOTATIONS)
    )


MAX_SUMMARY: Final = 65_535  # GitHub's limit for a check's summary
BATCH: Final = 50  # annotations that GitHub takes in a call
MAX_TITLE: Final = 255
MAX_MESSAGE: Final = 16_000  # GitHub takes 64 KB; a character may have four


def create_check(
    github: GitHub,
    repository: str,
    head_sha: str,
    *,
    name: str,
    external_id: str,
    passed: bool,
    title: str,
    summary: str,
    annotations: Sequence[Annotation] = (),
    details_url: str = "",
) -> CheckRun:
    """Create a completed check; GitHub shows the newest check of a name.

    Args:
        external_id: distinguishes this check from others of its name, so that a lost answer does
            not create a second check.
        annotations: each with a file and a line, as GitHub requires both.

    Raises:
        Forbidden: the token may not write checks.
        GitHubError: the check was not created for another reason.
    """
    batches = [annotations[at : at + BATCH] for at in range(0, len(annotations), BATCH)] or [()]
    output = {"title": title[:MAX_TITLE], "summary": summary}
    data: dict[str, Any] = {
        "name": name,
        "head_sha": head_sha,
        "external_id": external_id,
        "status": "completed",
        "conclusion": "success" if passed else "failure",
        "output": _with_annotations(output, batches[0]),
    }
    if details_url:
        data["details_url"] = details_url
    path = f"/repos/{repository}/check-runs"
    try:
        check = github.post(CheckRun, path, data)
    except MaybeDone:
        sha, query = quote(head_sha, safe=""), f"check_name={quote(name, safe='')}&filter=all"
        listed_path = f"/repos/{repository}/commits/{sha}/check-runs?{query}"
        listed = github.items(CheckRun, listed_path, key="check_runs")
        existing = next((one for one in listed if one.external_id == external_id), None)
        check = existing or github.post(CheckRun, path, data)
    for batch in batches[1:]:
        # GitHub adds these annotations to the existing ones.
        github.patch(CheckRun, f"{path}/{check.id}", {"output": _with_annotations(output, batch)})
    return check


def _with_annotations(output: dict[str, str], batch: Sequence[Annotation]) -> dict[str, Any]:
    return {**output, "annotations": [_as_json(annotation) for annotation in batch]}


def _as_json(annotation: Annotation) -> dict[str, Any]:
    titled = {"title": annotation.title[:MAX_TITLE]} if annotation.title else {}
    return {
        "path": annotation.file,
        "start_line": annotation.line,
        "end_line": annotation.line,
        "annotation_level": "warning" if annotation.level == "warning" else "failure",
        "message": annotation.message[:MAX_MESSAGE],
        **titled,
    }


def publish_culprits(environ: Mapping[str, str], blocks: Sequence[Block]) -> str:
    """Write this run's comment on the base's open issue, and return in words what was done."""
    run = current_run(environ)
    if run is None or not run.is_base_branch:
        return "nothing is published: this is not a run of the base branch"
    path = f"/repos/{run.repository}/issues"
    with GitHub(run.api_url, SecretStr(token_of(environ))) as github:
        ours = _Issues(github, path, path, own_account(github), run.workflow).ours()
        number = next((issue.id for issue in ours if issue.state == "open"), None)
        if number is None:
            return f"nothing is published: ciguard has no open issue for {run.workflow}"
        key = f"{run.workflow} culprit {run.run_id}"
        text = as_markdown(blocks, limit=SizeLimit(MAX_CHARS - 1024, utf16_units))
        where = github, run.repository, number
        done = upsert_comment(*where, key=key, body=text, run=run.subject_run)
    return f"comment {done.action}: {done.html_url}"
