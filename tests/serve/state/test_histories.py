from __future__ import annotations

from dataclasses import replace
from threading import Barrier, Thread

import pytest

from ciguard.serve.state import histories
from ciguard.serve.state.database import Database
from ciguard.serve.state.histories import HistoryRow

ROW = HistoryRow(11, "history/11/1-a.ciguard", "a" * 64, 10, 1)


def test_row_changes_only_from_the_version_that_was_read(database: Database) -> None:
    second, third = (replace(ROW, version=number) for number in (2, 3))
    with database.write() as connection:
        assert histories.current(connection, 11) is None
        assert not histories.replace(connection, second, 1)
        assert histories.replace(connection, ROW, 0)
        assert not histories.replace(connection, second, 0)
        assert histories.replace(connection, second, 1)
        assert not histories.replace(connection, third, 1)
        assert histories.current(connection, 11) == second
        assert histories.current(connection, 12) is None
        assert histories.replace(connection, replace(ROW, repository_id=5), 0)
        assert [row.repository_id for row in histories.all_current(connection)] == [5, 11]


@pytest.mark.parametrize("expected", [0, 1])
def test_of_writers_at_once_one_wins(database: Database, expected: int) -> None:
    with database.write() as connection:
        assert histories.replace(connection, ROW, 0)
    repository_id = 11 if expected else 12
    barrier, won = Barrier(4), []

    def write(number: int) -> None:
        row = HistoryRow(repository_id, f"object {number}", "a" * 64, 1, expected + 1)
        barrier.wait(10)
        with database.write() as connection:
            if histories.replace(connection, row, expected):
                won.append(row)

    threads = [Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    with database.read() as connection:
        assert [histories.current(connection, repository_id)] == won
