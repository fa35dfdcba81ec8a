"""A record taken through the rules again: the same decisions, in the same order, or it differs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from ciguard.codec.record.lines import LineError, decode
from ciguard.model import (
    DefaultsLine,
    EndLine,
    EventLine,
    Line,
    Plan,
    ProcessEndLine,
    ProcessLine,
    Result,
    StartLine,
)
from ciguard.model.plan import claimable_blocks
from ciguard.run.frameworks.registry import framework
from ciguard.run.policy.actions import Assign, Claim, Finish, Recycle, Start, Stop, Warn
from ciguard.run.policy.rules import decision_line, next_action
from ciguard.run.policy.state import OBSERVED_EVENTS, State


class _Files:
    """The processes' own files, given to the state as far as the leg had read them."""

    def __init__(self, folder: Path, state: State) -> None:
        self._state = state
        self._lines = {
            path.name: path.read_bytes().split(b"\n")[:-1]
            for path in folder.glob("process-*.jsonl")
        }
        self._taken = dict.fromkeys(self._lines, 0)
        self._defaults: dict[str, DefaultsLine] = {}

    def take(self, name: str, count: int) -> None:
        for content in self._lines[name][self._taken[name] : count]:
            try:
                # A worker's lines before the leg found its file say everything themselves.
                line = decode(content, self._defaults.get(name, DefaultsLine()))
            except LineError:
                continue  # as the leg did
            if isinstance(line, DefaultsLine):
                self._defaults[name] = line
            elif isinstance(line, (StartLine, Result)) or (
                isinstance(line, EventLine) and line.kind in OBSERVED_EVENTS
            ):
                self._state.observe(line)
        self._taken[name] = max(count, self._taken[name])

    def take_all_of(self, process: int) -> None:
        for name, lines in self._lines.items():
            if name.startswith(f"process-{process:03d}"):
                self.take(name, len(lines))


def replay(
    folder: Path, plan: Plan, step_limit_s: float | None = None, key: str = "01"
) -> Iterator[tuple[Line, Line | None]]:
    """Yield each recorded decision with the one that the rules come to now."""
    shard = next(one for one in plan.shards if one.key == key)
    state = State(
        shard,
        plan.suites,
        plan.policy,
        step_limit_s=step_limit_s,
        file_of=lambda unit: framework(plan.suites[unit.suite].framework).file_of(unit.unit),
        others_blocks=claimable_blocks(plan, key),
    )
    files = _Files(folder, state)
    for content in (folder / "supervisor.jsonl").read_bytes().split(b"\n")[:-1]:
        line = decode(content)
        assert line is not None
        if isinstance(line, ProcessLine) or (
            isinstance(line, EventLine) and (line.lines_read or line.kind == "claim_asked")
        ):
            for name, count in line.lines_read.items():
                files.take(name, count)
            action = next_action(state, line.at_s or 0.0)
            rerun = decision_line(action, line.at_s or 0.0, line.lines_read, state.units)
            if isinstance(line, ProcessLine):
                yield replace(line, pid=None), rerun
            else:
                yield replace(line, detail=""), rerun
            if isinstance(action, (Start, Assign, Stop, Recycle, Warn, Claim)):
                state.apply(action)
        elif isinstance(line, EndLine):
            action = next_action(state, line.at_s or 0.0)
            ending = action.ending if isinstance(action, Finish) else None
            yield line, replace(line, ending=ending) if ending else None
            state.observe(line)
        else:
            if isinstance(line, (Result, ProcessEndLine)) and line.process:
                files.take_all_of(line.process)
            state.observe(line)


def replays(folder: Path, plan: Plan, step_limit_s: float | None = None, key: str = "01") -> None:
    """Assert that every decision of a real leg comes out again."""
    compared = list(replay(folder, plan, step_limit_s, key))
    assert len(compared) >= 2
    for recorded, rerun in compared:
        assert recorded == rerun
