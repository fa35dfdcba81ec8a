"""What the fake GitHub says of runs: jobs, annotations, logs, artifacts; and of commits."""

from __future__ import annotations

import base64
import hashlib
import io
import zipfile
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from fakegithub.state import STORAGE, Answer, FakeGitHub, Login, Request, paged, refused, user_json

if TYPE_CHECKING:
    from fakegithub.apps import FakeRepository

Json = Any
REPOSITORY: Final = "octo-org/shop"
TIP: Final = "b4" * 20  # of each branch
MAX_FILTERED: Final = 1_000
FINISHED_RUN: Final[Mapping[str, Json]] = {
    "run_attempt": 1,
    "event": "push",
    "status": "completed",
    "conclusion": "success",
    "head_branch": "main",
    "head_sha": "a" * 40,
    "path": ".github/workflows/tests.yml",
}
ABSENT: Final = (
    '<?xml version="1.0" encoding="utf-8"?><Error><Code>BlobNotFound</Code>'
    "<Message>The specified blob does not exist.</Message></Error>"
)


def add_job(
    github: FakeGitHub,
    name: str,
    conclusion: str | None = "success",
    *,
    run: int = 7,
    attempt: int = 1,
    status: str = "completed",
    steps: Sequence[tuple[str, str | None]] = (("Run the shard", "success"),),
    ends: Mapping[str, str] | None = None,
    started_at: str = "2026-11-21T10:00:00Z",
    completed_at: str | None = "2026-11-21T10:05:00Z",
    annotations: Sequence[str] = (),
    log: str | None = None,
) -> int:
    """Put a job into a run; the id it got, which is also that of its check run.

    Args:
        ends: when steps ended, by name; all others took as long as the job.
    """
    number = 1000 + len(github.jobs)
    api = f"{github.address}/repos/{REPOSITORY}"
    times = {"started_at": started_at, "completed_at": completed_at}
    github.jobs.append(
        {
            "id": number,
            "run_id": run,
            "run_url": f"{api}/actions/runs/{run}",
            "run_attempt": attempt,
            "node_id": f"CR_{number}",
            "head_sha": "a" * 40,
            "head_branch": "main",
            "workflow_name": "tests",
            "url": f"{api}/actions/jobs/{number}",
            "html_url": f"https://github.com/{REPOSITORY}/actions/runs/{run}/job/{number}",
            "status": status,
            "conclusion": conclusion,
            "created_at": "2026-11-21T09:59:00Z",
            **times,
            "name": name,
            "steps": [
                {
                    "name": step,
                    "status": "completed",
                    "conclusion": ended,
                    "number": at,
                    **times,
                    **({"completed_at": ends[step]} if ends and step in ends else {}),
                }
                for at, (step, ended) in enumerate(steps, 1)
            ],
            "check_run_url": f"{api}/check-runs/{number}",
            "labels": ["ubuntu-latest"],
            "runner_id": 1,
            "runner_name": "GitHub Actions 1",
            "runner_group_id": 0,
            "runner_group_name": "GitHub Actions",
        }
    )
    github.annotations[number] = list(annotations)
    if log is not None:
        github.logs[number] = log.encode()
    return number


def list_jobs(github: FakeGitHub, _: Login, part: Mapping[str, str], request: Request) -> Answer:
    attempt = int(part.get("attempt") or 0)
    found = [one for one in github.jobs if one["run_id"] == int(part["run"])]
    if not found:
        return refused(404, "Not Found")
    if not attempt and request.query.get("filter", "latest") == "latest":
        attempt = max(one["run_attempt"] for one in found)
    found = [one for one in found if attempt in (0, one["run_attempt"])]
    shown, link = paged(github.address, request, found)
    return Answer(200, {"total_count": len(found), "jobs": shown}, link)


def list_annotations(
    github: FakeGitHub, _: Login, part: Mapping[str, str], request: Request
) -> Answer:
    output = github.annotations.get(int(part["check"]))
    if output is None:
        return refused(404, "Not Found")
    found = [
        {
            "path": ".github",
            "blob_href": f"https://github.com/{REPOSITORY}/blob/{'a' * 40}/.github",
            "start_line": 1,
            "start_column": None,
            "end_line": 1,
            "end_column": None,
            "annotation_level": "failure",
            "title": "",
            "message": message,
            "raw_details": "",
        }
        for message in output
    ]
    shown, link = paged(github.address, request, found)
    return Answer(200, shown, link)


def one_job(github: FakeGitHub, _: Login, part: Mapping[str, str], *__: object) -> Answer:
    found = [one for one in github.jobs if one["id"] == int(part["job"])]
    return Answer(200, found[0]) if found else refused(404, "Not Found")


def job_log(github: FakeGitHub, _: Login, part: Mapping[str, str], *__: object) -> Answer:
    """Redirect to a storage that is another host, as far as a client can see."""
    number = int(part["job"])
    if number not in github.logs:
        return Answer(404, text=ABSENT, content_type="application/xml")
    other_shard = github.address.replace("127.0.0.1", "localhost")
    return Answer(302, headers={"Location": f"{other_shard}{STORAGE}{number}?sig=secret"})


def add_run(github: FakeGitHub, run_id: int, **facts: Json) -> None:
    """Put a finished run of tests.yml into the list of all."""
    run = {**FINISHED_RUN, "id": run_id, "head_repository": {"full_name": REPOSITORY}, **facts}
    github.runs.insert(0, run)


def list_runs(github: FakeGitHub, _: Login, part: Mapping[str, str], request: Request) -> Answer:
    """At most 1,000 of them, however many are counted, as GitHub does where it filters."""
    requested = request.query
    here = find_repository(github, part["repository"])
    number = here.id if here else None
    found = [
        one
        for one in github.runs
        if one.get("repository", {}).get("id") == number
        and is_within(one.get("created_at", ""), requested.get("created"))
        and requested.get("branch") in (None, one["head_branch"])
        and requested.get("event") in (None, one["event"])
        and requested.get("status") in (None, one["status"], one["conclusion"])
        and one["path"].endswith(f"/{part['workflow']}" if part.get("workflow") else "")
    ]
    shown, link = paged(github.address, request, found[:MAX_FILTERED])
    return Answer(200, {"total_count": len(found), "workflow_runs": shown}, link)


def one_run(github: FakeGitHub, _: Login, part: Mapping[str, str], *__: object) -> Answer:
    """An attempt of a run; of an earlier one GitHub has the same but for its number."""
    run_id, attempt = int(part["run"]), int(part["attempt"])
    for one in github.runs:
        if one["id"] == run_id and attempt <= one["run_attempt"]:
            return Answer(200, {**one, "run_attempt": attempt})
    return refused(404, "Not Found")


def is_within(time: str, wanted: str | None) -> bool:
    """Whether a time is in `A..B` (both inclusive), `>=A` or `<=B`; all are written alike."""
    if wanted is None:
        return True
    if wanted.startswith("<="):
        return time <= wanted[2:]
    first, _, last = wanted.removeprefix(">=").partition("..")
    return first <= time and (not last or time <= last)


def add_artifact(
    github: FakeGitHub,
    name: str,
    content: Mapping[str, bytes] | bytes,
    run: Json = 7,
    **facts: Json,
) -> int:
    """Put an artifact into a run; the id it got.

    Args:
        content: its files, or the archive itself.
        facts: what its JSON says otherwise, as `expired` or `digest`.
    """
    archive = content if isinstance(content, bytes) else zipped(content)
    github.artifacts.append(name)
    number = len(github.artifacts)
    github.archives[number] = archive
    github.run_of_artifact[number] = run
    digest = f"sha256:{hashlib.sha256(archive).hexdigest()}"
    github.facts[number] = {"digest": digest, "size_in_bytes": len(archive), **facts}
    return number


def zipped(files: Mapping[str, bytes]) -> bytes:
    """A zip archive as actions/upload-artifact makes one."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return stream.getvalue()


def artifact_archive(github: FakeGitHub, _: Login, part: Mapping[str, str], *__: object) -> Answer:
    """Redirect to the storage, as for logs."""
    number = int(part["artifact"])
    if number not in github.archives:
        return refused(404, "Not Found")
    if github.facts[number].get("expired"):
        return refused(410, "Artifact has expired")
    other_shard = github.address.replace("127.0.0.1", "localhost")
    return Answer(302, headers={"Location": f"{other_shard}{STORAGE}zip/{number}?sig=secret"})


def stored_archive(
    github: FakeGitHub, _: Login, part: Mapping[str, str], request: Request
) -> Answer:
    """The archive; a second credential is refused."""
    if "authorization" in request.headers:
        return Answer(400, text="<Error><Code>InvalidArgument</Code></Error>")
    content = github.archives.get(int(part["blob"]))
    if content is None:
        return Answer(404, text=ABSENT, content_type="application/xml")
    return Answer(200, raw=content, content_type="application/zip")


def stored(github: FakeGitHub, _: Login, part: Mapping[str, str], request: Request) -> Answer:
    """The storage refuses whoever brings a second credential, as the real one does."""
    if "authorization" in request.headers:
        return Answer(400, text="<Error><Code>InvalidArgument</Code></Error>")
    log = github.logs.get(int(part["blob"]))
    if log is None:
        return Answer(404, text=ABSENT, content_type="application/xml")
    return Answer(200, text=log.decode(), content_type="text/plain; charset=utf-8")


def list_artifacts(
    github: FakeGitHub, _: Login, part: Mapping[str, str], request: Request
) -> Answer:
    """Of a run, or of all runs, the newest first; by name where one is asked for."""
    api = f"{github.address}/repos/{REPOSITORY}/actions/artifacts"
    time = "2026-11-21T10:05:00Z"
    found = [
        {
            "id": number,
            "node_id": f"A_{number}",
            "name": name,
            "size_in_bytes": 1000,
            "url": f"{api}/{number}",
            "archive_download_url": f"{api}/{number}/zip",
            "expired": False,
            "created_at": time,
            "expires_at": time,
            "updated_at": time,
            **github.facts.get(number, {}),
        }
        for number, name in enumerate(github.artifacts, 1)
        if "run" not in part or int(part["run"]) == github.run_of_artifact.get(number, 7)
        if request.query.get("name") in (None, name)
    ]
    if "run" not in part:
        found.reverse()
    shown, link = paged(github.address, request, found)
    return Answer(200, {"total_count": len(found), "artifacts": shown}, link)


def commit_json(github: FakeGitHub, sha: str) -> Json:
    url = f"{github.address}/repos/{REPOSITORY}/commits/{sha}"
    who = {"name": "octocat", "email": "octocat@example.com", "date": "2026-11-21T09:00:00Z"}
    unsigned = {"verified": False, "reason": "unsigned", "signature": None, "payload": None}
    return {
        "url": url,
        "sha": sha,
        "node_id": f"C_{sha[:7]}",
        "html_url": f"https://github.com/{REPOSITORY}/commit/{sha}",
        "comments_url": f"{url}/comments",
        "commit": {
            "url": url,
            "author": who,
            "committer": who,
            "message": "a change",
            "comment_count": 0,
            "tree": {"sha": "f" * 40, "url": url},
            "verification": {**unsigned, "verified_at": None},
        },
        "author": user_json(Login()),
        "committer": user_json(Login()),
        "parents": [],
    }


def compare(github: FakeGitHub, _: Login, part: Mapping[str, str], *__: object) -> Answer:
    basehead = unquote(part["basehead"])
    base, head = basehead.split("...")
    # All commits are on each branch, but for those of which a test says otherwise.
    parted = github.merge_bases.get(basehead, head if base == TIP else None)
    if parted is None:
        return refused(404, "Not Found")
    site = f"https://github.com/{REPOSITORY}/compare/{basehead}"
    value = {
        "url": f"{github.address}/repos/{REPOSITORY}/compare/{basehead}",
        "html_url": site,
        "permalink_url": site,
        "diff_url": f"{site}.diff",
        "patch_url": f"{site}.patch",
        "base_commit": commit_json(github, base),
        "merge_base_commit": commit_json(github, parted),
        "status": {base: "ahead", head: "behind"}.get(parted, "diverged"),
        "ahead_by": int(parted != head),
        "behind_by": github.behind_by.get(basehead, int(parted != base)),
        "total_commits": 1,
        "commits": [commit_json(github, sha) for sha in github.commits_of.get(basehead, [])],
        "files": [],
    }
    return Answer(200, value)


def pulls_of_commit(
    github: FakeGitHub, _: Login, part: Mapping[str, str], request: Request
) -> Answer:
    tips = {"head": {"sha": part["sha"], "ref": "topic"}, "base": {"sha": "b" * 40, "ref": "main"}}
    found = [
        one if isinstance(one, dict) else {"number": one, **tips}
        for one in github.pulls_of.get(part["sha"], [])
    ]
    shown, link = paged(github.address, request, found)
    return Answer(200, shown, link)


def _folder(github: FakeGitHub, path: str, ref: str) -> Answer:
    """What lies in it; the root of a commit that nobody knows is not there."""
    prefix = f"{path}/" if path else ""
    below = [
        name.removeprefix(prefix)
        for name, at in sorted(github.files)
        if at == ref and name.startswith(prefix)
    ]
    if not below:
        return refused(404, "Not Found")
    found = {name.partition("/")[0]: "dir" if "/" in name else "file" for name in below}
    return Answer(200, [{"name": name, "type": kind} for name, kind in found.items()])


def contents(github: FakeGitHub, _: Login, part: Mapping[str, str], request: Request) -> Answer:
    path = unquote(part["path"])
    ref = request.query.get("ref", "")
    content = github.files.get((path, ref))
    if content is None:
        return _folder(github, path, ref)
    small = len(content) <= 1_000_000
    value = {
        "type": "file",
        "encoding": "base64" if small else "none",
        "size": len(content),
        "name": path.rpartition("/")[2],
        "path": path,
        "sha": hashlib.sha1(content).hexdigest(),
        "content": base64.encodebytes(content).decode() if small else "",
    }
    return Answer(200, value)


def blob(github: FakeGitHub, _: Login, part: Mapping[str, str], __: Request) -> Answer:
    for content in github.files.values():
        if hashlib.sha1(content).hexdigest() == part["sha"]:
            text = base64.encodebytes(content).decode()
            value = {"encoding": "base64", "size": len(content), "sha": part["sha"]}
            return Answer(200, {**value, "content": text})
    return refused(404, "Not Found")


def repository(github: FakeGitHub, _: Login, part: Mapping[str, str], *__: object) -> Answer:
    """A repository by its name; by a name that it had, GitHub says where it is now."""
    found = find_repository(github, part["repository"])
    if found is not None:
        return Answer(200, found.as_json())
    moved = github.moved.get(part["repository"])
    if moved is not None:
        return Answer(
            301,
            {"message": "Moved Permanently"},
            {"Location": f"{github.address}/repositories/{moved}"},
        )
    if part["repository"] != REPOSITORY:
        return refused(404, "Not Found")
    value = {"full_name": REPOSITORY, "default_branch": "main", "private": github.is_private}
    return Answer(200, value)


def repository_by_id(github: FakeGitHub, _: Login, part: Mapping[str, str], *__: object) -> Answer:
    found = [one for one in all_repositories(github) if one.id == int(part["number"])]
    return Answer(200, found[0].as_json()) if found else refused(404, "Not Found")


def all_repositories(github: FakeGitHub) -> list[FakeRepository]:
    installations = github.app.installations.values() if github.app else ()
    return [*github.repositories, *(one for each in installations for one in each.repositories)]


def find_repository(github: FakeGitHub, full_name: str) -> FakeRepository | None:
    found = (one for one in all_repositories(github) if one.full_name == full_name)
    return next(found, None)


def branch_rules(github: FakeGitHub, *_: object) -> Answer:
    """Rules of rulesets: of one that requires checks, and of another kind."""
    checks = [{"context": name, "integration_id": 15368} for name in github.required_by_rules]
    source = {"ruleset_source_type": "Repository", "ruleset_source": REPOSITORY, "ruleset_id": 42}
    parameters = {"strict_required_status_checks_policy": True, "required_status_checks": checks}
    rules: list[Json] = [{"type": "deletion", **source}]
    rules += [{"type": "required_status_checks", **source, "parameters": parameters}] * bool(checks)
    return Answer(200, rules)


def branch(github: FakeGitHub, _: Login, part: Mapping[str, str], *__: object) -> Answer:
    """A branch, with what whoever may read sees of its classic protection."""
    contexts = github.required_by_protection
    required = {"enforcement_level": "non_admins" if contexts else "off", "contexts": contexts}
    protection = {"enabled": bool(contexts), "required_status_checks": {**required, "checks": []}}
    name = unquote(part["branch"])
    facts = {"name": name, "protected": bool(contexts), "protection": protection}
    return Answer(200, {**facts, "commit": commit_json(github, TIP)})


def meta(*_: object) -> Answer:
    return Answer(200, {"verifiable_password_authentication": True, "installed_version": "3.17.4"})


_HERE: Final = r"/repos/[^/]+/[^/]+"
_NAMED: Final = r"/repos/(?P<repository>[^/]+/[^/]+)"
ACTIONS: Final[Mapping[str, Callable[..., Answer]]] = {
    rf"GET {_NAMED}/actions/runs": list_runs,
    rf"GET {_NAMED}/actions/workflows/(?P<workflow>[^/]+)/runs": list_runs,
    rf"GET {_NAMED}": repository,
    r"GET /repositories/(?P<number>\d+)": repository_by_id,
    rf"GET {_HERE}/rules/branches/(?P<branch>[^/]+)": branch_rules,
    rf"GET {_HERE}/branches/(?P<branch>[^/]+)": branch,
    "GET /meta": meta,
    rf"GET {_HERE}/actions/runs/(?P<run>\d+)/jobs": list_jobs,
    rf"GET {_HERE}/actions/runs/(?P<run>\d+)/attempts/(?P<attempt>\d+)/jobs": list_jobs,
    rf"GET {_HERE}/actions/runs/(?P<run>\d+)/attempts/(?P<attempt>\d+)": one_run,
    rf"GET {_HERE}/actions/runs/(?P<run>\d+)/artifacts": list_artifacts,
    rf"GET {_HERE}/actions/artifacts": list_artifacts,
    rf"GET {_HERE}/actions/jobs/(?P<job>\d+)": one_job,
    rf"GET {_HERE}/actions/jobs/(?P<job>\d+)/logs": job_log,
    rf"GET {_HERE}/check-runs/(?P<check>\d+)/annotations": list_annotations,
    rf"GET {_HERE}/compare/(?P<basehead>[^/]+)": compare,
    rf"GET {_HERE}/commits/(?P<sha>[^/]+)/pulls": pulls_of_commit,
    rf"GET {_HERE}/contents/(?P<path>.*)": contents,
    rf"GET {_HERE}/git/blobs/(?P<sha>[0-9a-f]+)": blob,
    rf"GET {_HERE}/actions/artifacts/(?P<artifact>\d+)/zip": artifact_archive,
    rf"GET {STORAGE}(?P<blob>\d+)": stored,
    rf"GET {STORAGE}zip/(?P<blob>\d+)": stored_archive,
}
