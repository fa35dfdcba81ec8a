"""A service of real processes, an organisation that pushes, and what has to hold in the end."""

from __future__ import annotations

import contextlib
import os
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import sqlalchemy as sa
from conftest import clean_environment
from fakegithub.apps import APP_ID, private_key_pem
from fakegithub.deliveries import WEBHOOK_SECRET
from fakegithub.server import serving
from serve.delivered_runs import SHOP, Organisation, Pushes
from serve.fork_server import fork_server
from serve.kill_steps import OF_COMPACTOR, OF_WEB, SERVICE_LANES, Step, Traces, commented_runs
from serve.killer import Killer, Processes, wait_for
from serve.web_process import free_port

from ciguard.errors import RemoteError
from ciguard.history.merge import MAX_RUNS
from ciguard.history.stores import load
from ciguard.serve.history_objects import ObjectHistory
from ciguard.serve.object_cache import ObjectCache
from ciguard.serve.objects import ObjectStore, open_objects
from ciguard.serve.results import manifest
from ciguard.serve.results.compaction import FAN_IN
from ciguard.serve.results.queries import parse_filters
from ciguard.serve.results.read_model import ReadModel
from ciguard.serve.state import schema, work_list
from ciguard.serve.state.database import Database, now_ms, open_database
from ciguard.serve.state.run_key import RunKey
from ciguard.serve.work import repair

BACKLOG: Final = 4
TRIES: Final = 6  # of a step that does not come: an outage holds it up, or the machine is slow
LONG_MS: Final = 5_000  # longer than GitHub's limits: the wait after a failure
_WORK: Final = schema.work.c


@dataclass
class Scene:
    """A service that runs, and an organisation that pushes."""

    organisation: Organisation
    processes: Processes
    killer: Killer
    pushes: Pushes
    database: Database
    objects: ObjectStore

    def kill_at(self, steps: Sequence[Step]) -> None:
        """Kill once at each of these steps, in an order in which they come by themselves."""
        waiting = list(steps)
        while waiting:
            step = self._next(waiting)
            waiting.remove(step)
            if step in OF_WEB:
                self.hurry()
                self.killer.kill_web_at(step, self.organisation.complete_run(), self.pushes.deliver)
            else:
                has_come = any(self._try_to_kill_at(step) for _ in range(TRIES))
                assert has_come, (step, self.killer.kills, self.problems())

    def _try_to_kill_at(self, step: Step) -> bool:
        self.hurry()
        if step is Step.RECONCILE:
            self.killer.replace_worker()
        return self.killer.kill_at(step)

    def hurry(self) -> None:
        """Let the time pass that work waits after a failure, and nothing else waits.

        A run may be at hand at eight kills, which are hours apart elsewhere: then it is tried
        again, as a person does.
        """
        self.processes.revive()
        is_late = sa.and_(_WORK.problem != "", _WORK.due_at_ms > now_ms() + LONG_MS)
        with self.database.write() as connection:
            connection.execute(sa.update(schema.work).where(is_late).values(due_at_ms=now_ms()))
            key = (_WORK.repository_id, _WORK.run_id, _WORK.run_attempt)
            for dead in connection.execute(sa.select(*key).where(_WORK.state == "dead")).all():
                work_list.retry(connection, RunKey(*dead))

    def _next(self, waiting: list[Step]) -> Step:
        """The next one drawn; a step of the compactor only when it is about to come."""
        with self.database.read() as connection:
            arrivals = len(manifest.files(connection, ("arrival",)))
        is_near = arrivals >= FAN_IN - 2
        fitting = [one for one in waiting if (one in OF_COMPACTOR) == is_near]
        return (fitting or waiting)[0]

    def problems(self) -> list[object]:
        with self.database.read() as connection:
            query = sa.select(_WORK.run_id, _WORK.state, _WORK.tries, _WORK.problem)
            return [tuple(row) for row in connection.execute(query) if row.state != "done"]

    def undone(self) -> set[int]:
        with self.database.read() as connection:
            query = sa.select(_WORK.run_id).where(_WORK.state == "done")
            return {one.id for one in self.organisation.runs} - set(
                connection.execute(query).scalars()
            )

    def wait_until_judged(self) -> None:
        """Until GitHub has been asked for what no webhook told of, and all is judged."""
        self.hurry()
        before = self._last_reconciliation()
        self.killer.replace_worker()

        def is_judged() -> bool:
            self.hurry()
            return self._last_reconciliation() != before and not self.undone()

        wait_for(is_judged, "all is judged", self.problems)

    def _last_reconciliation(self) -> object:
        with self.database.read() as connection:
            return connection.execute(sa.select(schema.repository.c.reconciled_at_ms)).scalar_one()


@contextlib.contextmanager
def scene(
    database_url: str,
    storage: tuple[str, dict[str, str]],
    folder: Path,
    seed: int,
    *,
    list_objects: Callable[[str], Iterable[str]] | None = None,
    caches: Path | None = None,
) -> Iterator[Scene]:
    """Processes that run in the block, and are killed at its end.

    Args:
        storage: URL and credentials.
        folder: of their logs.
        list_objects: names below a prefix, where that is no folder.
        caches: folder of the workers' own files, where it is another.
    """
    choose = random.Random(seed)
    with contextlib.ExitStack() as stack:
        github = stack.enter_context(serving())
        organisation = Organisation(github, choose)
        variables = clean_environment(
            **storage[1],
            CIGUARD_WEBHOOK_SECRET=WEBHOOK_SECRET,
            CIGUARD_APP_ID=APP_ID,
            CIGUARD_APP_KEY=private_key_pem(),
            GITHUB_API_URL=github.address,
            NO_PROXY="*",
        )
        server = stack.enter_context(fork_server(folder, variables))
        database = stack.enter_context(contextlib.closing(open_database(database_url)))
        objects = open_objects(*storage)

        def names(prefix: str) -> Iterator[str]:
            # Without the size and time of each: a step may be over in 2 ms.
            for place, _, found in os.walk(Path(storage[0], prefix)):
                inside = os.path.relpath(place, storage[0])
                yield from (f"{inside}/{name}" for name in found)

        def local_path(name: str) -> Path:
            path = objects.local_path(name)
            if path is None:
                path = folder / "copy.parquet"
                path.write_bytes(objects.read(name))
            return path

        traces = Traces(database, github, list_objects or names, local_path)
        words = ("serve", "--database", database_url, "--results", storage[0])
        processes = Processes(server, free_port(), caches or folder, words)
        killer = Killer(processes, database, github, traces, choose)

        def is_busy() -> bool:
            unfinished = sa.select(sa.func.count()).where(_WORK.state.in_(("waiting", "running")))
            with contextlib.suppress(RemoteError), database.read() as connection:
                return connection.execute(unfinished).scalar_one() >= BACKLOG
            return True

        address = f"http://127.0.0.1:{processes.port}"
        pushes = Pushes(organisation, address, is_busy)
        wait_for(processes.is_listening, "the web process listens")
        yield Scene(organisation, processes, killer, pushes, database, objects)


def check(scene: Scene, folder: Path) -> None:
    """Every run once, with what was sent, and its pull request's comment of the newest."""
    organisation, database = scene.organisation, scene.database
    expected = {one.id: one.results for one in organisation.runs}
    with database.read() as connection:
        states = Counter(connection.execute(sa.select(_WORK.state)).scalars())
        runs = connection.execute(sa.select(schema.run.c.run_id)).scalars().all()
        rows = connection.execute(sa.select(schema.file_run.c.run_id, schema.file_run.c.rows)).all()
        lanes = connection.execute(sa.select(schema.lane.c.key)).scalars().all()
        delivered = connection.execute(sa.select(schema.delivery.c.id)).scalars().all()
    answers = scene.pushes.answers
    assert {status for _, status in answers} <= {202, 503, None}
    assert {one for one, status in answers if status == 202} <= set(delivered)
    assert states == {"done": len(expected)}
    assert sorted(runs) == sorted(expected)
    assert sorted(map(tuple, rows)) == sorted(expected.items())
    assert set(lanes) <= SERVICE_LANES
    found = repair.check(database, scene.objects)
    assert (found.rows, found.damaged, found.unwritten) == (sum(expected.values()), (), ())
    assert read_totals(scene, folder) == expected
    wanted = {
        (organisation.newest_run(number), number)
        for number in range(1, organisation.pull_requests + 1)
        if organisation.newest_run(number)
    }
    assert sorted(commented_runs(organisation.github)) == sorted(wanted)
    assert len(organisation.github.comments) == len(wanted)
    history = load(ObjectHistory(database, scene.objects, SHOP.id)).history
    # A quick machine makes more runs between 500 kills than a history keeps.
    assert sorted(one.run_id for one in history.runs) == organisation.base_runs()[-MAX_RUNS:]


def read_totals(scene: Scene, folder: Path) -> dict[int, int]:
    """How many results the pages have of each run."""
    with (
        contextlib.closing(ObjectCache(scene.objects, folder / "read")) as cache,
        contextlib.closing(ReadModel(scene.database, cache)) as read,
    ):
        filters = parse_filters({})
        return {
            one.id: read.run_page(RunKey(SHOP.id, one.id, 1), filters).value.sums.total
            for one in scene.organisation.runs
        }


def report(scene: Scene) -> None:
    kills, pushes = scene.killer.kills, scene.pushes
    print(
        f"\n{kills.total()} kills, {len(scene.organisation.runs)} runs, {pushes.lost} deliveries"
        f" lost, {pushes.doubled} doubled; {Counter(status for _, status in pushes.answers)}"
    )
    for step in Step:
        print(f"  {step:24}{kills[step]:4}")


def tracebacks(folder: Path) -> Counter[str]:
    """What the logs have of exceptions that nobody expected: their last lines."""
    found: Counter[str] = Counter()
    for path in folder.glob("*.log"):
        for one in path.read_text().split("Traceback (most recent call last):")[1:]:
            lines = one.splitlines()[1:]
            last = next((line for line in lines if line and not line.startswith(" ")), "")
            found[last] += 1
    return found
