"""`ciguard history push` and `pull`: a file to a branch and back, with several writers at once."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Ciguard, clean_environment
from history.git_servers import NAME, PLACE, branch, clone, git, ids, one

from ciguard.codec.record.lines import encode as encode_line
from ciguard.errors import RemoteError
from ciguard.history.branch_store import BranchStore
from ciguard.history.file import History, StoredBytes, decode, encode
from ciguard.history.stores import TRIES, load, update
from ciguard.model import Result, ShardLine


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


@pytest.mark.parametrize("event", ["pull_request", "pull_request_target", "merge_group"])
def test_job_of_a_pull_request_or_merge_group_cannot_push(
    event: str, origin: Path, ciguard: Ciguard
) -> None:
    folder = clone(origin, "one")
    (folder / "history.ciguard").write_bytes(encode(one(1)))
    done = ciguard("history", "push", cwd=folder, expect=3, GITHUB_EVENT_NAME=event)
    assert f"GITHUB_EVENT_NAME: this is a run of {event}: the history takes no" in done.stderr
    assert "if: github.event_name == 'push'" in done.stderr
    header = ShardLine("p", "01", run_id=7, event="push", branch="main")
    (folder / "r.jsonl").write_bytes(encode_line(header) + encode_line(Result("t", "passed")))
    words = ("history", "add", "r.jsonl", "--history", "branch:ciguard-history")
    done = ciguard(*words, cwd=folder, expect=3, GITHUB_EVENT_NAME=event)
    assert f"GITHUB_EVENT_NAME: this is a run of {event}: the history takes no" in done.stderr
    assert git(origin, "for-each-ref", "--format=%(refname:short)") == "main"


@pytest.mark.parametrize(
    ("words", "code", "states"),
    [
        (("pull",), 3, f"{PLACE}: there is no history yet"),
        (("pull", "-"), 3, f"{PLACE}: there is no history yet"),
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


SOON = (4, 0.001)


class Overtaken:
    """The real store of a writer; between its reading and its writing, something happens."""

    def __init__(self, store: BranchStore, *happenings: Callable[[], object]) -> None:
        self.store = store
        self.happenings = list(happenings)
        self.location = store.location
        self.recovery_advice = store.recovery_advice

    def read(self) -> StoredBytes:
        stored = self.store.read()
        if self.happenings:
            self.happenings.pop(0)()
        return stored

    def write(self, content: bytes, seen: StoredBytes) -> bool:
        return self.store.write(content, seen)


def test_overtaken_writer_merges_and_no_run_is_lost(origin: Path) -> None:
    rival = branch(clone(origin, "rival"))
    slow = Overtaken(
        branch(clone(origin, "slow")),
        lambda: update(rival, one(1)),  # first use by both
        lambda: update(rival, one(2)),
    )
    done = update(slow, one(3), *SOON)
    assert (ids(done.history), done.tries) == ([1, 2, 3], 3)
    assert ids(load(rival).history) == [1, 2, 3]
    assert git(origin, "rev-list", "--count", NAME) == "1"


def test_persistent_lost_races_are_an_error(origin: Path) -> None:
    rival = branch(clone(origin, "rival"))
    races = [lambda number=number: update(rival, one(number)) for number in range(1, 5)]
    slow = Overtaken(branch(clone(origin, "slow")), *races)
    with pytest.raises(RemoteError, match="other writers changed it at each of 4 tries") as caught:
        update(slow, one(20), *SOON)
    assert caught.value.fix == "add it again"
    assert ids(load(rival).history) == [1, 2, 3, 4]


def test_concurrently_removed_run_stays_removed(origin: Path) -> None:
    admin = branch(clone(origin, "admin"))
    update(admin, one(1))
    update(admin, one(2))
    slow = Overtaken(
        branch(clone(origin, "slow")), lambda: admin.write(encode(one(2)), admin.read())
    )
    assert ids(update(slow, one(3), *SOON).history) == [2, 3]


def test_concurrently_deleted_branch_is_recreated(origin: Path) -> None:
    update(branch(clone(origin, "first")), one(1))
    slow = Overtaken(
        branch(clone(origin, "slow")), lambda: git(origin, "update-ref", "-d", f"refs/heads/{NAME}")
    )
    assert ids(update(slow, one(2), *SOON).history) == [2]


def test_push_with_a_lost_response_is_not_repeated(origin: Path) -> None:
    store = branch(clone(origin, "one"))
    update(store, one(1))
    slow = Overtaken(store, lambda: update(store, one(2)))
    assert ids(update(slow, one(2), *SOON).history) == [1, 2]
    assert ids(load(store).history) == [1, 2]


def test_concurrent_writers_lose_no_run(origin: Path) -> None:
    writers, rounds = 4, 2
    stores = [branch(clone(origin, f"clone{number}")) for number in range(writers)]
    for begin in range(1, rounds * writers, writers):  # the first round is the first use
        runs = [one(begin + number, f"t{begin + number}") for number in range(writers)]
        threads = [
            threading.Thread(target=update, args=(store, run, TRIES, 0.01))
            for store, run in zip(stores, runs, strict=True)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert ids(load(stores[0]).history) == list(range(1, begin + writers))
    assert git(origin, "rev-list", "--count", NAME) == "1"


@pytest.mark.soak
def test_fifty_rounds_of_two_processes_lose_no_run(origin: Path) -> None:
    """As runs of the base branch that end together: each adds by the command, in its own clone."""
    clones = [clone(origin, "one"), clone(origin, "two")]
    reported = ""
    for begin in range(1, 101, 2):
        programs = []
        for folder, run in zip(clones, (begin, begin + 1), strict=True):
            (folder / "durations.json").write_text(json.dumps({f"t{run}": run}))
            words = ["history", "add", "durations.json", "--history", PLACE, "--run-id", str(run)]
            programs.append(
                subprocess.Popen(
                    [sys.executable, "-m", "ciguard", *words],
                    cwd=folder,
                    env=clean_environment(),
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                )
            )
        for program in programs:
            output = program.communicate(timeout=120)[0]
            assert program.returncode == 0, output
            reported += output
        assert ids(load(branch(clones[0])).history) == list(range(1, begin + 2))
    races = reported.count("other writers changed the history")
    print(f"50 rounds, {races} races lost, no run")
    assert races, "they never met, so nothing was shown"
    assert git(origin, "rev-list", "--count", NAME) == "1"
