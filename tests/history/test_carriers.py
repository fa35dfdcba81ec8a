from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from base64 import b64decode
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING

import pytest

from ciguard.codec.history import FILE_NAME, encode
from ciguard.errors import InputError, RemoteError
from ciguard.history.branch_carrier import BranchCarrier, with_token, without_secrets
from ciguard.history.carriers import WRITES, load, open_carrier, update
from ciguard.history.file_carrier import FileCarrier
from ciguard.history.intake import history_of
from ciguard.model import EndLine, Record, Result, ShardLine

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ciguard.codec.history import History
    from ciguard.history.kept import Kept

NAME = "ciguard-history"
PLACE = f"branch:{NAME}"


def environment(home: Path) -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
    }


def git(folder: Path, *words: str) -> str:
    who = ("-c", "user.name=t", "-c", "user.email=t@localhost.invalid")
    done = subprocess.run(
        ["git", *who, *words],
        cwd=folder,
        env=environment(folder),
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def one(run_id: int) -> History:
    header = ShardLine(
        run_id=run_id, shard="01", plan_id="p", started_at=f"2026-11-{run_id:02d}T00:00:00Z"
    )
    results = (Result("a.py::t", "passed", wall_s=float(run_id)),)
    return history_of([Record("r", header, results=results, end=EndLine("completed"))])


def ids(history: History) -> list[int]:
    return [run.run_id for run in history.runs]


@pytest.fixture
def origin(tmp_path: Path) -> Path:
    """A bare repository whose main branch has three commits."""
    bare, work = tmp_path / "origin.git", tmp_path / "work"
    git(tmp_path, "init", "--quiet", "--bare", "-b", "main", str(bare))
    git(tmp_path, "init", "--quiet", "-b", "main", str(work))
    for number in range(3):
        (work / "file").write_text(str(number))
        git(work, "add", "file")
        git(work, "commit", "--quiet", "-m", str(number))
    git(work, "push", "--quiet", str(bare), "main")
    return bare


def clone(origin: Path, name: str) -> Path:
    """Shallow, as a checkout action makes it."""
    folder = origin.parent / name
    git(origin.parent, "clone", "--quiet", "--depth=1", origin.as_uri(), str(folder))
    return folder


def branch(folder: Path) -> BranchCarrier:
    carrier = open_carrier(PLACE, folder, environment(folder.parent))
    assert isinstance(carrier, BranchCarrier)
    return carrier


def test_a_branch_is_absent_then_made_then_replaced(origin: Path) -> None:
    first, second = branch(clone(origin, "one")), branch(clone(origin, "two"))
    assert not load(first).found
    assert ids(load(first).history) == []
    assert update(first, one(1)).changed
    assert update(second, one(2)).changed
    loaded = load(first)
    assert ids(loaded.history) == [1, 2]
    assert loaded.size_bytes == len(encode(loaded.history))
    assert git(origin, "rev-list", "--count", NAME) == "1"
    assert git(origin, "ls-tree", "--name-only", NAME) == FILE_NAME


def test_adding_twice_pushes_nothing(origin: Path) -> None:
    carrier = branch(clone(origin, "one"))
    update(carrier, one(1))
    before = git(origin, "rev-parse", NAME)
    assert not update(carrier, one(1)).changed
    assert git(origin, "rev-parse", NAME) == before


def test_the_clone_is_left_as_it_was(origin: Path) -> None:
    folder = clone(origin, "one")
    (folder / "file").write_text("being edited")
    before = [git(folder, *words) for words in (("status", "-s"), ("branch", "-a"), ("log",))]
    update(branch(folder), one(1))
    load(branch(folder))
    assert before == [
        git(folder, *words) for words in (("status", "-s"), ("branch", "-a"), ("log",))
    ]
    assert git(folder, "rev-parse", "--is-shallow-repository") == "true"


class Overtaken:
    """The real carrier of a writer that somebody else always overtakes between read and write."""

    def __init__(self, carrier: BranchCarrier, rivals: list[tuple[BranchCarrier, int]]) -> None:
        self.carrier = carrier
        self.rivals = rivals
        self.place = carrier.place
        self.reads = 0

    def read(self) -> Kept:
        kept = self.carrier.read()
        self.reads += 1
        if self.rivals:
            rival, run_id = self.rivals.pop(0)
            update(rival, one(run_id))
        return kept

    def write(self, content: bytes, seen: Kept) -> bool:
        return self.carrier.write(content, seen)


def test_who_is_overtaken_reads_again_and_nobody_loses_anything(origin: Path) -> None:
    rival = branch(clone(origin, "rival"))
    slow = Overtaken(branch(clone(origin, "slow")), [(rival, 1), (rival, 2)])
    assert ids(update(slow, one(3)).history) == [1, 2, 3]
    assert slow.reads == 3
    assert ids(load(rival).history) == [1, 2, 3]


def test_who_always_loses_is_told(origin: Path) -> None:
    rival = branch(clone(origin, "rival"))
    races = [(rival, number) for number in range(1, WRITES + 1)]
    slow = Overtaken(branch(clone(origin, "slow")), races)
    with pytest.raises(RemoteError, match="others wrote"):
        update(slow, one(20))
    assert ids(load(rival).history) == list(range(1, WRITES + 1))


def test_writers_at_the_same_time_lose_nothing(origin: Path) -> None:
    carriers = [branch(clone(origin, f"clone{number}")) for number in range(3)]
    threads = [
        threading.Thread(target=update, args=(carrier, one(number)))
        for number, carrier in enumerate(carriers, 1)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert ids(load(carriers[0]).history) == [1, 2, 3]


def test_a_push_that_is_refused_for_good_is_a_remote_error(origin: Path) -> None:
    hook = origin / "hooks" / "pre-receive"
    hook.write_text("#!/bin/sh\necho protected by a rule >&2\nexit 1\n")
    hook.chmod(0o755)
    with pytest.raises(RemoteError, match="protected by a rule") as caught:
        update(branch(clone(origin, "one")), one(1))
    assert "contents: write" in caught.value.fix


def test_what_is_wrong_is_said(origin: Path) -> None:
    folder = clone(origin, "one")
    for name in ("", "a..b", "a b"):
        with pytest.raises(InputError, match="no branch name"):
            open_carrier(f"branch:{name}", folder, environment(folder)).read()
    with pytest.raises(RemoteError, match=FILE_NAME):
        open_carrier("branch:main", folder, environment(folder)).read()
    with pytest.raises(InputError, match="not a git repository"):
        open_carrier(PLACE, origin.parent, environment(folder)).read()
    shutil.rmtree(origin)
    with pytest.raises(RemoteError, match="cannot be looked up"):
        branch(folder).read()


def test_a_damaged_file_in_the_branch_is_not_overwritten(origin: Path) -> None:
    carrier = branch(clone(origin, "one"))
    assert carrier.write(b"something else", carrier.read())
    with pytest.raises(InputError, match="no history file") as caught:
        update(carrier, one(1))
    assert caught.value.where == PLACE
    assert carrier.read().content == b"something else"


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


def test_the_token_goes_to_github_in_one_header_and_nowhere_else(
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
        open_carrier(PLACE, folder, github).read()
    assert "s3cret" not in str(caught.value)
    header, count = seen[:2]
    assert header is not None
    assert b64decode(header.removeprefix("basic ")) == b"x-access-token:s3cret"
    assert count == "1"
    seen.clear()
    with pytest.raises(RemoteError):
        open_carrier(PLACE, folder, environ).read()
    assert seen[0] == "basic b2xk"


def test_git_s_own_configuration_by_environment_is_kept() -> None:
    environ = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "a.b", "GH_TOKEN": "t"}
    told = with_token(environ, "https://github.com/o/r")
    assert told["GIT_CONFIG_COUNT"] == "3"
    assert told["GIT_CONFIG_KEY_0"] == "a.b"
    assert told["GIT_CONFIG_KEY_2"] == "http.https://github.com/.extraheader"
    for url in ("https://github.com.evil/o/r", "git@github.com:o/r", "/a/path"):
        assert with_token(environ, url)["GIT_CONFIG_COUNT"] == "1"


def test_passwords_in_addresses_are_not_told() -> None:
    assert without_secrets("to https://u:p@h/x ") == "to https://h/x"


def test_a_file_is_kept_and_changed_only_if_it_is_what_was_read(tmp_path: Path) -> None:
    carrier = open_carrier("deep/h.ciguard", tmp_path, {})
    assert isinstance(carrier, FileCarrier)
    assert not load(carrier).found
    assert update(carrier, one(1)).changed
    seen = carrier.read()
    update(carrier, one(2))
    assert not carrier.write(b"mine", seen)
    assert ids(load(carrier).history) == [1, 2]
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["h.ciguard"]


def test_a_file_s_name_may_have_a_colon(tmp_path: Path) -> None:
    update(open_carrier("odd:name", tmp_path, {}), one(1))
    assert (tmp_path / "odd:name").is_file()
    with pytest.raises(InputError, match="no place"):
        open_carrier("", tmp_path, {}).read()


@pytest.mark.skipif(sys.platform == "win32", reason="folders are not made read-only by a mode")
def test_a_folder_that_cannot_be_written_leaves_the_old_file(tmp_path: Path) -> None:
    carrier = open_carrier("taken/h.ciguard", tmp_path, {})
    (tmp_path / "taken").write_text("a file where a folder should be")
    with pytest.raises(InputError, match="cannot be written"):
        update(carrier, one(1))
