"""Files that a leg writes for one tested process, and the stacks that the process writes back."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from typing import Final, Iterator, Mapping, Sequence

from ciguard.codec.record.lines import encode
from ciguard.model import DefaultsLine, PlannedUnit, ShardLine
from ciguard.run.frameworks.base import ProcessFiles

# Stacks of a hanging test: a process that a plugin has prepared has a file
# NAME-PID and writes its stacks there on the signal, which would end any other. Linux only.
STACK_BYTES: Final = 16384  # of one process: some thousand frames
DUMP_SIGNAL: Final[int] = int(getattr(signal, "SIGRTMAX", 7)) - 7


def process_name(process: int) -> str:
    """Return the name of a process's files in the record: `process-003`."""
    return f"process-{process:03d}"


def defaults_line(header: ShardLine, suite: str, variant: str, process: int) -> DefaultsLine:
    """Return the first line of a process's file: later lines then need only name the unit."""
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
        units: None for a process that lists the units and then waits for its share.
        suite_key: suite and variant.
        record: the record's folder. private: the leg's private folder, with `inside` in it.

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
            os.unlink(batch.record_file)  # a file without its first line belongs to no leg
        raise
    return batch


def write_units(batch: ProcessFiles, units: Sequence[PlannedUnit]) -> None:
    """Write the units that a process is to run. Raises OSError."""
    ids = [unit.unit for unit in units]
    with open(batch.lines_file, "wb") as lines:
        lines.writelines(unit.encode("utf-8", "surrogatepass") + b"\n" for unit in ids)
    # By a rename, because the process may wait for the file.
    with open(f"{batch.units_file}.new", "w", encoding="ascii") as stream:
        json.dump(ids, stream)
    os.replace(f"{batch.units_file}.new", batch.units_file)


def dumpable_pids(path: str) -> set[int]:
    """Return the processes that write their stacks to `path`-PID on `DUMP_SIGNAL`."""
    return {pid for pid, _ in _stack_files(path)}


def read_dumps(path: str) -> tuple[str, ...]:
    """Return the stacks of each process that answered, its current thread first."""
    dumps = []
    for _, name in sorted(_stack_files(path)):
        with contextlib.suppress(OSError), open(name, "rb") as stream:
            threads = stream.read(STACK_BYTES).decode("utf-8", "replace").strip().split("\n\n")
            threads.sort(key=lambda thread: not thread.startswith("Current"))
            dumps.append("\n\n".join(threads))
    return tuple(filter(None, dumps))


def _stack_files(path: str) -> Iterator[tuple[int, str]]:
    folder, prefix = os.path.split(f"{path}-")
    try:
        names = os.listdir(folder)
    except OSError:  # a test has removed the folder
        return
    for name in names:
        pid = name[len(prefix) :]
        if name.startswith(prefix) and pid.isdigit():
            yield int(pid), os.path.join(folder, name)
