"""What the leg saw of a result's memory, given to the result that it belongs to."""

from __future__ import annotations

from ciguard.codec.record.reader import fill_peaks, read_records
from ciguard.model import PeakLine, Result


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
