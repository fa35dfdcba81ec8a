"""Several writers of one branch, at the same time: nobody loses anything."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import pytest
from conftest import clean_environment
from history.git_servers import NAME, PLACE, branch, clone, git, ids, one

from ciguard.errors import RemoteError
from ciguard.history.file import encode
from ciguard.history.stores import TRIES, load, update

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ciguard.history.branch_store import BranchStore
    from ciguard.history.file import StoredBytes

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
    with pytest.raises(RemoteError, match="others wrote to it 4 times") as caught:
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


@pytest.mark.parametrize(("writers", "rounds"), [(2, 4), (4, 2)])
def test_concurrent_writers_lose_no_run(origin: Path, writers: int, rounds: int) -> None:
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
    races = reported.count("others wrote at the same time")
    print(f"50 rounds, {races} races lost, no run")
    assert races, "they never met, so nothing was shown"
    assert git(origin, "rev-list", "--count", NAME) == "1"
