"""Claims of the documentation about GitHub Actions, tried on a real repository: true or false?

    GITHUB_TOKEN=... .venv/bin/python tests/real/github.py OWNER/NAME

Each probe pushes a workflow of `workflows/` to a branch below `ciguard-real/` and collects what
GitHub says of its run; `claims.toml` compares that with sentences of the documentation. Its commits
hold nothing else, so no other workflow runs (but one on `pull_request_target`: use an empty
repository). Branches, pull requests and rulesets are deleted at the end; runs stay. 20 minutes.

The token may write contents, workflows, actions, pull requests, and administration for the merge
queue. `--fork` names a fork of a second account, whose token is in FORK_TOKEN.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import sys
import time
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

HERE = Path(__file__).parent
PREFIX = f"ciguard-real/{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}"
# A line of a log is its time and its text. The script that prints it is there, too, in colour.
FACT = re.compile(r"(?m)^\S+Z fact (\w+)=(.*?)\r?$")
POLL_S, TIMEOUT_S = 5.0, 900.0
ENQUEUE = "mutation($id:ID!){enqueuePullRequest(input:{pullRequestId:$id}){clientMutationId}}"

Json = Any
Facts = dict[str, str]


class NotTried(Exception):
    """A probe could not be carried out: GitHub refused a request, or did nothing in time."""


@dataclass
class Repository:
    """A repository of GitHub, its fork, and the paths of what this call made in it."""

    api: httpx.Client
    name: str
    fork: Repository | None = None
    made: list[str] = field(default_factory=list)

    def status(self, method: str, path: str, value: Json = None) -> int:
        return self.api.request(method, f"/repos/{self.name}/{path}", json=value).status_code

    def ask(self, method: str, path: str, value: Json = None) -> Json:
        url = path if path.startswith("/") else f"/repos/{self.name}/{path}"
        answer = self.api.request(method, url, json=value)
        if answer.is_error:
            raise NotTried(f"{method} {path}: {answer.status_code} {answer.text[:200]}")
        return answer.json() if "json" in answer.headers.get("content-type", "") else answer.text

    def push(self, name: str, workflow: str, parent: str = "") -> str:
        """Push a commit that holds this workflow; its SHA, which is the same in a fork."""
        text = (HERE / "workflows" / f"{workflow}.yml").read_text("utf-8")
        contents = {".github/workflows/ciguard-real.yml": text, "parent": parent}
        blob = {"mode": "100644", "type": "blob"}
        files = [{**blob, "path": path, "content": text} for path, text in contents.items()]
        author = {"name": "ciguard", "email": "ciguard@example.org", "date": "2026-01-01T00:00:00Z"}
        commit = {
            "tree": self.ask("POST", "git/trees", {"tree": files})["sha"],
            "message": f"{PREFIX}/{name}",
            "parents": [parent] if parent else [],
            **{"author": author, "committer": author},
        }
        sha: str = self.ask("POST", "git/commits", commit)["sha"]
        self.ask("POST", "git/refs", {"ref": f"refs/heads/{PREFIX}/{name}", "sha": sha})
        self.made.append(f"git/refs/heads/{PREFIX}/{name}")
        return sha

    def run(self, which: str, **expected: object) -> Json:
        """Wait until a run of this call has these values; `which` is `/ID`, or a query."""
        end_s = time.monotonic() + TIMEOUT_S
        while time.monotonic() < end_s:
            answer = self.ask("GET", f"actions/runs{which}")
            for run in answer.get("workflow_runs", [answer]):
                # The branch of a merge group contains that of the pull request's base.
                is_ours = PREFIX in (run["head_branch"] or "")
                if is_ours and expected.items() <= run.items():
                    return run
            time.sleep(POLL_S)
        raise NotTried(f"not within {TIMEOUT_S:g} s: run {which} with {expected}")

    def facts(self, run: Json, attempt: int = 1) -> Facts:
        """Collect the end of each job, its annotations, and lines `fact NAME=VALUE` of its log."""
        self.run(f"/{run['id']}", status="completed", run_attempt=attempt)
        found = {}
        for job in self.ask("GET", f"actions/runs/{run['id']}/jobs?per_page=100")["jobs"]:
            notes = self.ask("GET", f"check-runs/{job['id']}/annotations?per_page=100")
            found[job["name"]] = str(job["conclusion"])
            found[f"{job['name']}.annotations"] = "; ".join(note["message"] for note in notes)
            with contextlib.suppress(NotTried):  # a job that did not start has no log
                log = self.ask("GET", f"actions/jobs/{job['id']}/logs")
                found |= {f"{job['name']}.{key}": value for key, value in FACT.findall(log)}
        return found

    def clean(self) -> None:
        """Delete what this call made, the last first. A pull request is closed with its branch."""
        for path in reversed(self.made):
            if self.status("DELETE", path) >= 400:
                print(f"{self.name}: left over, delete it by hand: {path}", file=sys.stderr)


def push(here: Repository, probe: str) -> Json:
    """Push a probe's workflow, and wait for its run."""
    return here.run("?event=push&per_page=100", head_sha=here.push(probe, probe))


def superseded(here: Repository, probe: str) -> Facts:
    """Start a second run of the same concurrency group."""
    run = push(here, probe)
    here.run(f"/{run['id']}", status="in_progress")
    here.push("superseding", probe)
    return here.facts(run)


def rerun(here: Repository, probe: str) -> Facts:
    """Run the failed job again; and look at artifacts of earlier calls, which expire in a day."""
    run = push(here, probe)
    here.facts(run)
    here.ask("POST", f"actions/runs/{run['id']}/rerun-failed-jobs")
    found = here.facts(run, attempt=2)
    for one in here.ask("GET", "actions/artifacts?name=ciguard-real&per_page=100")["artifacts"]:
        if one["expired"]:
            found["expired"] = str(here.status("GET", f"actions/artifacts/{one['id']}/zip"))
    return found


def pull(here: Repository, probe: str) -> Facts:
    """Open a pull request, from the fork for `fork`; for `queue` give it to a merge queue."""
    head = here.fork if probe == "fork" else here
    if head is None:
        raise NotTried("no --fork is given")
    base = here.push(f"{probe}-base", "pull")
    if head is not here:
        head.push(f"{probe}-base", "pull")
    sha = head.push(probe, "pull", base)
    value = {"base": f"{PREFIX}/{probe}-base", "title": f"{PREFIX}/{probe}"}
    value["head"] = f"{head.name.partition('/')[0]}:{PREFIX}/{probe}"
    opened = head.ask("POST", f"/repos/{here.name}/pulls", value)
    run = here.run("?event=pull_request&per_page=100", head_sha=sha)
    if run["conclusion"] == "action_required":  # the first one of a contributor
        here.ask("POST", f"actions/runs/{run['id']}/approve")
    found = here.facts(run)
    if probe == "queue":
        return enqueue(here, opened["node_id"])
    status = here.status("POST", f"issues/{opened['number']}/comments", {"body": "x" * 65_537})
    return {**found, "comment": str(status)}


def enqueue(here: Repository, node_id: str) -> Facts:
    """Let the merge queue of a ruleset take a pull request."""
    text = (HERE / "merge_queue.toml").read_text("utf-8")
    ruleset = tomllib.loads(text.replace("BRANCH", f"{PREFIX}/queue-base"))
    here.made.append(f"rulesets/{here.ask('POST', 'rulesets', ruleset)['id']}")
    query = {"query": ENQUEUE, "variables": {"id": node_id}}
    if errors := here.ask("POST", "/graphql", query).get("errors"):
        raise NotTried(f"enqueuePullRequest: {errors[0]['message']}")
    return here.facts(here.run("?event=merge_group&per_page=100"))


PROBES = {"superseded": superseded, "rerun": rerun, "pull": pull, "fork": pull, "queue": pull}


def row(claim: dict[str, str], facts: Facts, reason: str) -> str:
    """Word a claim: its answer, its place in the documentation, and what decides it."""
    lines = (HERE.parent.parent / claim["page"]).read_text("utf-8").splitlines()
    number = next(number for number, line in enumerate(lines, 1) if claim["text"] in line)
    answer, observed = "not tried", reason or claim.get("absent", "not in the log")
    if (value := facts.get(claim["fact"])) is not None:
        answer = "true" if re.search(claim["pattern"], value) else "false"
        observed = value[:200]
    place = f"{claim['page']}:{number}: {claim['text']}"
    return f"{answer:9}  {place}\n           {claim['probe']}, {claim['fact']}: {observed}"


def main(words: list[str]) -> int:
    claims = tomllib.loads((HERE / "claims.toml").read_text("utf-8"))["claim"]
    probes = tuple(dict.fromkeys(claim["probe"] for claim in claims))
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("repository", metavar="OWNER/NAME", help="an empty repository of yours")
    parser.add_argument("--fork", metavar="OWNER/NAME", help="its fork, of FORK_TOKEN's account")
    parser.add_argument("--only", action="append", choices=probes, help="a probe to carry out")
    parser.add_argument("--api", default="https://api.github.com")
    given = parser.parse_args(words)

    def connect(name: str, variable: str) -> Repository:
        token = os.environ.get(variable)
        if not token or name.count("/") != 1:
            parser.error(f"{name}: expected OWNER/NAME, and its token in {variable}")
        headers = {"Authorization": f"Bearer {token}", "Accept": "application/vnd.github+json"}
        api = httpx.Client(base_url=given.api, headers=headers, follow_redirects=True, timeout=60)
        repository = Repository(stack.enter_context(api), name)
        stack.callback(repository.clean)
        return repository

    answers = []
    with contextlib.ExitStack() as stack:
        here = connect(given.repository, "GITHUB_TOKEN")
        here.fork = connect(given.fork, "FORK_TOKEN") if given.fork else None
        for probe in given.only or probes:
            print(f"{probe} ...", file=sys.stderr)
            facts, reason = {}, ""
            try:
                act = PROBES.get(probe)
                facts = act(here, probe) if act else here.facts(push(here, probe))
            except (NotTried, httpx.HTTPError) as error:
                reason = str(error) or repr(error)
            answers += [row(claim, facts, reason) for claim in claims if claim["probe"] == probe]
    print("\n".join(answers))
    return int(any(line.startswith("false") for line in answers))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
