"""Result files of a record: whose their cases are, and what of them is damage."""

from __future__ import annotations

import gzip
from dataclasses import replace

import pytest

from ciguard.codec.record.lines import encode
from ciguard.codec.record.reader import read_records
from ciguard.codec.results.attach import attach_result_files
from ciguard.codec.unpack_limits import UnpackBudget
from ciguard.model import EndLine, EventLine, Line, Record, Result, ShardLine, StartLine

JUNIT = b"""<testsuite name="s">
<testcase classname="shop.cart" name="test_total" time="0.5" file="shop/cart.py"/>
<testcase classname="shop.cart" name="test_row[1]" time="0.1"/>
<testcase classname="shop.cart" name="test_row[2]" time="0.2"><failure message="no"/></testcase>
<testcase classname="elsewhere" name="test_new" time="0.3"><error message="oh"/></testcase>
</testsuite>"""
UNITS = ("shop/cart.py::test_total", "shop/cart.py::test_row", "shop/cart.py::test_gone")


GO = b"""<testsuites tests="3"><testsuite name="example.test/m" tests="3">
<testcase classname="example.test/m" name="TestSub/a/b" time="0.1"/>
<testcase classname="example.test/m" name="TestSub" time="0.2"/>
<testcase classname="example.test/m" name="TestOK" time="0.3"/>
</testsuite></testsuites>"""


def result_file_event(name: str = "r/a.xml", process: int = 1) -> EventLine:
    return EventLine("result_file", 2.0, process, "s", "v", detail=name)


def suite_lines(*lines: Line) -> list[Line]:
    in_files = [EventLine("in_files", 1.0, 1, "s", "v", unit) for unit in UNITS]
    return [ShardLine("p", "01", run_id=7, run_attempt=1), *in_files, *lines, EndLine("completed")]


def read(lines: list[Line], files: dict[str, bytes], folder: str = "x/") -> Record:
    content = b"".join(map(encode, lines))
    results = [(f"{folder}results/{name}", body) for name, body in files.items()]
    (record,) = read_records([(f"{folder}supervisor.jsonl", content)], results)
    return record


def cases(record: Record) -> dict[tuple[str, str], str]:
    return {(one.unit, one.case): one.outcome for one in record.results}


@pytest.mark.parametrize("folder", ["", "x/", "x/results/process-001/y/"])
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_cases_and_rows_attach_to_units_by_name_and_none_is_lost(
    folder: str, pack: type[bytes]
) -> None:
    record = read(suite_lines(result_file_event()), {"process-001/r/a.xml": pack(JUNIT)}, folder)
    assert cases(record) == {
        (UNITS[0], UNITS[0]): "passed",
        (UNITS[1], "shop.cart::test_row[1]"): "passed",
        (UNITS[1], "shop.cart::test_row[2]"): "failed",
        ("elsewhere::test_new", "elsewhere::test_new"): "errored",
    }
    assert {(one.suite, one.variant, one.process) for one in record.results} == {("s", "v", 1)}
    assert record.damage == ()


def test_cases_of_go_attach_to_the_tests_of_their_package() -> None:
    units = ("example.test/m.TestOK", "example.test/m.TestSub", "example.test/n.TestOK")
    listed = [EventLine("in_files", 1.0, 1, "s", "v", unit) for unit in units]
    record = read(suite_lines(*listed, result_file_event()), {"process-001/r/a.xml": GO})
    assert cases(record) == {
        (units[0], units[0]): "passed",
        (units[1], units[1]): "passed",
        # No row of TestSub, whose time has that of its subtests in it.
        ("example.test/m::TestSub/a/b", "example.test/m::TestSub/a/b"): "passed",
    }


def test_record_overrides_result_file_of_the_same_process() -> None:
    output = Result(UNITS[0], "failed", "s", "v", UNITS[0], process=1)
    events = [result_file_event(), result_file_event(process=2)]
    files = {"process-001/r/a.xml": JUNIT, "process-002/r/a.xml": JUNIT}
    found = [
        one for one in read(suite_lines(output, *events), files).results if one.unit == UNITS[0]
    ]
    assert [(one.process, one.outcome) for one in found] == [(1, "failed"), (2, "passed")]


def test_cases_of_a_wrapped_command_are_rows_of_its_unit() -> None:
    lines: list[Line] = [
        ShardLine(),
        StartLine("make test", process=1, at_s=0.0),
        Result("make test", "failed", case="make test", process=1),
        EventLine("result_file", 2.0, 1, detail="a.xml"),
    ]
    record = read(lines, {"process-001/a.xml": JUNIT})
    assert {one.unit for one in record.results} == {"make test"}
    assert [one.case for one in record.results][:2] == ["make test", "shop.cart::test_total"]
    assert len(record.results) == 5


@pytest.mark.parametrize(
    ("files", "damage"),
    [
        ({}, "results/process-001/r/a.xml is missing"),
        ({"process-001/r/a.xml": b""}, "results/process-001/r/a.xml: empty"),
        (
            {"process-001/r/a.xml": JUNIT[:150]},
            "results/process-001/r/a.xml:3:1: malformed XML: unclosed token",
        ),
        (
            {"process-001/r/a.xml": b"<coverage/>"},
            "results/process-001/r/a.xml: no format of results is recognised: "
            "XML with the root <coverage>",
        ),
        (
            {"process-001/r/a.xml": gzip.compress(JUNIT)[:60]},
            "results/process-001/r/a.xml: damaged gzip: "
            "Compressed file ended before the end-of-stream marker was reached",
        ),
    ],
)
def test_missing_or_broken_result_file_is_damage(files: dict[str, bytes], damage: str) -> None:
    assert read(suite_lines(result_file_event()), files).damage == (damage,)


def test_results_before_a_truncation_are_retained() -> None:
    record = read(suite_lines(result_file_event()), {"process-001/r/a.xml": JUNIT[:150]})
    assert cases(record) == {(UNITS[0], UNITS[0]): "passed"}


def test_unannounced_result_files_are_ignored() -> None:
    files = {"process-001/other.xml": JUNIT, "process-002/r/a.xml": JUNIT}
    assert read(suite_lines(), files).results == ()
    assert read(suite_lines(), files).damage == ()


def test_result_files_omitted_by_the_leg_are_damage() -> None:
    event = EventLine("results_left_out", 2.0, 1, "s", "v", detail="1 result file: a: too large")
    assert read(suite_lines(event), {}).damage == (
        "x/supervisor.jsonl: left out of it: 1 result file: a: too large",
    )


def test_result_file_repeated_in_two_parts_of_a_leg_counts_once() -> None:
    lines = b"".join(map(encode, suite_lines(result_file_event())))
    files = [("1/supervisor.jsonl", lines), ("2/supervisor.jsonl", lines)]
    results = [(f"{number}/results/process-001/r/a.xml", JUNIT) for number in (1, 2)]
    (record,) = read_records(files, results)
    assert len(record.results) == 4


def test_unpacked_size_of_gzip_files_is_limited_per_run() -> None:
    """Each could be honest; those of a thousand shards together take hours."""
    packed = gzip.compress(JUNIT + b" " * (1 << 20), 9)
    files = {f"process-001/{number}.xml": packed for number in range(6)}
    lines = suite_lines(*(result_file_event(f"{number}.xml") for number in range(6)))
    (record,) = read_records([("x/supervisor.jsonl", b"".join(map(encode, lines)))])
    found = attach_result_files(replace(record, damage=()), files, UnpackBudget(4 << 20))
    refused = [one for one in found.damage if "of this run unpack to more than" in one]
    assert [one.partition(": ")[0] for one in refused] == [
        f"results/process-001/{number}.xml" for number in (3, 4, 5)
    ]
