"""What the fake GitHub knows and what each request does to it, apart from HTTP.

The error texts are GitHub's own, word for word; the JSON is complete enough for its description.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Literal
from urllib.parse import urlencode

if TYPE_CHECKING:
    from fakegithub.apps import FakeApp, FakeRepository
    from fakegithub.sign_in import FakeSignIn

TOKEN: Final = "ghs_TheTokenThatMustStaySecret"
DOCS: Final = "https://docs.github.com/rest"
READ_ONLY: Final = "Resource not accessible by integration"
SECONDARY_LIMIT: Final = (
    "You have exceeded a secondary rate limit. Please wait a few minutes before you try again."
)
PRIMARY_LIMIT: Final = "API rate limit exceeded for installation ID 1."
MAX_BODY_CHARS: Final = 65_536

Json = Any


@dataclass(frozen=True, slots=True)
class Login:
    """Who a token is. GITHUB_TOKEN may not ask `GET /user`; a fork's may not write."""

    name: str = "github-actions[bot]"
    type: Literal["User", "Bot"] = "Bot"
    may_read_user: bool = False
    may_write: bool = True


@dataclass(frozen=True, slots=True)
class Answer:
    """What goes back; `status` 0 breaks the connection instead; `spoilt` by a fault.

    `cut_bytes`: the connection breaks behind so many bytes of the body.
    """

    status: int
    value: Json = None
    headers: Mapping[str, str] = field(default_factory=dict)
    text: str | None = None
    content_type: str = "application/json; charset=utf-8"
    spoilt: bool = False
    raw: bytes | None = None
    cut_bytes: int | None = None

    @property
    def content(self) -> bytes:
        if self.raw is not None:
            return self.raw
        if self.text is not None:
            return self.text.encode()
        return b"" if self.value is None else json.dumps(self.value).encode()


@dataclass(frozen=True, slots=True)
class Request:
    """As it came; `path` without the server's prefix, `headers` with lower-case keys."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes

    @property
    def token(self) -> str:
        return self.headers.get("authorization", "").partition(" ")[2]


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request and what it was answered."""

    request: Request
    answer: Answer


@dataclass(slots=True)
class Fault:
    """Something that goes wrong with the next `times` requests that match.

    Attributes:
        method, path: "" matches any; `path` is a part of the request's.
        status: answered with `message`; 0 breaks the connection, 200 leaves the answer as it is.
        done: the request is carried out all the same, and only its answer is lost.
        delay_s: the answer is held back for so long.
        text: sent as `text/html` instead of JSON, as a gateway's page is.
        cut_bytes: the connection breaks behind so many bytes of the answer's body.
    """

    method: str = ""
    path: str = ""
    status: int = 500
    message: str = "Server Error"
    headers: Mapping[str, str] = field(default_factory=dict)
    done: bool = False
    delay_s: float = 0.0
    text: str | None = None
    cut_bytes: int | None = None
    content_type: str = "text/html"
    times: int = 1

    def matches(self, request: Request) -> bool:
        known = self.method in {"", request.method} and self.path in request.path
        return known and self.times > 0

    def spoil(self, answer: Answer) -> Answer:
        if self.status == 0:
            return Answer(0, spoilt=True)
        headers = {**answer.headers, **self.headers}
        spoilt = replace(answer, headers=headers, spoilt=True, cut_bytes=self.cut_bytes)
        if self.status != 200:
            spoilt = replace(refused(self.status, self.message, headers), spoilt=True)
        if self.text is not None:
            spoilt = replace(spoilt, text=self.text, content_type=self.content_type)
        return spoilt


class FakeGitHub:
    """The state, and what each request does to it. Comments are numbered over the whole server.

    Attributes:
        tokens: who may come; a request with another token gets 401.
        app: an App and its installations; their tokens may come, too.
        repositories: those that are in no installation; moved: by a former name, their number.
        exchanges: every request, in the order they were answered.
        jobs: as JSON, of all attempts; `annotations` and `logs` by the id of their job.
        runs: of the list of all, the newest first; only the keys that somebody reads.
        commits_of: by `base...head`, what is between.
        artifacts: names, of which the first has the id 1; `archives` by id, `facts` of the JSON.
        issues, checks: as JSON, by number; noted: a check's annotations, in the order they came.
        merge_bases, behind_by: by `base...head`; pulls_of: numbers, or all of it, by commit;
            files: by path and commit.
        required_by_rules, required_by_protection: names of the checks that each branch requires.
        on_change: called after each change of the comments.
        gate: called with each request before it is answered; may wait.
    """

    def __init__(self, address: str, on_change: Callable[[FakeGitHub], None] | None = None) -> None:
        self.address = address
        self.tokens: dict[str, Login] = {}
        self.app: FakeApp | None = None
        self.repositories: list[FakeRepository] = []
        self.moved: dict[str, int] = {}
        self.sign_in: FakeSignIn | None = None
        self.pulls: set[tuple[str, int]] = set()
        self.comments: dict[int, dict[str, Json]] = {}
        self.jobs: list[dict[str, Json]] = []
        self.annotations: dict[int, list[str]] = {}
        self.logs: dict[int, bytes] = {}
        self.artifacts: list[str] = []
        self.runs: list[dict[str, Json]] = []
        self.run_of_artifact: dict[int, int] = {}
        self.commits_of: dict[str, list[str]] = {}
        self.archives: dict[int, bytes] = {}
        self.facts: dict[int, dict[str, Json]] = {}
        self.issues: dict[int, dict[str, Json]] = {}
        self.checks: dict[int, dict[str, Json]] = {}
        self.noted: dict[int, list[Json]] = {}
        self.merge_bases: dict[str, str] = {}
        self.behind_by: dict[str, int] = {}
        self.pulls_of: dict[str, list[int | dict[str, Json]]] = {}
        self.files: dict[tuple[str, str], bytes] = {}
        self.is_private = True
        self.required_by_rules: list[str] = []
        self.required_by_protection: list[str] = []
        self.faults: list[Fault] = []
        self.exchanges: list[Exchange] = []
        self.gate: Callable[[Request], None] | None = None
        self.lock = threading.RLock()
        self._on_change = on_change
        self._next_id = 1

    def request_log(self) -> list[str]:
        """Give method and path of each request so far."""
        return [f"{one.request.method} {one.request.path}" for one in self.exchanges]

    def bodies(self) -> list[str]:
        """Give the texts of all comments, the oldest first."""
        return [comment["body"] for _, comment in sorted(self.comments.items())]

    def add_comment(self, repository: str, number: int, login: Login, body: str) -> Json:
        self.pulls.add((repository, number))
        comment_id, self._next_id = self._next_id, self._next_id + 1
        comment = comment_json(
            self.address, repository, number, comment_id=comment_id, login=login, body=body
        )
        self.comments[comment_id] = comment
        self.changed()
        return comment

    def changed(self) -> None:
        if self._on_change:
            self._on_change(self)

    def fault_for(self, request: Request) -> Fault | None:
        """Take the first fault that is switched on for this request; it counts down."""
        with self.lock:
            fault = next((one for one in self.faults if one.matches(request)), None)
            if fault:
                fault.times -= 1
            return fault

    def respond(self, request: Request, fault: Fault | None) -> Answer:
        """Do what is asked, spoil it as `fault` says, and write both down."""
        with self.lock:
            heeded = fault is None or fault.done or fault.status == 200
            answer = with_etag(request, self.answer(request)) if heeded else Answer(0)
            if fault:
                answer = fault.spoil(answer)
            self.exchanges.append(Exchange(request, answer))
            return answer

    def answer(self, request: Request) -> Answer:
        """Do what GitHub does with this request."""
        if self.sign_in is not None and request.path == "/login/oauth/access_token":
            return self.sign_in.exchange(self, request)
        login = self.tokens.get(request.token)
        if request.path.startswith(STORAGE):
            login = Login()  # whoever has the address may read
        if login is None and self.app is not None:
            login, refusal = self.app.authenticate(request)
            if refusal:
                return refusal
        if login is None:
            return refused(401, "Bad credentials")
        for pattern, action in ROUTES.items():
            method, _, shape = pattern.partition(" ")
            found = re.fullmatch(shape, request.path)
            if found and request.method == method:
                if method != "GET" and not login.may_write:
                    return refused(403, READ_ONLY, PERMISSIONS)
                return action(self, login, found.groupdict(), request)
        return refused(404, "Not Found")

    def user(self, login: Login, *_: object) -> Answer:
        if not login.may_read_user:
            return refused(403, READ_ONLY)
        return Answer(200, user_json(login))

    def list_comments(self, _: Login, part: Mapping[str, str], request: Request) -> Answer:
        repository, number = part["repository"], int(part["number"])
        if (repository, number) not in self.pulls and number not in self.issues:
            return refused(404, "Not Found")
        issue_url = f"{self.address}/repos/{repository}/issues/{number}"
        found = [one for _, one in sorted(self.comments.items()) if one["issue_url"] == issue_url]
        shown, link = paged(self.address, request, found)
        return Answer(200, shown, link)

    def create_comment(self, login: Login, part: Mapping[str, str], request: Request) -> Answer:
        repository, number = part["repository"], int(part["number"])
        if (repository, number) not in self.pulls and number not in self.issues:
            return refused(404, "Not Found")
        invalid = invalid_body(request.body)
        if invalid:
            return invalid
        made = self.add_comment(repository, number, login, json.loads(request.body)["body"])
        return Answer(201, dict(made), {"Location": made["url"]})

    def read_comment(self, _: Login, part: Mapping[str, str], *__: object) -> Answer:
        comment = self.comments.get(int(part["comment"]))
        return Answer(200, dict(comment)) if comment else refused(404, "Not Found")

    def change_comment(self, login: Login, part: Mapping[str, str], request: Request) -> Answer:
        comment = self.comments.get(int(part["comment"]))
        if comment is None:
            return refused(404, "Not Found")
        if comment["user"]["login"] != login.name:
            return refused(403, READ_ONLY, PERMISSIONS)
        invalid = invalid_body(request.body)
        if invalid:
            return invalid
        comment["body"] = json.loads(request.body)["body"]
        self.changed()
        return Answer(200, dict(comment))

    def delete_comment(self, _: Login, part: Mapping[str, str], *__: object) -> Answer:
        if self.comments.pop(int(part["comment"]), None) is None:
            return refused(404, "Not Found")
        self.changed()
        return Answer(204)


STORAGE: Final = "/storage/"
PERMISSIONS: Final = {"X-Accepted-GitHub-Permissions": "issues=write; pull_requests=write"}
_THREAD: Final = r"/repos/(?P<repository>[^/]+/[^/]+)/issues/(?P<number>\d+)/comments"
_COMMENT: Final = r"/repos/(?P<repository>[^/]+/[^/]+)/issues/comments/(?P<comment>\d+)"

ROUTES: Final[dict[str, Callable[..., Answer]]] = {
    "GET /user": FakeGitHub.user,
    f"GET {_THREAD}": FakeGitHub.list_comments,
    f"POST {_THREAD}": FakeGitHub.create_comment,
    f"GET {_COMMENT}": FakeGitHub.read_comment,
    f"PATCH {_COMMENT}": FakeGitHub.change_comment,
    f"DELETE {_COMMENT}": FakeGitHub.delete_comment,
}


def with_etag(request: Request, answer: Answer) -> Answer:
    """The answer with its ETag; 304 for whoever has it already."""
    if request.method != "GET" or answer.status != 200 or answer.value is None:
        return answer
    etag = f'W/"{hashlib.sha256(answer.content).hexdigest()}"'
    headers = {**answer.headers, "ETag": etag}
    if request.headers.get("if-none-match") == etag:
        return Answer(304, headers=headers)
    return replace(answer, headers=headers)


def paged(address: str, request: Request, found: list[Json]) -> tuple[list[Json], dict[str, str]]:
    """One page, and the header that names the next one."""
    size, page = min(int(request.query.get("per_page", 30)), 100), int(request.query.get("page", 1))
    end = page * size

    def link(number: int, name: str) -> str:
        query = urlencode({**request.query, "per_page": size, "page": number})
        return f'<{address}{request.path}?{query}>; rel="{name}"'

    links = f"{link(page + 1, 'next')}, {link(-(-len(found) // size), 'last')}"
    return found[end - size : end], {"Link": links} if end < len(found) else {}


def refused(status: int, message: str, headers: Mapping[str, str] | None = None) -> Answer:
    value = {"message": message, "documentation_url": DOCS, "status": str(status)}
    return Answer(status, value, headers or {})


def invalid_body(body: bytes) -> Answer | None:
    text = json.loads(body).get("body")
    limit = f"Body is too long (maximum is {MAX_BODY_CHARS} characters)"
    if isinstance(text, str) and text.strip() and len(text) <= MAX_BODY_CHARS:
        return None
    message = limit if isinstance(text, str) and text.strip() else "Body can't be blank"
    error = {"resource": "IssueComment", "code": "unprocessable", "field": "data"}
    errors = [{**error, "message": message}]
    value = {"message": "Validation Failed", "errors": errors, "documentation_url": DOCS}
    return Answer(422, {**value, "status": "422"})


def user_json(login: Login) -> Json:
    api, site = f"https://api.github.com/users/{login.name}", f"https://github.com/{login.name}"
    lists = ("followers", "subscriptions", "orgs", "repos", "received_events")
    names = {"orgs": "organizations_url"}
    return {
        "login": login.name,
        "id": 41898282,
        "node_id": "MDM6Qm90NDE4OTgyODI=",
        "avatar_url": "https://avatars.githubusercontent.com/in/15368?v=4",
        "gravatar_id": "",
        "url": api,
        "html_url": site,
        **{names.get(one, f"{one}_url"): f"{api}/{one}" for one in lists},
        "following_url": f"{api}/following{{/other_user}}",
        "gists_url": f"{api}/gists{{/gist_id}}",
        "starred_url": f"{api}/starred{{/owner}}{{/repo}}",
        "events_url": f"{api}/events{{/privacy}}",
        "type": login.type,
        "user_view_type": "public",
        "site_admin": False,
    }


def comment_json(
    address: str, repository: str, number: int, *, comment_id: int, login: Login, body: str
) -> dict[str, Json]:
    url = f"{address}/repos/{repository}/issues/comments/{comment_id}"
    feelings = ("+1", "-1", "laugh", "hooray", "confused", "heart", "rocket", "eyes")
    return {
        "id": comment_id,
        "node_id": f"IC_{comment_id}",
        "url": url,
        "html_url": f"https://github.com/{repository}/pull/{number}#issuecomment-{comment_id}",
        "issue_url": f"{address}/repos/{repository}/issues/{number}",
        "user": user_json(login),
        "created_at": "2026-11-21T10:00:00Z",
        "updated_at": "2026-11-21T10:00:00Z",
        "body": body,
        "author_association": "NONE",
        "performed_via_github_app": None,
        "reactions": {"url": f"{url}/reactions", "total_count": 0, **dict.fromkeys(feelings, 0)},
    }
