"""Which unit begins a process, from the files of a record as they are written."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ciguard.codec.record.lines import encode
from ciguard.codec.record.reader import read_records
from ciguard.history.file import CODE_NAMES
from ciguard.history.ingest import history_of
from ciguard.model import (
    DefaultsLine,
    EndLine,
    Line,
    ProcessEndLine,
    ProcessLine,
    Record,
    Result,
    ShardLine,
    StartLine,
)
from ciguard.model.standing import standing_of
from ciguard.sources.previous_run import encode_values

SHARD = ShardLine("p", "01", run_id=1, run_attempt=1)
FIRST = ProcessLine(1, 2, suite="s", at_s=0.5)
AFTER = ProcessLine(2, 2, suite="s", at_s=9.0)
END = ProcessEndLine(1, "completed", at_s=8.9)


def ran(*units: str, outcome: str = "passed", starts: bool = True) -> list[Line]:
    lines: list[Line] = []
    for unit in units:
        lines += [StartLine(unit)] * starts
        lines.append(Result(unit, outcome))  # type: ignore[arg-type]
    return lines


def read(leg: list[Line], **files: list[Line]) -> Record:
    """A record of `supervisor.jsonl` and of files such as `process-001-gw0.jsonl` (p1_gw0)."""
    contents = {"r/supervisor.jsonl": [SHARD, *leg, EndLine("completed", at_s=20.0)]}
    for name, lines in files.items():
        number, _, worker = name[1:].partition("_")
        path = f"r/process-{int(number):03d}{worker and '-' + worker}.jsonl"
        contents[path] = [DefaultsLine("p", "01", 1, 1, suite="s", process=int(number)), *lines]
    encoded = [(path, b"".join(map(encode, lines))) for path, lines in contents.items()]
    (record,) = read_records(encoded)
    assert record.damage == ()
    return record


def standings(record: Record) -> dict[str, str | None]:
    standing = standing_of(record)
    return {f"{line.process}.{line.unit}": standing(line) for line in record.results}


@pytest.mark.parametrize("starts", [True, False])
def test_first_unit_of_each_process_begins_it(starts: bool) -> None:
    first, second = ran("a", "b", "c", starts=starts), ran("d", "b", starts=starts)
    assert standings(read([FIRST, END, AFTER], p1=first, p2=second)) == {
        "1.a": "first", "1.b": "later", "1.c": "later", "2.d": "restarted", "2.b": "later"
    }  # fmt: skip


def test_each_worker_is_a_process_and_so_is_each_of_several_at_once() -> None:
    together = replace(AFTER, at_s=0.6)
    record = read([FIRST, together, END], p1_gw0=ran("a", "b"), p1_gw1=ran("c"), p2=ran("d"))
    assert standings(record) == {
        "1.a": "first", "1.b": "later", "1.c": "first", "2.d": "first"
    }  # fmt: skip


def test_process_of_another_suite_is_the_first_of_its_suite() -> None:
    other = replace(AFTER, suite="t")
    assert standings(read([FIRST, END, other], p1=ran("a"), p2=ran("b")))["2.b"] == "first"


def test_units_that_begin_together_and_a_unit_after_skipped_ones_begin_the_process() -> None:
    lines = [*ran("s", outcome="skipped"), StartLine("a"), StartLine("b"), *ran("c")]
    record = read([FIRST], p1=[*lines, Result("a", "passed"), Result("b", "passed"), *ran("d")])
    assert standings(record) == {
        "1.s": "first", "1.c": "first", "1.a": "first", "1.b": "first", "1.d": "later"
    }  # fmt: skip


def test_lines_of_the_leg_tell_no_order() -> None:
    received = StartLine("b", suite="s", process=1, at_s=2.0, received=True)
    died = Result("b", "died", suite="s", process=1, ending="crash")
    record = read([FIRST, received, died], p1=[*ran("a"), StartLine("b")])
    assert standings(record) == {"1.a": "first", "1.b": "later"}


def test_standing_is_unknown_without_a_process_or_its_files() -> None:
    assumed = StartLine("a", suite="s", process=2, assumed=True)
    record = read([FIRST, END, AFTER, assumed])
    a = Result("a", "passed", process=1)
    results = (Result("x", "passed"), a, replace(a, process=2))
    standing = standing_of(replace(record, results=results))
    assert list(map(standing, results)) == [None, None, "restarted"]
    orphan = read([], p1=ran("a", "b"))
    assert standings(orphan) == {"1.a": None, "1.b": "later"}


def test_history_has_standing_and_gpu_peak_of_each_value() -> None:
    lines = [*ran("a"), replace(Result("b", "passed"), gpu_peak_bytes=1 << 30)]
    values = history_of([read([FIRST], p1=lines)]).values
    assert [CODE_NAMES["standing"][code] for code in values.standing] == ["first", "later"]
    assert values.gpu_peak_bytes.tolist()[1] == 1 << 30


def test_values_of_a_pull_request_keep_the_standing() -> None:
    record = read(
        [FIRST, END, AFTER],
        p1_gw0=ran("a", "b"),
        p1_gw1=ran("c", "d"),
        p2=ran("a", "b", starts=False),
    )
    (values,) = read_records([("values.jsonl", encode_values([record]))])
    assert values.damage == ()
    assert standings(values) == standings(record)
