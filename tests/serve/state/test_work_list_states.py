"""Any sequence of what workers do to the work list, against a model of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import sqlalchemy as sa
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from ciguard.serve.state import lanes, schema, work_list
from ciguard.serve.state.database import Database
from ciguard.serve.state.run_key import RunKey
from ciguard.serve.state.work_list import MAX_TRIES, NewWork, Work

WORKERS = st.sampled_from(["w1", "w2", "w3"])
LANES = ("a", "b")
RUNS = st.integers(1, 8)


@dataclass
class Row:
    """What the model knows of a row; its lane is by its number."""

    lane: str
    state: str = "waiting"
    is_due: bool = True
    tries: int = 0


class WorkList(RuleBasedStateMachine):
    """Each of its runs is one transaction of `database`, rolled back."""

    database: ClassVar[Database]

    def __init__(self) -> None:
        super().__init__()
        self.rows: dict[int, Row] = {}
        self.leases: dict[str, Work] = {}  # lane -> what holds it, expired or not
        self.expired: set[str] = set()
        self.works: dict[str, Work] = {}  # worker -> what it believes to have
        self.writing = self.database.write()
        self.connection = self.writing.__enter__()

    def teardown(self) -> None:
        self.connection.get_transaction().rollback()  # type: ignore[union-attr]
        self.writing.__exit__(None, None, None)

    def is_free(self, lane: str) -> bool:
        return lane not in self.leases or lane in self.expired

    def holds(self, work: Work) -> bool:
        return self.leases.get(work.lane) is work and work.lane not in self.expired

    def takeable(self, state: str) -> list[int]:
        due = [n for n, row in self.rows.items() if row.state == state and row.is_due]
        oldest = {self.rows[number].lane: number for number in sorted(due, reverse=True)}
        return [number for lane, number in oldest.items() if self.is_free(lane)]

    @rule(number=RUNS)
    def add(self, number: int) -> None:
        lane = LANES[number % len(LANES)]
        entry = NewWork(RunKey(1, number, 1), lane, "webhook")
        is_new = number not in self.rows
        assert work_list.add(self.connection, [entry]) == is_new
        if is_new:
            self.rows[number] = Row(lane)

    @rule(worker=WORKERS)
    def take(self, worker: str) -> None:
        if worker in self.works:
            return
        orphans = self.takeable("running")
        while twice := [n for n in orphans if self.rows[n].tries > work_list.PROMPT_TRIES]:
            for number in twice:
                assert work_list.put_off(self.connection, worker)
                self.put_off(self.rows[number])
            orphans = self.takeable("running")
        assert not work_list.put_off(self.connection, worker)
        expected = orphans or self.takeable("waiting")
        work = work_list.take(self.connection, worker)
        if work is None:
            assert expected == []
            return
        assert work.key.run_id in expected
        row = self.rows[work.key.run_id]
        row.state = "running"
        row.tries += 1
        assert work.tries == row.tries
        self.works[worker] = self.leases[row.lane] = work
        self.expired.discard(row.lane)

    def put_off(self, row: Row) -> None:
        """Its worker died for the second time, or later."""
        row.state = "dead" if row.tries >= MAX_TRIES else "waiting"
        row.is_due = False
        self.leases.pop(row.lane, None)
        self.expired.discard(row.lane)

    def stored(self) -> dict[int, str]:
        query = sa.select(schema.work.c.run_id, schema.work.c.state)
        return dict(map(tuple, self.connection.execute(query)))

    def settle(self, worker: str, *, held: bool) -> Row | None:
        work = self.works.pop(worker)
        assert held is self.holds(work)
        if not held:
            return None
        del self.leases[work.lane]
        return self.rows[work.key.run_id]

    @rule(worker=WORKERS)
    def finish(self, worker: str) -> None:
        if worker in self.works:
            held = work_list.finish(self.connection, self.works[worker])
            if (row := self.settle(worker, held=held)) is not None:
                row.state = "done"

    @rule(worker=WORKERS)
    def fail(self, worker: str) -> None:
        if worker in self.works:
            held = work_list.fail(self.connection, self.works[worker], "x")
            if (row := self.settle(worker, held=held)) is not None:
                row.state = "dead" if row.tries >= MAX_TRIES else "waiting"
                row.is_due = False

    @rule(worker=WORKERS, is_soon=st.booleans())
    def postpone(self, worker: str, is_soon: bool) -> None:
        if worker in self.works:
            wait_s = 0 if is_soon else 60
            held = work_list.postpone(self.connection, self.works[worker], wait_s)
            if (row := self.settle(worker, held=held)) is not None:
                row.state, row.is_due, row.tries = "waiting", is_soon, row.tries - 1

    @rule(worker=WORKERS)
    def die(self, worker: str) -> None:
        self.works.pop(worker, None)

    @rule(worker=WORKERS)
    def renew(self, worker: str) -> None:
        if worker in self.works:
            work = self.works[worker]
            held = lanes.renew(self.connection, work.lane, work.worker)
            assert held is self.holds(work)

    @rule(number=RUNS)
    def retry(self, number: int) -> None:
        row = self.rows.get(number)
        is_over = row is not None and row.state in ("done", "dead")
        assert work_list.retry(self.connection, RunKey(1, number, 1)) is is_over
        if row is not None and is_over:
            row.state, row.is_due, row.tries = "waiting", True, 0

    @rule()
    def pass_a_day(self) -> None:
        for table, column in ((schema.work, "due_at_ms"), (schema.lane, "until_ms")):
            earlier = {column: table.c[column] - 86_400_000}
            self.connection.execute(sa.update(table).values(earlier))
        for row in self.rows.values():
            row.is_due = True
        self.expired = set(self.leases)

    @invariant()
    def is_as_the_model(self) -> None:
        assert self.stored() == {number: row.state for number, row in self.rows.items()}
        for work in self.works.values():
            assert work_list.still_holds(self.connection, work) is self.holds(work)


def test_any_sequence_is_as_the_model(database: Database) -> None:
    few = settings(max_examples=15, stateful_step_count=30)
    machine = type("WorkListOfDatabase", (WorkList,), {"database": database})
    run_state_machine_as_test(machine, settings=few)
