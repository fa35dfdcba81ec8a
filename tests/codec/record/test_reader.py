"""Files become the records of legs: whose a line is, what came twice; both readers say the same."""

from __future__ import annotations

import json
import sys
from dataclasses import MISSING, fields, replace
from types import FrameType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ciguard.codec.record.fast_reader import FAST_READER_FROM_BYTES, Read, _decoder, reader
from ciguard.codec.record.lines import LINE_SCHEMAS, MAX_INTEGER, MAX_LINE_BYTES, LineError, encode
from ciguard.codec.record.reader import fill_peaks, read_records
from ciguard.model import (
    ENDINGS,
    MEASURED_BY,
    OUTCOMES,
    DefaultsLine,
    EndLine,
    EventLine,
    Line,
    MetricLine,
    PeakLine,
    ProcessLine,
    Result,
    SampleLine,
    ShardLine,
    StartLine,
)


def leg(shard: str, attempt: int = 1, run: int | None = 7, plan: str = "p") -> ShardLine:
    return ShardLine(plan, shard, run_id=run, run_attempt=attempt)


def defaults(shard: str, attempt: int = 1, **more: Any) -> DefaultsLine:
    return DefaultsLine("p", shard, 7, attempt, **more)


def joined(*lines: Line) -> bytes:
    return b"".join(map(encode, lines))


def test_leg_identity_comes_from_the_shard_line_not_the_folder() -> None:
    files = {
        "shard-02/x.jsonl": joined(leg("01"), Result("a", "passed")),
        "shard-01/x.jsonl": joined(leg("02"), Result("b", "passed")),
        "elsewhere/y.jsonl": joined(defaults("01"), Result("c", "passed")),
    }
    found = read_records(files.items())
    assert [
        (one.header.shard if one.header else "", [result.unit for result in one.results])
        for one in found
    ] == [("01", ["c", "a"]), ("02", ["b"])]


def test_attempts_runs_and_plans_give_separate_records() -> None:
    headers = [leg("01"), leg("01", 2), leg("01", run=8), leg("01", plan="q"), leg("02")]
    files = [(f"{at}.jsonl", encode(header)) for at, header in enumerate(headers)]
    assert len(read_records(files)) == 5


def test_several_legs_in_one_file() -> None:
    content = joined(
        leg("01"), Result("a", "passed"), EndLine("completed"),
        leg("02"), Result("b", "passed"), EndLine("cancelled"),
    )  # fmt: skip
    first, second = read_records([("all.jsonl", content)])
    assert [one.unit for one in first.results] == ["a"]
    assert [one.unit for one in second.results] == ["b"]
    assert first.end == EndLine("completed")
    assert second.end == EndLine("cancelled")


@given(st.permutations(range(4)))
def test_record_is_independent_of_file_order(order: list[int]) -> None:
    files = [
        ("a/supervisor.jsonl", joined(leg("01"), EndLine("completed"))),
        ("a/process-001.jsonl", joined(defaults("01", process=1), Result("u", "passed"))),
        ("b/supervisor.jsonl", joined(leg("02"))),
        ("b/process-001.jsonl", joined(defaults("02", process=1), Result("v", "passed"))[:-4]),
    ]
    assert read_records(files[at] for at in order) == read_records(files)


def test_process_file_may_start_with_a_defaults_line() -> None:
    first = defaults("01", suite="s", variant="v", process=3)
    text = (
        b'{"type":"start","unit":"u"}\n{"type":"result","unit":"u","outcome":"passed"}\n'
        b'{"type":"result","unit":"w","outcome":"passed","variant":"own","process":4}\n'
    )
    (record,) = read_records([("a/mine.jsonl", encode(first) + text)])
    assert record.header is None
    assert record.starts == (StartLine("u", "s", "v", 3),)
    assert [(one.suite, one.variant, one.process) for one in record.results] == [
        ("s", "v", 3),
        ("s", "own", 3),  # the file says which process it is, whatever a line claims
    ]


@pytest.mark.parametrize("lost", [{}, {"02/supervisor.jsonl": b""}, {"02/supervisor.jsonl": b"{"}])
def test_defaults_lines_identify_a_record_without_shard_line(lost: dict[str, bytes]) -> None:
    complete = ShardLine("p", "01", run_id=7, run_attempt=1, job="tests (01)")
    inner = joined(defaults("02"), Result("u", "passed"))
    files = {"01/supervisor.jsonl": encode(complete), "02/process-001.jsonl": inner, **lost}
    first, second = read_records(files.items())
    assert (first.partial_header, first.identity) == (None, complete)
    assert second.header is None
    assert second.identity == ShardLine("p", "02", run_id=7, run_attempt=1, job="tests (02)")
    assert len(second.damage) == len(lost)
    assert second.results == (Result("u", "passed", case="u"),)


def test_unidentified_lines_are_grouped_by_folder() -> None:
    line = encode(Result("u", "passed"))
    files = [("a/1.jsonl", line), ("a/2.jsonl", line), ("b/1.jsonl", line)]
    found = read_records(files)
    assert [(one.header, len(one.results)) for one in found] == [(None, 2), (None, 1)]


def test_unidentified_lines_belong_to_the_only_leg() -> None:
    files = [
        ("deep/down/mine.jsonl", encode(Result("u", "passed"))),
        ("s.jsonl", encode(leg("01"))),
    ]
    (record,) = read_records(files)
    assert len(record.results) == 1


def test_records_without_a_plan_are_one_per_folder() -> None:
    header = ShardLine(started_at="2026-11-21T10:00:00Z")
    files = [(f"{folder}/supervisor.jsonl", encode(header)) for folder in "ab"]
    assert len(read_records(files)) == 2


def test_start_that_is_no_time_is_unknown() -> None:
    (record,) = read_records([("a.jsonl", encode(ShardLine("p", "01", started_at="soon")))])
    assert record.started_at is None


def test_contradicting_shard_lines_are_damage() -> None:
    files = [
        ("a.jsonl", encode(leg("01"))),
        ("b.jsonl", encode(ShardLine("p", "01", run_id=7, run_attempt=1, head_sha="f" * 40))),
    ]
    (record,) = read_records(files)
    assert record.damage == ("a.jsonl: 2 shard lines that differ",)


def test_duplicate_file_is_no_damage() -> None:
    content = joined(leg("01"), Result("u", "passed"), EndLine("completed"))
    (record,) = read_records([("a/r.jsonl", content), ("b/r.jsonl", content)])
    assert not record.damage
    assert record.end == EndLine("completed")


@pytest.mark.parametrize("name", ["process-001", "process-001-gw3"])
@pytest.mark.parametrize("content", [b"", b'{"type":"defau'])
def test_broken_process_file_is_damage_of_leg_in_same_folder(name: str, content: bytes) -> None:
    path = f"a/{name}.jsonl"
    files = [("a/supervisor.jsonl", joined(leg("01"), ProcessLine(1, 2))), (path, content)]
    (record,) = read_records(files)
    assert record.damage == ((f"{path}:1: cut" if content else f"{path}: empty"),)


@pytest.mark.parametrize(
    "path", ["a/process-002.jsonl", "a/other.jsonl", "b/process-001.jsonl", "process-001.jsonl"]
)
@pytest.mark.parametrize("content", [b"", b"{\n[\n"])
def test_unreadable_file_belongs_to_no_other_leg(path: str, content: bytes) -> None:
    files = [("a/supervisor.jsonl", joined(leg("01"), ProcessLine(1, 2))), (path, content)]
    no_one, ours = read_records(files)
    assert ours.damage == ()
    assert no_one.header is None
    assert no_one.damage
    assert all(place.startswith(path) for place in no_one.damage)


def test_damaged_unidentified_file_is_not_added_to_the_only_leg() -> None:
    files = [
        ("a/supervisor.jsonl", encode(leg("01"))),
        ("b/process-001.jsonl", b"{\n" + encode(Result("u", "passed"))),
    ]
    no_one, ours = read_records(files)
    assert (ours.results, ours.damage) == ((), ())
    assert (no_one.header, len(no_one.results)) == (None, 1)


def test_duplicate_record_lists_its_copies_and_contradictions() -> None:
    one = joined(leg("01"), Result("u", "passed", process=1), Result("v", "passed", process=1))
    two = joined(leg("01"), Result("u", "failed", process=1), Result("v", "passed", process=1))
    (same,) = read_records([("a/r.jsonl", one), ("b/r.jsonl", one)])
    assert (same.copies, same.damage) == (("a/r.jsonl", "b/r.jsonl"), ())
    (other,) = read_records([("a/r.jsonl", one), ("b/r.jsonl", two)])
    assert other.damage == (
        "a/r.jsonl and b/r.jsonl contradict each other: 'u' passed in the one, failed in the other",
    )


METRICS = b"""{"type":"metric","name":"hit_rate","value":NaN}
{"type":"metric","name":"hit_rate","value":-Infinity}
{"type":"metric","name":"loss","value":"nothing"}
{"type":"metric","name":"loss","value":0.5}
"""


@pytest.mark.parametrize("repeated", [1, 8_000], ids=["few", "many"])  # each has a reader
def test_a_metric_without_a_finite_number_is_named_and_damages_nothing(repeated: int) -> None:
    one = joined(leg("01"), Result("u", "passed", process=1))
    files = [("a/supervisor.jsonl", one), ("a/process-001.jsonl", METRICS * repeated)]
    (record,) = read_records(files)
    assert (record.damage, len(record.results)) == ((), 1)
    assert [(line.name, line.value) for line in record.metrics] == [("loss", 0.5)] * repeated
    assert {line.kind for line in record.events} == {"unreadable_metric"}
    details = [line.detail for line in record.events]
    assert details[:3] == [
        "a/process-001.jsonl:1: hit_rate = NaN",
        "a/process-001.jsonl:2: hit_rate = -Infinity",
        'a/process-001.jsonl:3: loss = "nothing"',
    ]
    more = ["a/process-001.jsonl: 23980 more metrics without a value"]
    assert details[20:] == (more if repeated > 1 else [])


def test_a_metric_that_is_cut_is_damage() -> None:
    (record,) = read_records([("a/process-001.jsonl", METRICS[:-10])])
    assert record.damage == ("a/process-001.jsonl:4: cut",)


def test_another_try_or_process_is_no_contradiction() -> None:
    one = joined(leg("01"), Result("u", "failed", process=1))
    for process, try_number in ((2, 1), (1, 2)):
        rerun = Result("u", "passed", process=process, try_number=try_number)
        two = joined(leg("01"), rerun)
        (record,) = read_records([("a/r.jsonl", one), ("b/r.jsonl", two)])
        assert record.damage == ()


def received_event(unit: str, at_s: float, case: str = "", process: int = 1) -> EventLine:
    return EventLine("received", at_s, process, unit=unit, detail=case or unit)


def timed(*own: Line, reported: bytes) -> list[tuple[str, float | None, float | None]]:
    files = [
        ("a/supervisor.jsonl", joined(leg("01"), *own)),
        ("a/process-001.jsonl", encode(defaults("01", process=1)) + reported),
    ]
    (record,) = read_records(files)
    return [(one.case, one.at_s, one.wall_s) for one in record.results]


RESULT_LINES = b"".join(
    b'{"type":"result","unit":"%s","outcome":"passed"}\n' % unit for unit in (b"u", b"v")
)


def test_untimed_result_takes_the_time_since_the_previous_result() -> None:
    own = (ProcessLine(1, 2, at_s=1.0), received_event("u", 1.5), received_event("v", 3.5))
    assert timed(*own, reported=RESULT_LINES) == [("u", 1.5, 0.5), ("v", 3.5, 2.0)]
    first, received_u, received_v = own
    output = StartLine("v", process=1, at_s=3.25)
    assert timed(first, received_u, output, received_v, reported=RESULT_LINES) == [
        ("u", 1.5, 0.5),
        ("v", 3.5, 0.25),
    ]


def test_results_received_at_once_share_the_time() -> None:
    own = (ProcessLine(1, 2, at_s=1.0), received_event("u", 2.0), received_event("v", 2.0))
    assert timed(*own, reported=RESULT_LINES) == [("u", 2.0, 0.5), ("v", 2.0, 0.5)]


def test_measured_times_are_retained_and_unreceived_ones_unknown() -> None:
    reported = (
        b'{"type":"result","unit":"u","outcome":"passed","wall_s":7.0}\n'
        b'{"type":"result","unit":"u","outcome":"passed","case":"c","at_s":8.0}\n'
    )
    own = (ProcessLine(1, 2, at_s=1.0), received_event("u", 2.0), received_event("u", 2.0, "c"))
    assert timed(*own, reported=reported) == [("u", None, 7.0), ("c", 8.0, None)]
    assert timed(ProcessLine(1, 2, at_s=1.0), received_event("x", 2.0), reported=RESULT_LINES) == [
        ("u", None, None),
        ("v", None, None),
    ]


def test_repeated_results_of_a_case_have_separate_times() -> None:
    own = (
        ProcessLine(1, 2, at_s=0.0),
        received_event("u", 1.0),
        received_event("u", 3.0),
        received_event("v", 4.0, process=2),
    )
    reported = RESULT_LINES[: RESULT_LINES.index(b"\n") + 1] * 2
    assert timed(*own, reported=reported) == [("u", 1.0, 1.0), ("u", 3.0, 2.0)]


def test_no_files_give_no_records() -> None:
    assert read_records([]) == ()


def ended(*lines: Line, more: bytes = b"") -> tuple[EndLine | None, tuple[str, ...]]:
    """The end that counts, and the damage, of a leg with these lines of its own."""
    files = [("a/supervisor.jsonl", joined(leg("01"), *lines)), ("b/supervisor.jsonl", more)]
    (record,) = read_records([one for one in files if one[1]])
    return record.end, record.damage


def test_worse_end_line_wins_within_a_step_and_last_step_wins() -> None:
    good, bad = EndLine("completed", 9.0, 0), EndLine("deadline", 5.0, 13)
    failed = EndLine("completed", 9.0, 10)
    assert ended(good) == (good, ())
    differ = ("a/supervisor.jsonl: 2 end lines that differ",)
    assert ended(good, more=joined(leg("01"), bad)) == (bad, differ)
    assert ended(good, more=joined(leg("01"), failed)) == (failed, differ)
    assert ended(good, more=joined(leg("01"), good)) == (good, ())
    on = (leg("01"), EventLine("resumed", 5.0, 1), ProcessLine(2, 1, at_s=5.5))
    assert ended(bad, more=joined(*on, good)) == (good, ())
    assert ended(bad, more=joined(*on)) == (None, ()), "the last step has none"


def test_lines_after_the_end_line_are_damage() -> None:
    good = EndLine("completed", 9.0, 0)
    _, damage = ended(good, ProcessLine(2, 1), good)
    assert damage == ("a/supervisor.jsonl: 2 lines after the end of the shard",)


@pytest.mark.parametrize(
    ("lines", "odd"),
    [("sr", False), ("srs", True), ("rs", True), ("srsr", False), ("ssr", False), ("srh", False)],
)
def test_restarted_unit_without_another_result_is_damage(lines: str, *, odd: bool) -> None:
    spelled: dict[str, Line] = {
        "s": StartLine("u", process=1, at_s=1.0),
        "r": Result("u", "passed", process=1, at_s=2.0),
        "h": StartLine("u", process=1, at_s=2.1, received=True),
    }
    reported = joined(defaults("01", process=1), *(spelled[one] for one in lines))
    died = Result("u", "died", process=1, ending="crash")
    for own, seen in (((), odd), ((died,), False)):
        files = [("a/s.jsonl", joined(leg("01"), *own)), ("a/process-001.jsonl", reported)]
        (record,) = read_records(files)
        output = "a/process-001.jsonl: 'u' begins again after its result, and has no second one"
        assert record.damage == ((output,) if seen else ())


def _calls_of_reading(content: bytes) -> int:
    """Python functions that reading a file calls."""
    calls = 0

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        read_records([("03/supervisor.jsonl", content)])
    finally:
        sys.setprofile(before)
    return calls


@pytest.mark.parametrize("blank", [b"\n", b"\r\n", b" \t\n"])
def test_blank_lines_are_never_parsed(blank: bytes) -> None:
    # An archive unpacks to millions of them.
    assert _calls_of_reading(blank * 200) == _calls_of_reading(blank * 100)


def test_invalid_json_line_is_parsed_once() -> None:
    parsed = _calls_of_reading(b'{"type":"x"}\n' * 200) - _calls_of_reading(b'{"type":"x"}\n' * 100)
    refused = _calls_of_reading(b"{x\n" * 200) - _calls_of_reading(b"{x\n" * 100)
    assert refused - parsed <= 100 * 2  # making the error of `json`, and ours


def test_peak_bounds_go_to_next_result_of_same_case_and_process() -> None:
    results = [
        Result("a", "failed", case="a", process=1),
        Result("a", "passed", case="a", process=2),
        Result("a", "passed", case="one", process=2, concurrent=3),
        Result("a", "passed", case="a", process=2),
    ]
    peaks = [
        PeakLine("a", case="a", process=2, peak_upper_bytes=20),
        PeakLine("a", case="one", process=2, peak_upper_bytes=30, concurrent=2),
        PeakLine("a", process=2, rss_before_bytes=1, peak_lower_bytes=4, peak_upper_bytes=40),
    ]
    found = fill_peaks(results, peaks)
    assert [one.peak_upper_bytes for one in found] == [None, 20, 30, 40]
    assert found[2].concurrent == 3
    assert (found[3].rss_before_bytes, found[3].peak_lower_bytes) == (1, 4)


def test_peak_measured_by_the_program_is_not_replaced() -> None:
    measured = Result("a", "passed", case="a", process=1, peak_bytes=7, measured_by="mark")
    died = Result("a", "died", case="a", process=1)
    peak = PeakLine("a", case="a", process=1, peak_upper_bytes=9)
    assert fill_peaks([measured, died], [peak]) == (measured, died)


def test_record_results_include_peak_bounds() -> None:
    leg = b'{"type":"shard","plan_id":"p","shard":"1"}\n'
    leg += b'{"type":"peak","unit":"a","suite":"s","process":1,"peak_upper_bytes":5}\n'
    program = b'{"type":"defaults","plan_id":"p","shard":"1","suite":"s","process":1}\n'
    program += b'{"type":"result","unit":"a","outcome":"passed"}\n'
    (record,) = read_records([("supervisor.jsonl", leg), ("process-001.jsonl", program)])
    assert [result.peak_upper_bytes for result in record.results] == [5]


NOTHING = DefaultsLine()
KINDS = {
    "result": Result,
    "start": StartLine,
    "sample": SampleLine,
    "peak": PeakLine,
    "event": EventLine,
    "metric": MetricLine,
}
KEYS = sorted(
    {"type", "unknown"}
    | {one.json_name for kind in KINDS.values() for one in LINE_SCHEMAS[kind].fields}
)

numbers = (
    st.integers(-3, 3)
    | st.integers(-(1 << 70), 1 << 70)
    | st.floats(allow_nan=False)
    | st.sampled_from([MAX_INTEGER, -MAX_INTEGER, MAX_INTEGER + 1, float(MAX_INTEGER), 2.0, -0.0])
)
words = st.sampled_from([*OUTCOMES, *ENDINGS, *MEASURED_BY, "", "result", "start", "unit", "event"])
values = st.recursive(
    st.none() | st.booleans() | numbers | words | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=4,
)
VALUES = {
    "str": st.text(max_size=3),
    "EventKind": st.text(max_size=3),
    "int": st.integers(0, 1 << 40),
    "float": st.floats(0, 1e9) | st.integers(0, 9),
    "bool": st.booleans(),
    "Outcome": st.sampled_from(OUTCOMES),
    "Ending": st.sampled_from(ENDINGS),
    "MeasuredBy": st.sampled_from(MEASURED_BY),
    "Mapping[str, str]": st.dictionaries(st.text(max_size=3), st.text(max_size=3), max_size=2),
    "Mapping[str, int]": st.dictionaries(st.text(max_size=3), st.integers(-3, 3), max_size=2),
    "Mapping[str, float]": st.dictionaries(st.text(max_size=3), st.floats(-9, 9), max_size=2),
}


def lines_of(word: str) -> st.SearchStrategy[dict[str, Any]]:
    """Lines of a kind as a leg writes them, any field that need not be there present or not."""
    required: dict[str, st.SearchStrategy[Any]] = {"type": st.just(word)}
    optional: dict[str, st.SearchStrategy[Any]] = {}
    for field, how in zip(fields(KINDS[word]), LINE_SCHEMAS[KINDS[word]].fields, strict=True):
        value = VALUES[str(field.type).removesuffix(" | None")]
        is_required = field.default is MISSING and field.default_factory is MISSING
        (required if is_required else optional)[how.json_name] = value
    return st.fixed_dictionaries(required, optional=optional)


right = st.sampled_from(sorted(KINDS)).flatmap(lines_of)
first_lines = st.builds(
    DefaultsLine,
    suite=st.sampled_from(["", "unit"]),
    variant=st.sampled_from(["", "gpu"]),
    process=st.none() | st.integers(0, 3),
)


def read_or_error(read: Read, text: bytes) -> tuple[str, str]:
    try:
        return "value", repr(read(text))  # 1 is not 1.0, 0.0 not -0.0
    except LineError as error:
        return "error", str(error)


def alike(text: bytes, defaults: DefaultsLine = NOTHING) -> tuple[str, str]:
    fast = read_or_error(reader(defaults, is_large=True), text)
    assert fast == read_or_error(reader(defaults, is_large=False), text)
    return fast


@given(
    right, st.dictionaries(st.sampled_from(KEYS), values, max_size=2), first_lines, st.booleans()
)
def test_both_readers_agree_on_any_line(
    line: dict[str, Any], invalid: dict[str, Any], defaults: DefaultsLine, ascii_only: bool
) -> None:
    text = json.dumps({**line, **invalid}, ensure_ascii=ascii_only)
    alike(text.encode("utf-8", "surrogatepass"), defaults)


@pytest.mark.parametrize(
    "line",
    [
        Result("a", "passed", case="a[é]", at_s=1.0, wall_s=0.5, retained_bytes=-4096, process=1),
        Result("a", "failed", ending="timeout", measured_by="mark", message="x\ny", try_number=2),
        StartLine("a", at_s=1.5, process=1, assumed=True, file="a.py", line=3),
        SampleLine(1.0, 1 << 30, process_bytes={"1": 1 << 20}, gpu_bytes={"0": 1}),
        PeakLine("a", case="b", peak_lower_bytes=1, peak_upper_bytes=2),
        EventLine("recycled", 7.0, process=1, detail="x", lines_read={"1": 3}),
        MetricLine("rows", 3.5, "count", {"ordinal": "1"}, 720),
    ],
)
def test_fast_reader_reads_every_line_that_a_leg_writes(line: Line) -> None:
    assert repr(_decoder("", "", None)(encode(line)).to_line()) == repr(
        replace(line, case=line.case or line.unit) if isinstance(line, Result) else line
    )


@given(
    st.binary(max_size=40)
    | st.text('{}[]":,-+.eE019 \\u"tnd\ud800\x00\n', max_size=20).map(
        lambda text: text.encode("utf-8", "surrogatepass")
    )
)
def test_both_readers_reject_the_same_bytes(text: bytes) -> None:
    alike(text)
    alike(b'{"type":"start","unit":"a","at_s":' + text + b"}")


ODD = [
    b'{"a":1,"a":2}',
    b'"\\ud800"',
    b'"\xed\xa0\x80"',
    b'"\xff"',
    b"NaN",
    b"-Infinity",
    b"1e400",
    b"-0",
    b"-0.0",
    b"1.0",
    b"true",
    b"1" * 400,
    b"1" * 5000,
    b"[" * 150 + b"]" * 150,
    b"\xef\xbb\xbf{}",
    b"{}{}",
    b'"\x01"',
    b"01",
    b'1,"at_s":2',
    b'1,"type":"event"',
    b'1,"outcome":null,"outcome":"passed"',
    b"1}",
]


@pytest.mark.parametrize("text", ODD)
@pytest.mark.parametrize("key", ["at_s", "process", "unit", "line", "outcome", "seen", "unknown"])
def test_both_readers_agree_on_unusual_values(text: bytes, key: str) -> None:
    alike(text)
    for begin_of_line in (
        '"type":"result","unit":"a","outcome":"passed"',
        '"type":"start","unit":"a"',
        '"type":"event","kind":"recycled"',
    ):
        begin = f'{{{begin_of_line},"{key}":'.encode()
        alike(begin + text + b"}")
        alike(begin + text + b"}", DefaultsLine(suite="unit", process=1))


def test_defaults_line_fills_missing_fields_and_sets_the_process() -> None:
    defaults = DefaultsLine(suite="unit", variant="gpu", process=2)
    own = '"suite":"other","variant":"","process":7,"case":""'
    for line, suite in (("", "unit"), (f",{own}", "other")):
        kind, value = alike(
            f'{{"type":"result","unit":"a","outcome":"passed"{line}}}'.encode(), defaults
        )
        place = {"suite": suite, "variant": "gpu", "case": "a", "process": 2}
        assert (kind, value) == ("value", repr(Result("a", "passed", **place)))  # type: ignore[arg-type]


def test_both_readers_reject_a_line_over_the_size_limit() -> None:
    line = b'{"type":"start","unit":"%s"}'
    assert alike(line % (b"a" * (MAX_LINE_BYTES - len(line) + 2)))[0] == "value"
    assert alike(line % (b"a" * (MAX_LINE_BYTES - len(line) + 3)))[0] == "error"


def test_large_and_small_files_give_the_same_record() -> None:
    odd = [b"{", b'{"type":"result","unit":"a","outcome":"passed","wall_s":NaN}', b"  ", b"[1]"]
    lines = [encode(Result(f"test_\ud800{n}", "passed", wall_s=n / 7)) for n in range(50)]
    content = b"\r\n".join([*odd, b"".join(lines)])
    (little,) = read_records([("a.jsonl", content)])
    (much,) = read_records([("a.jsonl", content + b" " * FAST_READER_FROM_BYTES)])
    assert len(much.results) == 50
    assert (much.results, much.damage) == (little.results, little.damage)
    assert [place.partition(" ")[0] for place in much.damage] == [
        "a.jsonl:1:",
        "a.jsonl:2:",
        "a.jsonl:4:",
    ]


@pytest.mark.parametrize(
    ("message", "ending"),
    [
        (
            "test_a.py:3: RuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying",
            "out_of_memory",
        ),
        ("RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB", "out_of_memory"),
        ("odd (name).py:12: OSError: [Errno 12] Cannot allocate memory", "out_of_memory"),
        ("Timeout of 2000ms exceeded. For async tests", "timeout"),
        ("test_a.py:3: AssertionError: assert 'Out of memory' in text", "completed"),
        ("requests.exceptions.ReadTimeout: HTTPSConnectionPool", "completed"),
    ],
)
@pytest.mark.parametrize("outcome", ["failed", "errored", "passed"])
def test_words_of_a_failure_say_how_it_ended(message: str, ending: str, outcome: str) -> None:
    """As those of a JUnit file of the same test do, whichever reader comes upon them."""
    line = {"type": "result", "unit": "a", "outcome": outcome, "message": message}
    expected = "completed" if outcome == "passed" else ending
    assert f"ending='{expected}'" in alike(json.dumps(line).encode())[1]
    stopped = {**line, "ending": "deadline"}
    assert "ending='deadline'" in alike(json.dumps(stopped).encode())[1]
