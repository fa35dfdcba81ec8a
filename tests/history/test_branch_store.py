from __future__ import annotations

import shutil
import socket
import threading
from base64 import b64decode
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from history.git_servers import NAME, PLACE, branch, clone, environment, git, ids, one, serving

from ciguard.errors import InputError, RemoteError
from ciguard.history.branch_store import LOST_RACE, TRANSIENT, BranchStore, advice, summarize
from ciguard.history.file import FILE_NAME, encode
from ciguard.history.stores import load, open_store, open_writable_store, update


def test_branch_is_created_then_replaced_by_one_commit(origin: Path) -> None:
    first, second = branch(clone(origin, "one")), branch(clone(origin, "two"))
    assert not load(first).exists
    assert ids(load(first).history) == []
    assert update(first, one(1)).changed
    assert update(second, one(2)).changed
    loaded = load(first)
    assert ids(loaded.history) == [1, 2]
    assert loaded.size_bytes == len(encode(loaded.history))
    assert git(origin, "rev-list", "--count", NAME) == "1"
    assert git(origin, "ls-tree", "--name-only", NAME) == FILE_NAME


def test_adding_the_same_run_twice_pushes_nothing(origin: Path) -> None:
    store = branch(clone(origin, "one"))
    update(store, one(1))
    before = git(origin, "rev-parse", NAME)
    assert not update(store, one(1)).changed
    assert git(origin, "rev-parse", NAME) == before


def test_clone_is_unchanged(origin: Path) -> None:
    folder = clone(origin, "one")
    (folder / "file").write_text("being edited")
    before = [git(folder, *words) for words in (("status", "-s"), ("branch", "-a"), ("log",))]
    update(branch(folder), one(1))
    load(branch(folder))
    assert before == [
        git(folder, *words) for words in (("status", "-s"), ("branch", "-a"), ("log",))
    ]
    assert git(folder, "rev-parse", "--is-shallow-repository") == "true"


REFUSALS = {
    # A hook of the server, what GitHub's rule says by it, and the advice.
    "a protected branch": (
        "GH006: Protected branch update failed for refs/heads/ciguard-history.",
        "leave this branch out of the repository's rules",
    ),
    "a rule set": (
        "GH013: Repository rule violations found for refs/heads/ciguard-history.",
        "leave this branch out of the repository's rules",
    ),
    "a file too large": (
        "GH001: Large files detected. File history.ciguard is 120.00 MB; this exceeds GitHub's "
        "file size limit of 100.00 MB",
        "ids change from run to run",
    ),
}


@pytest.mark.parametrize(("output", "fix"), REFUSALS.values(), ids=REFUSALS)
def test_push_rejected_by_a_rule_is_an_error_with_a_fix(
    origin: Path, output: str, fix: str
) -> None:
    hook = origin / "hooks" / "pre-receive"
    hook.write_text(f'#!/bin/sh\necho "error: {output}" >&2\nexit 1\n')
    hook.chmod(0o755)
    with pytest.raises(RemoteError, match=output[:20]) as caught:
        update(branch(clone(origin, "one")), one(1))
    assert fix in caught.value.fix
    assert not load(branch(clone(origin, "two"))).exists


def test_rejected_force_push_is_no_lost_race(origin: Path) -> None:
    store = branch(clone(origin, "one"))
    update(store, one(1))
    git(origin, "config", "receive.denyNonFastForwards", "true")
    with pytest.raises(RemoteError, match="non-fast-forward") as caught:
        update(store, one(2))
    assert "let this token force a push" in caught.value.fix
    assert ids(load(store).history) == [1]


def over_http(origin: Path, url: str, name: str, **more: str) -> BranchStore:
    """A store whose remote is `url`, which it takes for GitHub."""
    folder = clone(origin, name)
    git(folder, "remote", "set-url", "origin", f"{url}/origin.git")
    environ = {**environment(folder), "GITHUB_SERVER_URL": url, **more}
    return BranchStore(NAME, folder, environ, wait_s=0.001)


def test_fork_can_read_without_a_token_and_cannot_write(origin: Path) -> None:
    update(branch(clone(origin, "base")), one(1))
    with serving(origin) as url:
        fork = over_http(origin, url, "fork")
        assert ids(load(fork).history) == [1]
        read_only = over_http(origin, url, "again", GITHUB_TOKEN="other")
        assert ids(load(read_only).history) == [1]
        for store, output in ((fork, "could not read Username"), (read_only, "403")):
            with pytest.raises(RemoteError, match=output) as caught:
                update(store, one(2))
            assert "contents: write" in caught.value.fix
            assert "other" not in str(caught.value)
        assert update(over_http(origin, url, "job", GITHUB_TOKEN="good"), one(2)).changed
    assert ids(load(branch(clone(origin, "after"))).history) == [1, 2]


@pytest.mark.parametrize("status", [429, 502, 503])
def test_temporary_server_fault_is_retried(origin: Path, status: int) -> None:
    faults = [status, status]
    with serving(origin, faults) as url:
        assert not load(over_http(origin, url, "one")).exists
        faults += [status]
        update(over_http(origin, url, "two", GITHUB_TOKEN="good"), one(1))
        faults += [status] * 3
        with pytest.raises(RemoteError, match=f"fetched: .*{status}"):
            load(over_http(origin, url, "three"))
    assert not faults


def test_unresponsive_remote_times_out_and_leaves_no_git_process(origin: Path) -> None:
    folder = clone(origin, "one")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        git(folder, "remote", "set-url", "origin", f"http://127.0.0.1:{silent.getsockname()[1]}/x")
        store = BranchStore(NAME, folder, environment(folder), transfer_timeout_s=0.5, tries=2)
        with pytest.raises(RemoteError, match="fetch took more than") as caught:
            store.read()
        assert caught.value.where == PLACE
        connection, _ = silent.accept()
        with connection:
            connection.settimeout(60)
            while connection.recv(4096):  # the request; then the end, for its sender is gone
                pass


def test_missing_git_is_an_input_error(origin: Path) -> None:
    folder = clone(origin, "one")
    store = open_store(PLACE, folder, {**environment(folder), "PATH": str(folder)})
    with pytest.raises(InputError, match="git is not installed") as caught:
        store.read()
    assert caught.value.where == PLACE


def test_empty_repository_has_no_history(tmp_path: Path) -> None:
    bare = tmp_path / "empty.git"
    git(tmp_path, "init", "--quiet", "--bare", str(bare))
    store = branch(clone(bare, "one"))
    assert not load(store).exists
    update(store, one(1))
    assert ids(load(store).history) == [1]


def test_partial_clone_reads_and_writes(origin: Path) -> None:
    git(origin, "config", "uploadpack.allowFilter", "true")
    update(branch(clone(origin, "base")), one(1))
    store = branch(clone(origin, "partial", "--filter=blob:none"))
    assert ids(load(store).history) == [1]
    update(store, one(2))
    assert ids(load(store).history) == [1, 2]


def test_edited_branch_is_read_and_squashed_to_one_commit(origin: Path) -> None:
    store = branch(clone(origin, "one"))
    update(store, one(1))
    someone = clone(origin, "somebody", f"--branch={NAME}")
    for number in range(2):
        (someone / "README").write_text(str(number))
        git(someone, "add", "README")
        git(someone, "commit", "--quiet", "-m", "more")
    git(someone, "push", "--quiet", "origin", NAME)
    assert ids(load(store).history) == [1]
    update(store, one(2))
    assert git(origin, "rev-list", "--count", NAME) == "1"
    assert git(origin, "ls-tree", "--name-only", NAME) == FILE_NAME
    assert git(store.folder, "rev-parse", "--is-shallow-repository") == "true"


def test_invalid_branch_or_remote_is_an_error_with_a_fix(origin: Path) -> None:
    folder = clone(origin, "one")
    for name in ("", "a..b", "a b"):
        with pytest.raises(InputError, match="no branch name"):
            open_store(f"branch:{name}", folder, environment(folder)).read()
    with pytest.raises(RemoteError, match=FILE_NAME):
        open_store("branch:main", folder, environment(folder)).read()
    shutil.rmtree(origin)
    with pytest.raises(RemoteError, match="cannot be fetched"):
        branch(folder).read()
    git(folder, "remote", "remove", "origin")
    wrong = {folder: "this clone has no remote 'origin'", origin.parent: "in no git repository"}
    for place, what in wrong.items():
        with pytest.raises(InputError, match=what) as caught:
            BranchStore(NAME, place, environment(folder)).read()
        assert "a clone of the repository" in caught.value.fix


def test_branch_with_other_files_is_not_overwritten(origin: Path) -> None:
    folder = clone(origin, "one")
    (folder / FILE_NAME).write_bytes(encode(one(1)))
    (folder / "test_a.py").touch()
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "kept beside the tests")
    git(folder, "push", "-q", "origin", "main")
    before = git(origin, "rev-parse", "main")
    with pytest.raises(RemoteError, match="the other files of the branch") as caught:
        update(open_writable_store("branch:main", folder, environment(folder)), one(2))
    assert caught.value.fix == "name another branch: branch:ciguard-history"
    assert git(origin, "rev-parse", "main") == before


def test_a_damaged_file_in_the_branch_is_not_overwritten(origin: Path) -> None:
    store = branch(clone(origin, "one"))
    assert store.write(b"something else", store.read())
    with pytest.raises(InputError, match="no history file") as caught:
        update(store, one(1))
    assert caught.value.where == PLACE
    assert "git push origin --delete ciguard-history" in caught.value.fix
    assert store.read().content == b"something else"


class Door(BaseHTTPRequestHandler):
    """A server that keeps everybody out and notes what they showed."""

    seen: list[str | None]

    def do_GET(self) -> None:
        self.seen.append(self.headers.get_all("Authorization", [None])[-1])
        self.seen.append(str(len(self.headers.get_all("Authorization", []))))
        self.send_response(403)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Nothing on stderr."""


@pytest.fixture
def door() -> Iterator[tuple[str, list[str | None]]]:
    seen: list[str | None] = []
    handler = type("ThisDoor", (Door,), {"seen": seen})
    with HTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", seen
        server.shutdown()
        thread.join()


def test_token_is_sent_to_github_only_in_one_header(
    origin: Path, door: tuple[str, list[str | None]]
) -> None:
    url, seen = door
    folder = clone(origin, "one")
    git(folder, "remote", "set-url", "origin", f"{url}/o/r")
    # What a checkout with persisted credentials leaves behind.
    git(folder, "config", f"http.{url}/.extraheader", "AUTHORIZATION: basic b2xk")
    environ = {**environment(folder), "GITHUB_TOKEN": "s3cret", "no_proxy": "*"}
    github = {**environ, "GITHUB_SERVER_URL": url}
    with pytest.raises(RemoteError) as caught:
        open_store(PLACE, folder, github).read()
    assert "s3cret" not in str(caught.value)
    header, count = seen[:2]
    assert header is not None
    assert b64decode(header.removeprefix("basic ")) == b"x-access-token:s3cret"
    assert count == "1"
    seen.clear()
    with pytest.raises(RemoteError):
        open_store(PLACE, folder, environ).read()
    assert seen[0] == "basic b2xk"


LINE = "To https://github.com/o/r\n!\t4f2a:refs/heads/h\t{}\nDone\n"
RACES = (
    "[rejected] (stale info)",
    "[rejected] (fetch first)",
    "[remote rejected] (cannot lock ref 'refs/heads/h': is at 4f2a but expected 5b1c)",
    "[remote rejected] (failed to update ref)",
    "[remote rejected] (reference already exists)",
    "[remote rejected] (incorrect old value provided)",
)
RULES = (
    "[remote rejected] (protected branch hook declined)",
    "[remote rejected] (push declined due to repository rule violations)",
    "[remote rejected] (pre-receive hook declined)",
    "[remote rejected] (non-fast-forward)",
    "[remote rejected] (GH003: Sorry, force-pushing to h is not allowed.)",
)
RIGHTS = (
    "remote: Write access to repository not granted.\nfatal: unable to access 'https://x/': The "
    "requested URL returned error: 403",
    "remote: Permission to o/r.git denied to github-actions[bot].",
    "fatal: could not read Username for 'https://github.com': terminal prompts disabled",
    "remote: Invalid username or token.\nfatal: Authentication failed for 'https://x/'",
    "remote: This repository was archived so it is read-only.",
    "ERROR: The key you are authenticating with has been marked as read only.",
    "remote: Repository not found.",
)
FAULTS = (
    "fatal: unable to access 'https://x/': Could not resolve host: github.com",
    "fatal: unable to access 'https://x/': The requested URL returned error: 503",
    "error: RPC failed; HTTP 502 curl 22 The requested URL returned error: 502",
    "fatal: the remote end hung up unexpectedly",
    "fatal: early EOF",
    "remote: Internal Server Error",
)


@pytest.mark.parametrize("output", RACES)
def test_lost_race_is_recognised(output: str) -> None:
    assert LOST_RACE.search(LINE.format(output))
    assert not TRANSIENT.search(LINE.format(output))


@pytest.mark.parametrize("output", [*RULES, *RIGHTS, *FAULTS])
def test_other_git_errors_are_no_lost_race(output: str) -> None:
    assert not LOST_RACE.search(LINE.format(output))
    assert not LOST_RACE.search(output)


@pytest.mark.parametrize("output", RULES)
def test_rule_rejection_advises_the_repository_settings(output: str) -> None:
    assert "repository's rules" in advice(LINE.format(output), writing=True)


@pytest.mark.parametrize("output", RIGHTS)
def test_missing_permission_advises_the_job_permissions(output: str) -> None:
    assert "`permissions: contents: write`" in advice(output, writing=True)
    assert "`permissions: contents: read`" in advice(output, writing=False)
    assert not TRANSIENT.search(output)


@pytest.mark.parametrize("output", FAULTS)
def test_transient_fault_is_recognised_and_has_no_advice(output: str) -> None:
    assert TRANSIENT.search(output)
    assert advice(output, writing=True) == ""


def test_oversized_file_error_advises_history_show() -> None:
    output = "remote: error: GH001: Large files detected.\n" + LINE.format(RULES[2])
    assert "ciguard history show" in advice(output, writing=True)


def test_git_error_is_summarized_in_one_line() -> None:
    output = LINE.format(RULES[0]) + (
        "remote: error: GH006: Protected branch update failed for refs/heads/h.        \n"
        "remote: \nremote: - Cannot force-push to this branch        \n"
        "error: failed to push some refs to 'https://github.com/o/r'\n"
    )
    assert summarize(output) == (
        "[remote rejected] (protected branch hook declined); GH006: Protected branch update failed "
        "for refs/heads/h.; - Cannot force-push to this branch"
    )
    assert summarize("fatal: not a git repository\n") == "not a git repository"
    assert summarize("") == ""
