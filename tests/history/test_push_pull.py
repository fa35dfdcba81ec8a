"""`ciguard history push` and `pull`: a file to a branch and back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from history.git_servers import NAME, PLACE, branch, clone, git, ids, one

from ciguard.codec.record.lines import encode as encode_line
from ciguard.history.file import decode, encode
from ciguard.history.stores import load, update
from ciguard.model import Result, ShardLine

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Ciguard

    from ciguard.history.file import History


def read_history(path: Path) -> History:
    return decode(path.read_bytes(), str(path))


def test_push_and_pull_transfer_a_file(origin: Path, ciguard: Ciguard) -> None:
    first, second = clone(origin, "first"), clone(origin, "second")
    (first / "history.ciguard").write_bytes(encode(one(1)))
    (first / "more").write_bytes(encode(one(2)))
    done = ciguard("history", "push", "history.ciguard", "more", cwd=first)
    assert done.stdout.startswith(f"{PLACE}: 2 values of 2 runs added; 2 runs, 1 case, 2 values (")
    done = ciguard("history", "push", cwd=first)
    assert done.stdout.startswith(f"{PLACE}: nothing new in 1 value of 1 run; 2 runs")
    done = ciguard("history", "pull", cwd=second)
    assert done.stdout.startswith("history.ciguard: 2 values of 2 runs added; 2 runs")
    assert (second / "history.ciguard").read_bytes() == branch(first).read().content
    assert git(origin, "rev-list", "--count", NAME) == "1"


def test_push_and_pull_merge_both_histories(origin: Path, ciguard: Ciguard) -> None:
    folder = clone(origin, "one")
    update(branch(folder), one(1))
    (folder / "mine").write_bytes(encode(one(2)))
    ciguard("history", "pull", "mine", cwd=folder)
    assert ids(read_history(folder / "mine")) == [1, 2]
    assert ids(load(branch(folder)).history) == [1]
    ciguard("history", "push", "mine", cwd=folder)
    assert ids(load(branch(folder)).history) == [1, 2]


def test_branch_name_comes_from_option_or_configuration(origin: Path, ciguard: Ciguard) -> None:
    folder = clone(origin, "one")
    (folder / "history.ciguard").write_bytes(encode(one(1)))
    (folder / "ciguard.toml").write_text('[history]\nstore = "branch:past"\n')
    assert ciguard("history", "push", cwd=folder).stdout.startswith("branch:past: 1 value")
    ciguard("history", "push", "--branch", "other/name", cwd=folder)
    (folder / "ciguard.toml").write_text('[history]\nstore = "history.ciguard"\n')
    ciguard("history", "push", cwd=folder)
    found = git(origin, "for-each-ref", "--format=%(refname:short)", "refs/heads").split()
    assert found == [NAME, "main", "other/name", "past"]


def test_history_is_pushed_to_another_repository(
    origin: Path, tmp_path: Path, ciguard: Ciguard
) -> None:
    git(tmp_path, "init", "--quiet", "--bare", str(tmp_path / "other.git"))
    folder = clone(origin, "one")
    update(branch(folder), one(1))
    ciguard("history", "pull", cwd=folder)
    there = (tmp_path / "other.git").as_uri()
    done = ciguard("history", "push", "--remote", there, cwd=folder)
    assert done.stdout.startswith(f"{PLACE} of {there}: 1 value of 1 run added")
    assert git(tmp_path / "other.git", "rev-list", "--count", NAME) == "1"


@pytest.mark.parametrize("event", ["pull_request", "pull_request_target", "merge_group"])
def test_job_of_a_pull_request_or_merge_group_cannot_push(
    event: str, origin: Path, ciguard: Ciguard
) -> None:
    folder = clone(origin, "one")
    (folder / "history.ciguard").write_bytes(encode(one(1)))
    done = ciguard("history", "push", cwd=folder, expect=3, GITHUB_EVENT_NAME=event)
    assert f"GITHUB_EVENT_NAME: this is a run of {event}: what is only" in done.stderr
    assert "if: github.event_name == 'push'" in done.stderr
    header = ShardLine("p", "01", run_id=7, event="push", branch="main")
    (folder / "r.jsonl").write_bytes(encode_line(header) + encode_line(Result("t", "passed")))
    words = ("history", "add", "r.jsonl", "--history", "branch:ciguard-history")
    done = ciguard(*words, cwd=folder, expect=3, GITHUB_EVENT_NAME=event)
    assert f"GITHUB_EVENT_NAME: this is a run of {event}: what is only" in done.stderr
    assert git(origin, "for-each-ref", "--format=%(refname:short)") == "main"


@pytest.mark.parametrize(
    ("words", "code", "states"),
    [
        (("pull",), 3, f"{PLACE}: there is no history yet"),
        (("pull", "-"), 3, f"{PLACE}: there is no history yet"),
        (("pull", "--remote", "nobody"), 3, "this clone has no remote 'nobody'"),
        (("pull", "--branch", "a b"), 3, "no branch name: 'a b'"),
        (("pull", "--branch", "main"), 4, "the branch holds no history.ciguard"),
        (("push",), 3, "history.ciguard: cannot be read"),
        (("push", "file"), 3, "file: no history file"),
        (("push", "cut"), 3, "cut: the file was cut or changed"),
        (("push", "newer"), 3, "newer: a newer ciguard wrote it: schema 9 is not 2"),
        (("push", "good", "cut"), 3, "cut: the file was cut or changed"),
    ],
)
def test_push_and_pull_errors_change_nothing(
    words: tuple[str, ...], code: int, states: str, origin: Path, ciguard: Ciguard
) -> None:
    folder = clone(origin, "one")
    (folder / "good").write_bytes(encode(one(1)))
    (folder / "cut").write_bytes(encode(one(1))[:-1])
    (folder / "newer").write_bytes(b"ciguard-history 9 abc\n")
    before = sorted(path.name for path in folder.iterdir())
    done = ciguard("history", *words, cwd=folder, expect=code)
    assert states in done.stderr
    assert "fix: " in done.stderr
    assert "Traceback" not in done.stderr
    assert git(origin, "for-each-ref", "--format=%(refname:short)") == "main"
    assert sorted(path.name for path in folder.iterdir()) == before


@pytest.mark.parametrize(
    ("content", "states", "fix"),
    [
        (encode(one(1))[:-1], "was cut or changed", "git push origin --delete ciguard-history"),
        (b"something else", "no history file", "git push origin --delete ciguard-history"),
        (b"ciguard-history 3 abc\n", "schema 3 is not 2", "use the version of ciguard that"),
    ],
)
def test_unreadable_branch_is_not_overwritten(
    content: bytes, states: str, fix: str, origin: Path, ciguard: Ciguard
) -> None:
    folder = clone(origin, "one")
    store = branch(folder)
    assert store.write(content, store.read())
    (folder / "history.ciguard").write_bytes(encode(one(2)))
    mine = (folder / "history.ciguard").read_bytes()
    (folder / "units").write_text("a.py::t\n")
    for words, code in (
        (("history", "push"), 3),
        (("history", "pull"), 3),
        (("plan", "--inventory", "units"), 0),
    ):
        done = ciguard(*words, cwd=folder, expect=code)
        # A plan is printed with it, in lines of 80 columns.
        reported = " ".join((done.stderr if code else done.stdout).split())
        assert states in reported
        assert fix in reported
    assert store.read().content == content
    assert (folder / "history.ciguard").read_bytes() == mine
    if "--delete" in fix:
        git(folder, *fix.split()[1:])
        ciguard("history", "push", cwd=folder)
        assert ids(load(store).history) == [2]
