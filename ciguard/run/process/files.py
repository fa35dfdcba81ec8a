"""The files through which a leg and one tested process talk, and the first line of its record."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from typing import TYPE_CHECKING, Final, Iterator, Mapping, Sequence

from ciguard.codec.record.lines import encode
from ciguard.model import DefaultsLine
from ciguard.run.frameworks.base import ProcessFiles

if TYPE_CHECKING:
    from ciguard.model import PlannedUnit, ShardLine

# Stacks of a hanging test: `plugins/ciguard_stacks.py` makes a file NAME-PID, which says that its
# process answers the signal; any other would be ended by it. Linux only.
STACK_BYTES: Final = 16384  # of one process: some thousand frames
DUMP_SIGNAL: Final[int] = int(getattr(signal, "SIGRTMAX", 7)) - 7


def process_name(process: int) -> str:
    """Name of a process's files in the record: `process-003`."""
    return f"process-{process:03d}"


def defaults_line(header: ShardLine, suite: str, variant: str, process: int) -> DefaultsLine:
    """Whose lines follow: a program that appends results then must know nothing but the unit."""
    return DefaultsLine(
        plan_id=header.plan_id,
        shard=header.shard,
        run_id=header.run_id,
        run_attempt=header.run_attempt,
        suite=suite,
        variant=variant,
        process=process,
    )


def write_process_files(
    units: Sequence[PlannedUnit] | None,
    *,
    suite_key: tuple[str, str],
    process: int,
    header: ShardLine,
    record: str,
    private: str,
    tries_before: Mapping[str, int],
    origin_s: float,
) -> ProcessFiles:
    """Write the input of one process.

    Args:
        units: None of a process that lists what exists, and waits for them.
        suite_key: suite and variant.
        record: the record's folder. private: the leg's own, with `inside` in it.

    Raises:
        OSError: a file cannot be written.
    """
    suite, variant = suite_key
    folder = os.path.join(private, process_name(process))
    os.mkdir(folder)
    batch = ProcessFiles(
        units_file=os.path.join(folder, "units.json"),
        tries_file=os.path.join(folder, "tries.json"),
        lines_file=os.path.join(folder, "units.txt"),
        record_file=os.path.join(record, f"{process_name(process)}.jsonl"),
        stop_file=os.path.join(folder, "stop"),
        stacks_file=os.path.join(folder, "stacks"),
        inside_folder=os.path.join(private, "inside"),
        suite=suite,
        variant=variant,
        process=process,
        origin_s=origin_s,
        listing_file="" if units is not None else os.path.join(folder, "listing.jsonl"),
    )
    if units is not None:
        write_units(batch, units)
    with open(batch.tries_file, "w", encoding="ascii") as stream:
        json.dump(dict(tries_before), stream)
    try:
        with open(batch.record_file, "ab") as record_file:
            record_file.write(encode(defaults_line(header, suite, variant, process)))
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(batch.record_file)  # an empty file would belong to no leg
        raise
    return batch


def write_units(batch: ProcessFiles, units: Sequence[PlannedUnit]) -> None:
    """Write what a process is to run. Raises OSError."""
    ids = [unit.unit for unit in units]
    with open(batch.lines_file, "wb") as lines:
        lines.writelines(unit.encode("utf-8", "surrogatepass") + b"\n" for unit in ids)
    # Whole at once: the process may wait for it.
    with open(f"{batch.units_file}.new", "w", encoding="ascii") as stream:
        json.dump(ids, stream)
    os.replace(f"{batch.units_file}.new", batch.units_file)


def dumpable_pids(path: str) -> set[int]:
    """The processes that write their stacks to `path`-PID when they are sent `DUMP_SIGNAL`."""
    return {pid for pid, _ in _stack_files(path)}


def read_dumps(path: str) -> tuple[str, ...]:
    """What each process wrote, the thread first that ran; empty where none answered."""
    found = []
    for _, name in sorted(_stack_files(path)):
        with contextlib.suppress(OSError), open(name, "rb") as stream:
            found.append(_ordered(stream.read(STACK_BYTES).decode("utf-8", "replace").strip()))
    return tuple(filter(None, found))


def _ordered(text: str) -> str:
    threads = text.split("\n\n")
    return "\n\n".join(sorted(threads, key=lambda thread: not thread.startswith("Current")))


def _stack_files(path: str) -> Iterator[tuple[int, str]]:
    folder, name = os.path.split(path)
    try:
        there = os.listdir(folder)
    except OSError:  # a test has removed it
        return
    for other in there:
        pid = other[len(name) + 1 :]
        if other.startswith(f"{name}-") and pid.isdigit():
            yield int(pid), os.path.join(folder, other)
