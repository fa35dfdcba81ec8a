"""Many requests in one commit, and each told of its own."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import closing

import pytest
import sqlalchemy as sa

from ciguard.errors import RemoteError
from ciguard.serve import batch_writer
from ciguard.serve.batch_writer import BatchWriter, WriterOverloaded
from ciguard.serve.state.database import Database

pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
NUMBERS = sa.table("number", sa.column("value"))


class Writing:
    """Writes numbers; the first transaction waits until a test opens the gate."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.batches: list[list[int]] = []
        self.has_begun = threading.Event()
        self.gate = threading.Event()
        with database.write() as connection:
            connection.execute(sa.text("CREATE TABLE number (value INTEGER PRIMARY KEY)"))

    def __call__(self, numbers: Sequence[int]) -> None:
        with self.database.write() as connection:
            self.has_begun.set()
            assert self.gate.wait(timeout=20)
            self.batches.append(list(numbers))
            connection.execute(sa.insert(NUMBERS), [{"value": one} for one in numbers])
            if 13 in numbers:
                raise ZeroDivisionError
            if 99 in numbers:
                raise RemoteError("the disk is full")

    def stored(self) -> list[int]:
        with self.database.read() as connection:
            return sorted(connection.execute(sa.select(NUMBERS.c.value)).scalars())


@pytest.fixture
def writing(database: Database) -> Writing:
    return Writing(database)


def submit(writing: Writing, *numbers: int, cancel: int = 0) -> dict[int, Future[None]]:
    """Have 0 written, and the others while that is under way."""
    with closing(BatchWriter(writing)) as writer:
        futures = {0: writer.submit(0)[0]}
        assert writing.has_begun.wait(timeout=20)
        try:
            futures |= {one: writer.submit(one)[0] for one in numbers}
        finally:
            if cancel:
                futures[cancel].cancel()
            writing.gate.set()
    return futures


def test_what_waits_meanwhile_is_one_transaction(writing: Writing) -> None:
    futures = submit(writing, *range(100, 200))
    assert writing.batches == [[0], list(range(100, 200))]
    assert all(one.done() and one.exception() is None for one in futures.values())
    assert writing.stored() == [0, *range(100, 200)]


def test_items_of_a_request_are_one_transaction(writing: Writing) -> None:
    numbers = range(100, 101 + batch_writer.BATCH)
    writing.gate.set()
    with closing(BatchWriter(writing)) as writer:
        writer.submit(*numbers)
    assert writing.batches == [list(numbers)]


def test_one_that_cannot_be_written_leaves_the_others(writing: Writing) -> None:
    futures = submit(writing, 12, 13, 14)
    assert isinstance(futures[13].exception(), ZeroDivisionError)
    assert [futures[one].exception() for one in (12, 14)] == [None, None]
    assert writing.stored() == [0, 12, 14]


def test_full_disk_refuses_all_and_writes_none(writing: Writing) -> None:
    futures = submit(writing, 98, 99)
    assert [str(futures[one].exception()) for one in (98, 99)] == ["the disk is full"] * 2
    assert writing.stored() == [0]


def test_whoever_no_longer_waits_is_not_written(writing: Writing) -> None:
    futures = submit(writing, 1, 2, 3, cancel=2)
    assert futures[2].cancelled()
    assert writing.stored() == [0, 1, 3]


def test_more_than_can_wait_is_refused(writing: Writing, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_writer, "MAX_QUEUED", 2)
    with pytest.raises(WriterOverloaded):
        submit(writing, 1, 2, 3)
    assert writing.stored() == [0, 1, 2]


def test_stopped_writer_refuses(writing: Writing) -> None:
    writing.gate.set()
    with closing(BatchWriter(writing)) as writer:
        writer.submit(1)[0].result(timeout=20)
    with pytest.raises(WriterOverloaded):
        writer.submit(2)
