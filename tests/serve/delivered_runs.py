"""An organisation that pushes: runs that end at a fake GitHub, told of badly by its webhooks.

Of the deliveries some are doubled, some lost, and those of a few runs come in any order. What the
service should have in the end follows from the runs alone.
"""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import httpx
from fakegithub.actions import add_run
from fakegithub.apps import FakeRepository, add_app
from fakegithub.deliveries import PATH, FakeDelivery, workflow_run
from fakegithub.state import FakeGitHub
from guard.fixtures import World, make_leg, make_plan
from serve.fake_runs import BY_SERVICE, REPOSITORY, pull_json, upload_artifacts

SHOP: Final = FakeRepository(id=1, full_name=REPOSITORY, private=False)
BASE: Final = "b" * 40
FIRST: Final = 1001  # the smallest id of a run
LOST, DOUBLED = 0.2, 0.3  # of all deliveries
SHUFFLED: Final = 4  # deliveries that may overtake each other


@dataclass(frozen=True, slots=True)
class DeliveredRun:
    """A run of a pull request, or of the base branch (None), with so many results."""

    id: int
    pull_request: int | None
    results: int


@dataclass
class Organisation:
    """Makes runs; threads may ask what there is."""

    github: FakeGitHub
    choose: random.Random
    pull_requests: int = 4
    runs: list[DeliveredRun] = field(default_factory=list)

    def __post_init__(self) -> None:
        add_app(self.github).install(SHOP)
        self.github.files["ciguard.toml", BASE] = BY_SERVICE
        for number in range(1, self.pull_requests + 1):
            self._open_pull_request(number)

    def _open_pull_request(self, number: int) -> None:
        self.github.pulls.add((REPOSITORY, number))
        self.github.files["ciguard.toml", _sha(number)] = BY_SERVICE
        pull = pull_json()
        head = {**pull["head"], "sha": _sha(number), "ref": f"topic-{number}"}
        pull |= {"number": number, "head": head, "merge_commit_sha": _sha(number)}
        self.github.pulls_of[_sha(number)] = [pull]

    def complete_run(self) -> FakeDelivery:
        """One more run has ended, a third of them of the base branch; what GitHub tells of it."""
        with self.github.lock:
            return self._complete_run(len(self.runs))

    def _complete_run(self, at: int) -> FakeDelivery:
        number = None if at % 3 == 0 else self.choose.randint(1, self.pull_requests)
        run = DeliveredRun(FIRST + at, number, 3 + at % 7)
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        facts: dict[str, Any] = {
            "event": "pull_request" if number else "push",
            "head_branch": f"topic-{number}" if number else "main",
            "head_sha": _sha(number) if number else BASE,
            "head_repository": SHOP.as_json(),
        }
        self._upload(run)
        times = dict.fromkeys(("created_at", "run_started_at", "updated_at"), now)
        add_run(self.github, run.id, **facts, **times, repository={"id": SHOP.id})
        self.runs.append(run)
        return workflow_run(SHOP, run.id, **facts)

    def _upload(self, run: DeliveredRun) -> None:
        # One of its own: a history drops a run whose tests all have twenty newer values.
        units = [f"run_{run.id}.t", *(f"a.t::{at}" for at in range(1, run.results))]
        plan = make_plan({"01": tuple(units[:2]), "02": tuple(units[2:])})
        world = World(plan, {key: make_leg(plan, key, run=run.id) for key in ("01", "02")})
        if run.id % 4 == 0:
            world.result("01", units[1], outcome="failed", message=f"assert {run.id} == 0")
        upload_artifacts(self.github, world, run.id)

    def newest_run(self, pull_request: int) -> int | None:
        found = (one.id for one in self.runs if one.pull_request == pull_request)
        return max(found, default=None)

    def base_runs(self) -> list[int]:
        return [one.id for one in self.runs if one.pull_request is None]


def _sha(number: int) -> str:
    return f"{number:040x}"


class Pushes:
    """Lets runs end as fast as they are judged, in a thread, and delivers what GitHub tells.

    Args:
        address: of the service; GitHub sends what it cannot deliver no second time.
        is_busy: whether the service knows of enough runs for now.
    """

    def __init__(self, made: Organisation, address: str, is_busy: Callable[[], bool]) -> None:
        self._made, self._address, self._is_busy = made, address, is_busy
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._push)
        self._pending: list[FakeDelivery] = []
        self.doubled, self.lost = 0, 0
        self.answers: list[tuple[str, int | None]] = []  # id of a delivery, status

    def __enter__(self) -> Pushes:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _push(self) -> None:
        choose = self._made.choose
        while not self._stop.is_set():
            if self._is_busy():
                self._stop.wait(0.02)
                continue
            delivery = self._made.complete_run()
            chance = choose.random()
            self.lost += chance < LOST
            self.doubled += chance > 1 - DOUBLED
            copies = 0 if chance < LOST else 2 if chance > 1 - DOUBLED else 1
            self._pending += [delivery] * copies
            if len(self._pending) >= SHUFFLED:
                self._send_pending()
        self._send_pending()

    def _send_pending(self) -> None:
        self._made.choose.shuffle(self._pending)
        for one in self._pending:
            if not self.deliver(one):
                self._stop.wait(0.2)  # while nobody is told, runs would end without end
        self._pending.clear()

    def deliver(self, delivery: FakeDelivery) -> bool:
        """Send it once, and note the answer; True where it was accepted."""
        status = None
        with contextlib.suppress(httpx.TransportError):
            answer = httpx.post(
                self._address + PATH,
                content=delivery.body,
                headers=delivery.headers(),
                trust_env=False,
                verify=False,  # there is no TLS, and to prepare for it takes 20 ms
                timeout=10.0,
            )
            status = answer.status_code
        self.answers.append((delivery.id, status))
        return status == 202
