from __future__ import annotations

from dataclasses import replace
from threading import Barrier, Thread

import pytest

from ciguard.serve.history_objects import HistoryRow, current_row, current_rows, replace_row

ROW = HistoryRow(11, "history/11/1-a.ciguard", "a" * 64, 10, 1)


def test_row_changes_only_from_the_version_that_was_read(database: Database) -> None:
    second, third = (replace(ROW, version=number) for number in (2, 3))
    with database.write() as connection:
        assert current_row(connection, 11) is None
        assert not replace_row(connection, second, 1)
        assert replace_row(connection, ROW, 0)
        assert not replace_row(connection, second, 0)
        assert replace_row(connection, second, 1)
        assert not replace_row(connection, third, 1)
        assert current_row(connection, 11) == second
        assert current_row(connection, 12) is None
        assert replace_row(connection, replace(ROW, repository_id=5), 0)
        assert [row.repository_id for row in current_rows(connection)] == [5, 11]


@pytest.mark.parametrize("expected", [0, 1])
def test_of_writers_at_once_one_wins(database: Database, expected: int) -> None:
    with database.write() as connection:
        assert replace_row(connection, ROW, 0)
    repository_id = 11 if expected else 12
    barrier, won = Barrier(4), []

    def write(number: int) -> None:
        row = HistoryRow(repository_id, f"object {number}", "a" * 64, 1, expected + 1)
        barrier.wait(10)
        with database.write() as connection:
            if replace_row(connection, row, expected):
                won.append(row)

    threads = [Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    with database.read() as connection:
        assert [current_row(connection, repository_id)] == won
