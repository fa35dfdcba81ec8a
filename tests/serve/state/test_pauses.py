"""Which rows wait: of a paused repository, and behind the history, on both engines."""

from __future__ import annotations

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from ciguard.github.api_errors import GitHubError, error_of_response
from ciguard.serve.github_clients import refusal_of
from ciguard.serve.state import pauses, repositories, schema, work_list
from ciguard.serve.state.database import read_clock_ms
from ciguard.serve.state.pauses import Refusal
from ciguard.serve.state.repositories import Repository
from ciguard.serve.state.run_key import RunKey
from ciguard.serve.state.work_list import NewWork, Source, Work

ALL = sa.true()
# By number, the installation of each repository; None: of the token.
INSTALLATIONS = {1: 7, 2: 7, 3: 8, 4: None, 5: None}
REPOSITORIES = {
    number: Repository(number, f"o/{number}", is_private=False, installation_id=installation)
    for number, installation in INSTALLATIONS.items()
}
TOKEN = "POST /app/installations/7/access_tokens"
LIMIT = GitHubError("answered 403: API rate limit exceeded", status=403, wait_s=90.0)
REFUSED = {
    "limit": (LIMIT, [3, 4, 5], 90.0),
    "token": (error_of_response("GET /repos/o/1", 401, "Bad credentials", {}), [3, 4, 5], 60.0),
    "key": (error_of_response(TOKEN, 401, "could not be decoded", {}), [3, 4, 5], 60.0),
    "uninstalled": (error_of_response(TOKEN, 404, "Not Found", {}), [3, 4, 5], 60.0),
    "suspended": (error_of_response(TOKEN, 403, "suspended", {}), [3, 4, 5], 60.0),
    "permission": (error_of_response("GET /repos/o/1", 403, "no", {}), [2, 3, 4, 5], 60.0),
}
OTHERS = (
    error_of_response(TOKEN, 502, "Bad gateway", {}),
    error_of_response("GET /repos/o/1/actions/runs/1", 404, "Not Found", {}),
    GitHubError("no answer", where=TOKEN),
)


def add(connection: Connection, repository: int, *runs: int, source: Source = "webhook") -> None:
    """In a lane of each source, as base branch and pull requests are."""
    lane = f"{repository} {source}"
    entries = [NewWork(RunKey(repository, run, 1), lane, source) for run in runs]
    work_list.add(connection, entries)


def taken(connection: Connection) -> list[Work]:
    """What workers without end take."""
    works: list[Work] = []
    while work := work_list.take(connection, f"worker {len(works)}"):
        works.append(work)
    return works


def pass_time(connection: Connection, seconds: float) -> None:
    for table in (schema.pause, schema.work, schema.lane):
        names = {"since_ms", "until_ms", "due_at_ms"} & set(table.c.keys())
        earlier = {name: table.c[name] - round(seconds * 1000) for name in names}
        connection.execute(sa.update(table).values(earlier))


@pytest.fixture(autouse=True)
def _known(connection: Connection) -> None:
    repositories.upsert(connection, list(REPOSITORIES.values()))
    connection.execute(sa.update(schema.repository).values(reconciled_at_ms=0))


@pytest.mark.parametrize("refusal", REFUSED)
def test_a_refusal_stops_what_it_concerns_until_it_is_over(
    connection: Connection, refusal: str
) -> None:
    error, others, wait_s = REFUSED[refusal]
    refused = refusal_of(error)
    assert refused is not None
    for number in REPOSITORIES:
        add(connection, number, number)
    pauses.start(connection, 1, refused)
    assert sorted(work.key.repository_id for work in taken(connection)) == others
    (pause,) = pauses.current(connection, ALL)
    assert (pause.repositories, pause.repository) == (5 - len(others), "o/1")
    assert pause.problem.startswith(error.what)
    assert pause.until_ms - pause.since_ms == pytest.approx(wait_s * 1000, abs=100)
    add(connection, 1, 11)  # a run that ends meanwhile
    assert taken(connection) == []
    pass_time(connection, wait_s + 1)
    assert {1} <= {work.key.repository_id for work in taken(connection)}


def test_a_fault_and_an_object_that_is_missing_pause_nothing() -> None:
    assert [refusal_of(error) for error in OTHERS] == [None] * 3


def test_pause_lasts_longer_each_time_and_ends_with_the_first_success(
    connection: Connection,
) -> None:
    waits_s = []
    for _ in range(8):
        pauses.start(connection, 2, Refusal("answered 401"))
        (pause,) = pauses.current(connection, ALL)
        assert pause.repositories == 2
        now_ms = read_clock_ms(connection)
        waits_s.append(round((pause.until_ms - now_ms) / 1000))
        pass_time(connection, waits_s[-1])
    assert waits_s == [60, 60, 120, 240, 480, 960, 1920, 3600]
    pauses.end(connection, [1, 2])
    assert pauses.current(connection, ALL) == ()


def test_history_comes_first_and_then_the_rest(connection: Connection) -> None:
    add(connection, 1, 40, 50)
    add(connection, 1, 20, 30, source="backfill")
    connection.execute(sa.update(schema.work).values(lane="main"))  # 40 is in no other's way
    add(connection, 2, 60)
    order = []
    while works := taken(connection):
        order.append([work.key.run_id for work in works])
        for work in works:
            work_list.finish(connection, work)
    assert [sorted(runs) for runs in order] == [[20, 60], [30], [40], [50]]


def test_run_of_the_history_that_fails_twice_holds_up_no_other(connection: Connection) -> None:
    add(connection, 1, 20, source="backfill")
    add(connection, 1, 40)
    for _ in range(2):
        (work,) = taken(connection)
        assert work.key.run_id == 20
        work_list.fail(connection, work, "no")
        pass_time(connection, 30)
    assert [work.key.run_id for work in taken(connection)] == [40]
