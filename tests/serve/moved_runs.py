"""Runs of real legs that ask a real service for blocks, while legs and service are killed or slow.

A test sleeps; how long depends on its leg, so that some legs end early and others late.
"""

from __future__ import annotations

import contextlib
import json
import random
import shutil
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, Self, get_args

from conftest import clean_environment
from serve.web_process import free_port, web_process

from ciguard.codec import plan_file as codec
from ciguard.codec.record.reader import read_records
from ciguard.history.service_credentials import TOKEN_VARIABLE
from ciguard.model import Plan
from ciguard.serve.state import repositories, tokens
from ciguard.serve.state.database import open_database
from ciguard.serve.state.repositories import Repository

SHOP: Final = Repository(11, "octo-org/shop", True, "main", None)
SHA: Final = "a" * 40
TESTS_A_LEG: Final = 24  # each predicted to take 1 s: 10 blocks
SLOW_S: Final = (0.02, 0.4)  # what a test takes, from the fastest leg to the slowest
LONGEST_RUN_S: Final = 120.0
CONFIGURATION: Final = """\
[suite.work]
framework = "command"
list = ["cat", "units.txt"]
command = ["sh", "work.sh", "{units_file}"]

[history]
store = "SERVICE/api/v1/repos/octo-org/shop/history"
"""
WORK: Final = """\
while read -r unit; do
    echo '{"type":"start","unit":"'"$unit"'"}' >> "$CIGUARD_RECORD_FILE"
    sleep "$SLOW"
    echo '{"type":"result","unit":"'"$unit"'","outcome":"passed"}' >> "$CIGUARD_RECORD_FILE"
done < "$1"
"""
Fault = Literal[
    "kill_leg", "kill_leg_and_record", "kill_service", "restart_service", "pause_service", "none"
]
FAULTS: Final[tuple[Fault, ...]] = get_args(Fault)


def drawn_faults(seed: int) -> tuple[Fault, ...]:
    return tuple(random.Random(f"faults {seed}").choices(FAULTS, k=2))


@dataclass
class RunningService:
    """The web part of a service, on one port whenever it runs."""

    database: str
    results: Path
    port: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None
    _stack: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        with self._lock:
            if self.process is None:
                running = web_process(self.database, self.results, self.port)
                self.process = self._stack.enter_context(running)

    def kill(self) -> None:
        with self._lock:
            self._stack.close()
            self.process = None

    def pause(self, for_s: float) -> None:
        """Neither answer nor refuse."""
        process = self.process
        if process is not None:
            process.send_signal(signal.SIGSTOP)
            threading.Event().wait(for_s)
            process.send_signal(signal.SIGCONT)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()


def new_token(database: str) -> str:
    """A token of the repository, which the service knows from then on."""
    opened = open_database(database)
    try:
        with opened.write() as connection:
            repositories.upsert(connection, [SHOP])
            return tokens.create(connection, SHOP.id).secret
    finally:
        opened.close()


@dataclass(frozen=True)
class MovedRun:
    """What a run came to.

    Attributes:
        executions: by unit, over all legs.
        missing: by unit, the shard that the verdict names.
        moved: units that another leg ran than that of their shard.
    """

    faults: tuple[Fault, ...]
    killed: frozenset[str]
    plan: Plan
    executions: Counter[str]
    missing: dict[str, str]
    moved: int
    verdict: str
    report: str

    @property
    def repeated(self) -> int:
        return sum(count - 1 for count in self.executions.values())


def run_environment(run_id: int) -> dict[str, str]:
    return {
        "GITHUB_ACTIONS": "true",
        "GITHUB_REPOSITORY": SHOP.full_name,
        "GITHUB_WORKFLOW_REF": f"{SHOP.full_name}/.github/workflows/tests.yml@refs/heads/main",
        "GITHUB_SHA": SHA,
        "GITHUB_RUN_ID": str(run_id),
        "GITHUB_RUN_ATTEMPT": "1",
        "GITHUB_REF_NAME": "main",
        "GITHUB_EVENT_NAME": "push",
    }


def run_legs(
    folder: Path, service: RunningService, secret: str, seed: int, *, faults: Sequence[Fault]
) -> MovedRun:
    """One run with faults at random moments, until its guard has judged it."""
    legs = 4 if seed % 2 else 8
    chosen = random.Random(seed)
    folder.mkdir()
    names = "".join(f"t{number:03}\n" for number in range(legs * TESTS_A_LEG))
    files = {
        "ciguard.toml": CONFIGURATION.replace("SERVICE", service.url),
        "work.sh": WORK,
        "units.txt": names,
    }
    for name, content in files.items():
        (folder / name).write_text(content, encoding="utf-8")
    service.start()
    environ = run_environment(1000 + seed)
    plan, token = _plan(folder, service.url, legs, {**environ, TOKEN_VARIABLE: secret})
    processes = {
        shard.key: _start_leg(folder, shard.key, {**environ, "CIGUARD_CLAIMS_TOKEN": token}, chosen)
        for shard in plan.shards
    }
    scene = _Scene(service, processes)
    disturbing = [
        threading.Thread(target=scene.disturb, args=(fault, random.Random(f"{seed}{place}")))
        for place, fault in enumerate(faults)
    ]
    for one in disturbing:
        one.start()
    for process in processes.values():
        process.wait(LONGEST_RUN_S)
    scene.over.set()
    for one in disturbing:
        one.join()
    for key in scene.without_record:
        if (record := folder / "records" / key).exists():
            shutil.rmtree(record)
    return _judged(folder, plan, environ, tuple(faults), frozenset(scene.killed))


def _plan(folder: Path, url: str, legs: int, environ: dict[str, str]) -> tuple[Plan, str]:
    """The plan and the token of its legs, as two jobs hand them on."""
    making = ("--history", "none.ciguard", "--shards", str(legs), "-o", "plan.json")
    for options in (making, ("--register", "plan.json", "--github")):
        subprocess.run(
            [sys.executable, "-m", "ciguard", "plan", "--claims", url, *options],
            cwd=folder,
            env=clean_environment(**environ, GITHUB_OUTPUT="outputs"),
            check=True,
            capture_output=True,
        )
    lines = (folder / "outputs").read_text(encoding="utf-8").splitlines()
    at = next(at for at, line in enumerate(lines) if line.startswith("claims_token<<"))
    return codec.decode((folder / "plan.json").read_bytes(), "plan.json"), lines[at + 1]


def _start_leg(
    folder: Path, key: str, environ: dict[str, str], chosen: random.Random
) -> subprocess.Popen[bytes]:
    slow = f"{chosen.uniform(*SLOW_S):.3f}"
    command = ("run", "--plan", "plan.json", "--shard", key, "--record", f"records/{key}")
    with (folder / f"leg-{key}.txt").open("wb") as output:
        return subprocess.Popen(
            [sys.executable, "-m", "ciguard", *command],
            cwd=folder,
            env=clean_environment(**environ, SLOW=slow),
            stdout=output,
            stderr=output,
        )


@dataclass(frozen=True)
class _Scene:
    """The legs of a run, which of them were killed, and whether all have ended.

    `without_record`: killed with the machine, so that nothing of their records arrives.
    """

    service: RunningService
    processes: dict[str, subprocess.Popen[bytes]]
    killed: set[str] = field(default_factory=set)
    without_record: set[str] = field(default_factory=set)
    over: threading.Event = field(default_factory=threading.Event)

    def disturb(self, fault: Fault, chosen: random.Random) -> None:
        """Do it at a random moment, unless all legs have ended before."""
        if self.over.wait(chosen.uniform(0.5, 8.0)):
            return
        match fault:
            case "kill_leg" | "kill_leg_and_record":
                key = chosen.choice(sorted(self.processes))
                if self.processes[key].poll() is None:
                    self.killed.add(key)
                    self.processes[key].kill()
                    if fault == "kill_leg_and_record":
                        self.without_record.add(key)
            case "kill_service":
                self.service.kill()
            case "restart_service":
                self.service.kill()
                self.over.wait(chosen.uniform(0.0, 2.0))
                self.service.start()
            case "pause_service":
                self.service.pause(chosen.uniform(0.2, 4.0))
            case "none":
                pass


def _judged(
    folder: Path,
    plan: Plan,
    environ: dict[str, str],
    faults: tuple[Fault, ...],
    killed: frozenset[str],
) -> MovedRun:
    words = ("guard", "--plan", "plan.json", "--records", "records", "--format", "json")
    done = subprocess.run(
        [sys.executable, "-m", "ciguard", *words],
        cwd=folder,
        env=clean_environment(**environ),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout, done.stderr
    verdict = json.loads(done.stdout)
    planned_in = {unit.unit: shard.key for shard in plan.shards for unit in shard.units}
    executions: Counter[str] = Counter()
    moved = 0
    files = [
        (path.relative_to(folder).as_posix(), path.read_bytes())
        for path in (folder / "records").rglob("*.jsonl")
    ]
    for record in read_records(files):
        units = {(one.unit, one.process) for one in record.results if one.outcome != "died"}
        executions.update(unit for unit, _ in units)
        shard = record.header.shard if record.header else ""
        moved += sum(planned_in[unit] != shard for unit, _ in units)
    missing = {one["unit"]: one["shard"] for one in verdict["missing"]}
    return MovedRun(
        faults, killed, plan, executions, missing, moved, verdict["verdict"], done.stdout
    )
