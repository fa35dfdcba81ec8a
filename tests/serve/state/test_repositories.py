"""Repositories by GitHub's number, on SQLite and on PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import sqlalchemy as sa
from serve.state.test_run_rows import RUN
from sqlalchemy.engine import Connection

from ciguard.serve.pages.viewers import Viewer
from ciguard.serve.state import repositories, run_rows, schema
from ciguard.serve.state.database import Database
from ciguard.serve.state.repositories import Repository, RepositoryState
from ciguard.serve.state.run_key import RunKey

ONE = Repository(1, "Octo/One", is_private=False, default_branch="main", installation_id=9)
TWO = Repository(2, "octo/two", is_private=True, default_branch="trunk", installation_id=9)


@pytest.fixture
def connection(database: Database) -> Iterator[Connection]:
    """One transaction with two repositories."""
    with database.write() as opened:
        repositories.upsert(opened, [TWO, ONE])
        yield opened


def test_a_repository_is_found_by_its_name_in_any_case(connection: Connection) -> None:
    assert repositories.find(connection, "octo/ONE") == ONE
    assert repositories.find(connection, "octo/three") is None
    assert repositories.get(connection, 2) == TWO
    assert repositories.active(connection) == (ONE, TWO)


def test_a_name_that_no_repository_can_have_is_found_nowhere(connection: Connection) -> None:
    for name in ("o/r\0", "o/" + "r" * 300):
        assert repositories.find(connection, name) is None
        found = repositories.search(connection, sa.true(), name, limit=1, offset=0)
        assert found == (0, ())


def test_a_new_name_takes_effect_and_the_old_one_ends(connection: Connection) -> None:
    repositories.upsert(connection, [replace(ONE, full_name="octo/Uno")])
    assert repositories.find(connection, "octo/one") is None
    assert repositories.find(connection, "octo/uno") == replace(ONE, full_name="octo/Uno")


def test_a_name_that_changed_hands_is_the_last_one_named_so(connection: Connection) -> None:
    connection.execute(sa.update(schema.repository).values(updated_at_ms=1))
    repositories.upsert(connection, [replace(ONE, full_name="octo/two")])
    found = repositories.find(connection, "octo/two")
    assert found is not None
    assert found.id == 1


def test_a_late_webhook_reveals_and_revives_nothing(connection: Connection) -> None:
    repositories.set_private(connection, 1)
    repositories.remove(connection, [2])
    repositories.add_unknown(connection, [ONE, TWO, replace(ONE, id=3, full_name="octo/three")])
    found = repositories.get(connection, 1)
    assert found is not None
    assert found.is_private
    assert repositories.get(connection, 2) is None
    assert repositories.get(connection, 3) is not None


def test_what_github_answers_now_is_written_whole(connection: Connection) -> None:
    repositories.remove(connection, [1])
    repositories.set_reconciled(connection, 1)
    now = Repository(1, "other/one", is_private=True, installation_id=10)
    repositories.upsert(connection, [now])
    found = repositories.get(connection, 1)
    assert found is not None
    assert found.reconciled_at_ms is not None
    # An installation's list of repositories has no default branch.
    assert replace(found, reconciled_at_ms=None) == replace(now, default_branch="main")


def test_removed_repositories_are_found_by_nobody_but_prune(connection: Connection) -> None:
    repositories.remove_installation(connection, 8)
    repositories.delete(connection, 1)  # an active one stays
    assert repositories.get(connection, 1) == ONE
    assert repositories.removed(connection) == ()
    repositories.remove_installation(connection, 9)
    assert repositories.active(connection) == ()
    assert repositories.find(connection, "octo/one") is None
    assert repositories.get(connection, 1) is None
    gone = replace(ONE, state=RepositoryState.REMOVED)
    assert repositories.removed(connection) == (gone, replace(TWO, state=RepositoryState.REMOVED))
    repositories.delete(connection, 1)
    assert [one.id for one in repositories.removed(connection)] == [2]


def test_red_repositories_are_first_over_all_pages(connection: Connection) -> None:
    """The newest run of any workflow makes a repository red, and its next run green again."""
    history = {  # by repository: workflow, run, attempt and verdict, as they were judged
        1: "w2/1:failed w1/1:passed n3/1:passed w4/1:passed",
        2: "w5/1:passed n6/1:failed w7/1:passed w1/1:failed",
        3: "",
        4: "w8/1:failed w8/2:passed",
        5: "w9/1:incomplete",
        6: "w10/1:failed " + " ".join(f"n{run_id}/1:passed" for run_id in range(11, 69)),
        7: "w10/1:failed n7776011/1:passed",  # w has not run for 90 days
    }
    repositories.upsert(
        connection, [Repository(number, f"o/{9 - number}", False) for number in history]
    )
    for number, judged in history.items():
        for word in judged.split():
            name, _, verdict = word.partition(":")
            run_id, attempt = map(int, name[1:].split("/"))
            changes: dict[str, Any] = {"workflow": name[0], "verdict": verdict}
            run = replace(RUN, key=RunKey(number, run_id, attempt), is_base_branch=True, **changes)
            run_rows.record_run(connection, replace(run, completed_at_ms=1_000 * run_id))
        foreign = replace(RUN, key=RunKey(number, 99, 1), is_base_branch=True, verdict="foreign")
        run_rows.record_run(connection, foreign)
    found = [
        one.id
        for offset in range(0, 8, 2)
        for one in repositories.search(connection, sa.true(), "", limit=2, offset=offset)[1]
    ]
    assert found == [6, 5, 2, 3, 7, 4, 1]
    shown = run_rows.base_runs(connection, history)
    base_runs = {number: run.key.run_id for number, run in shown.items()}
    assert base_runs == {1: 4, 2: 6, 4: 8, 5: 9, 6: 10, 7: 7776011}


@pytest.mark.parametrize(
    ("sees_all", "visible", "expected"),
    [(True, (), "A B_c bxc"), (False, (), "bxc"), (False, (2, 4), "B_c bxc")],
)
def test_search_finds_what_somebody_may_see(
    database: Database, sees_all: bool, visible: tuple[int, ...], expected: str
) -> None:
    with database.write() as connection:
        known = [(1, "o/A", True), (2, "o/B_c", True), (3, "o/bxc", False), (4, "o/gone", True)]
        repositories.upsert(connection, [Repository(*one) for one in known])
        repositories.remove(connection, [4])
        shown = Viewer(sees_all=sees_all, visible=frozenset(visible)).are_visible
        total, found = repositories.search(connection, shown, "", limit=9, offset=0)
        names = [f"o/{name}" for name in expected.split()]
        assert (total, [one.full_name for one in found]) == (len(names), names)
        total, found = repositories.search(connection, shown, "b_C", limit=9, offset=0)
        assert [one.id for one in found] == [2] * ("B_c" in expected)
        total, found = repositories.search(connection, shown, "", limit=1, offset=1)
        assert (total, [one.full_name for one in found]) == (len(names), names[1:2])
