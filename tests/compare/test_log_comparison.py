"""Values of two logs are paired by identity, and by nothing else."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import replace

import pytest

from ciguard.compare.comparison import exit_code
from ciguard.compare.log_comparison import (
    KeyDifference,
    LogComparison,
    LoggedJob,
    ValuePair,
    compare_logs,
    log_of,
    pair_values,
)
from ciguard.compare.log_view import logs_document
from ciguard.compare.series import summary_text
from ciguard.logs.log_reader import LogReader
from ciguard.logs.pattern import Better, LogPattern
from ciguard.logs.pattern_table import PATTERNS, directions, endings
from ciguard.logs.values import KeyField, LogValue, Place
from ciguard.render.plaintext import as_text

AFTER = "xla.rematerialization.after_bytes"


def value(number: float, *key: str, resolution: float = 1) -> LogValue:
    fields = tuple(KeyField(f"k{n}", text, "round") for n, text in enumerate(key))
    return LogValue("x", number, "B", fields, Place(line=int(number)), resolution=resolution)


def numbers(pairs: Sequence[ValuePair]) -> list[tuple[float, float]]:
    return [(one.before.value, one.after.value) for one in pairs]


def test_values_of_equal_identity_are_paired_in_their_order() -> None:
    base = [value(1, "a"), value(2, "b"), value(3, "a")]
    head = [value(5, "b"), value(4, "a"), value(6, "a")]
    found = pair_values(base, head)
    assert numbers(found.pairs) == [(1, 4), (3, 6), (2, 5)]
    assert [one.ordinal for one in found.pairs] == [1, 2, 1]
    assert (found.counts, found.nearest, found.refused) == ((), (), ())


def test_where_counts_differ_only_the_counts_are_reported() -> None:
    base, head = [value(n) for n in (10, 100, 1000)], [value(n) for n in (10, 1000)]
    found = pair_values(base, head)
    assert found.pairs == ()
    assert [(one.before, one.after) for one in found.counts] == [(3, 2)]


@pytest.mark.parametrize("field", ["job", "step"])
def test_values_of_another_job_or_step_are_beside_each_other_at_most(field: str) -> None:
    one, two = (replace(value(n), place=Place(**{field: text})) for n, text in ((1, "a"), (2, "b")))  # type: ignore[arg-type]
    found = pair_values([one], [two])
    assert found.pairs == ()
    assert [one.differing for one in found.nearest] == [(KeyDifference(field, "a", "b"),)]


def test_the_nearest_value_differs_in_the_fewest_fields() -> None:
    base = [value(1, "a", "b", "c"), value(2, "x", "y", "z")]
    head = [value(3, "x", "q", "z"), value(4, "a", "q", "r"), value(5, "a", "b", "r")]
    found = pair_values(base, head)
    assert numbers(found.nearest) == [(1, 5), (2, 3)]
    assert [one.name for one in found.nearest[0].differing] == ["k2"]
    assert [(one.before, one.after) for one in found.counts] == [(0, 1)]


def test_of_equally_near_values_none_is_paired() -> None:
    found = pair_values([value(1, "a"), value(2, "b")], [value(3, "c"), value(4, "d")])
    assert found.nearest == ()
    assert [(one.before, one.after) for one in found.counts] == [(1, 0), (1, 0), (0, 1), (0, 1)]


def test_several_values_of_one_identity_are_paired_smallest_with_smallest() -> None:
    found = pair_values([value(1), value(2), value(3)], [value(3), value(1), value(4)])
    assert numbers(found.pairs) == [(1, 1), (2, 3), (3, 4)]
    assert [one.ordinal for one in found.pairs] == [1, 2, 3]


def test_a_value_that_has_its_partner_is_refused_to_another() -> None:
    found = pair_values([value(1, "a"), value(2, "b")], [value(3, "b")])
    assert numbers(found.pairs) == [(2, 3)]
    assert found.nearest == ()
    (refused,) = found.refused
    assert (refused.before.value, refused.after.value) == (1, 3)
    assert refused.differing == (KeyDifference("k0", "a", "b", "round"),)
    assert [(one.before, one.after) for one in found.counts] == [(1, 0)]


def test_a_new_value_is_refused_the_partner_of_another() -> None:
    (refused,) = pair_values([value(2, "b")], [value(3, "b"), value(1, "a")]).refused
    assert (refused.before.value, refused.after.value) == (2, 1)


@pytest.mark.parametrize(
    ("before", "after", "difference"),
    [
        ((20.391, 0.001), (20.391, 0.001), 0),
        ((20.391, 0.001), (20.3914, 0.0001), 0),
        ((20.391, 0.001), (20.3919999, 0), 0),
        ((20.391, 0.001), (20.392, 0.001), 0.001),
        ((7, 1), (8, 1), 1),
        ((0, 1), (0, 1), 0),
    ],
)
def test_a_difference_below_the_last_digit_is_none(
    before: tuple[float, float], after: tuple[float, float], difference: float
) -> None:
    old, new = (value(n, resolution=digit) for n, digit in (before, after))
    pair = ValuePair(old, new)
    assert pair.difference == pytest.approx(difference)


READER = LogReader()


def compared(base: str, head: str, *rows: LogPattern) -> LogComparison:
    """The comparison of two logs, with rows of the user."""
    table = (*PATTERNS, *rows)
    reader = LogReader(table) if rows else READER
    readings = (reader.read(io.BytesIO(text.encode())) for text in (base, head))
    before, after = (
        log_of(name, reading, jobs=(LoggedJob(is_whole=reading.is_whole_job),))
        for name, reading in zip(("base.log", "head.log"), readings, strict=True)
    )
    return compare_logs((before, after), directions(table), endings(table))


def remat(limit: int, after: int) -> str:
    return (
        "W hlo_rematerialization.cc:1] Can't reduce memory use below 1.00GiB "
        f"({limit} bytes) by rematerialization; only reduced to 2.00GiB ({after} bytes), "
        "down from 3.00GiB (9000 bytes) originally\n"
    )


PEAK = "peak_bytes_in_use: {}\n"
OOM = "RESOURCE_EXHAUSTED: Out of memory while trying to allocate {} bytes.\n"
SLOW = "[Compiling module m] Very slow compile? If you want to file a bug\n"
GC = "VmHWM:   {} kB\n"
LIMIT = "bytes_limit: {}\n"
MODULE = "[Compiling module {}] Very slow compile? If you want to file a bug\n"


def job(text: str) -> str:
    return f"Current runner version: '2.330.0'\n{text}Cleaning up orphan processes\n"


@pytest.mark.parametrize(
    ("base", "head", "state", "doubts"),
    [
        (remat(1, 5), remat(1, 5), "same", ()),
        (remat(1, 5), remat(1, 4), "better", ()),
        (remat(1, 5), remat(1, 6), "worse", ()),
        (remat(1, 5) + PEAK.format(100), remat(1, 6) + PEAK.format(99), "mixed", ()),
        (remat(1, 5) + remat(2, 7), remat(1, 4), "unknown", ("values missing",)),
        (remat(1, 5), remat(2, 4), "unknown", ("values missing", "nothing judged")),
        (remat(1, 5), remat(1, 4)[:-1], "unknown", ("candidate cut",)),
        (remat(1, 5)[:-1], remat(1, 6), "worse", ("base cut",)),
        (remat(1, 5), "", "unknown", ("candidate empty", "nothing in common", "values missing",
                                      "nothing judged")),
        (remat(1, 5), "hello\n", "unknown", ("nothing in common", "values missing",
                                             "nothing judged")),
        ("hello\n", "hello\n", "unknown", ("nothing in common", "nothing judged")),
        (GC.format(5), GC.format(4), "unknown", ("nothing judged",)),
        (remat(1, 5) + GC.format(5), remat(1, 5) + GC.format(4), "inconclusive", ()),
        (remat(1, 5) + GC.format(5), remat(1, 5), "inconclusive", ()),
        (remat(1, 5), remat(1, 5) + GC.format(5), "inconclusive", ()),
        (remat(1, 5) + GC.format(5) * 3, remat(1, 5) + GC.format(5) * 2, "inconclusive", ()),
        (remat(1, 5) + LIMIT.format(5), remat(1, 5) + LIMIT.format(10), "inconclusive", ()),
        (remat(1, 5) + MODULE.format("a"), remat(1, 5) + MODULE.format("b"), "inconclusive", ()),
        (remat(1, 5), remat(1, 5) + OOM.format(7), "worse", ()),
        (OOM.format(7) + remat(1, 5), remat(1, 5), "better", ()),
        (OOM.format(7) * 3 + remat(1, 5), OOM.format(7) * 2 + remat(1, 5), "better", ()),
        (remat(1, 5) + OOM.format(7), remat(1, 5), "unknown", ("not reached",)),
        (remat(1, 5) + OOM.format(7) * 2, remat(1, 5) + OOM.format(7), "unknown",
         ("not reached",)),
        (remat(1, 5) + OOM.format(7) + remat(1, 5), remat(1, 5), "unknown",
         ("not reached", "values missing")),
        (job(remat(1, 5) + OOM.format(7)), job(remat(1, 5)), "better", ()),
        (job(remat(1, 5) + OOM.format(7)), remat(1, 5), "unknown", ("not reached",)),
        (remat(1, 5) + OOM.format(7), remat(1, 5) + OOM.format(7), "same", ()),
        (remat(1, 5) + OOM.format(7), remat(1, 5) + OOM.format(9), "inconclusive", ()),
        (SLOW + remat(1, 5), remat(1, 5), "better", ()),
        (remat(1, 5) + SLOW, remat(1, 5), "unknown", ("not reached", "values missing")),
        (remat(1, 5), remat(1, 5) + SLOW, "worse", ()),
        (SLOW * 7 + remat(1, 5), SLOW * 3 + remat(1, 5), "better", ()),
        (SLOW * 3 + remat(1, 5), SLOW * 7 + remat(1, 5), "worse", ()),
        (remat(1, 5) + SLOW * 7, remat(1, 5) + SLOW * 3, "unknown",
         ("not reached", "values missing")),
        (GC.format(5), GC.format(5) + SLOW, "worse", ()),
    ],
)  # fmt: skip
def test_nothing_is_better_than_it_is_known_to_be(
    base: str, head: str, state: str, doubts: tuple[str, ...]
) -> None:
    found = compared(base, head)
    assert (found.state, found.doubts) == (state, doubts)


def test_a_warning_that_disappeared_is_counted() -> None:
    found = compared(remat(1, 5) + SLOW, remat(1, 5))
    assert [(one.example.name, one.before, one.after) for one in found.pairing.counts] == [
        ("xla.slow_compile", 1, 0)
    ]


def test_a_text_in_the_place_of_a_number_is_not_the_same() -> None:
    row = LogPattern("rate", r"hit rate (?P<value>\S+) %", ("hit rate",), fields={"value": "%"})
    log = remat(1, 5) + "pool foo: hit rate NaN %\n"
    assert compared(log, log, row).state == "inconclusive"


@pytest.mark.parametrize(("better", "state"), [("higher", "worse"), ("lower", "better")])
def test_the_direction_of_a_row_says_what_a_line_that_is_gone_means(
    better: Better, state: str
) -> None:
    row = LogPattern("cache", "cache hit", ("cache hit",), better=better, exact=True)
    log = "cache hit\n" + remat(1, 5)
    assert compared(log, remat(1, 5), row).state == state
    assert compared(log, "cache hut\n" * 3, row).state == "unknown"


def test_both_spellings_of_an_allocator_are_one_value() -> None:
    found = compared("│ bytes_in_use: 21894669533\n", "│   In Use: 20.391 GiB\n")
    assert [one.verdict for one in found.pairs] == ["same"]


def test_many_values_of_a_log_get_the_words_of_a_series() -> None:
    row = LogPattern("heap", r"heap (?P<value>\S+) MiB", fields={"value": "MiB"})
    grows, flat = (
        "".join(f"heap {100 + n * step:,} MiB\n" for n in range(20)) for step in (110, 0)
    )
    found = compared(flat + SLOW * 9, grows + SLOW * 9, row)
    (series,) = found.series
    assert series.before is not None
    assert [summary_text(one) for one in (series.before, series.after)] == [
        "flat over 20 values (0 B)", "grows 110 MiB a value (n=20)"
    ]  # fmt: skip
    text = as_text(logs_document(found))
    assert "grows 110 MiB a value" in text
    assert "heap #2" not in text  # its 19 pairs of values have no verdict


def test_a_limit_that_differs_is_a_change_without_a_direction() -> None:
    found = compared("bytes_limit: 5\n" + remat(1, 5), "bytes_limit: 6\n" + remat(1, 5))
    assert [one.verdict for one in found.pairs] == ["changed", "same", "same"]


@pytest.mark.parametrize(
    ("base", "head", "fail_on", "strict", "code"),
    [
        (remat(1, 5), remat(1, 6), "", False, 0),
        (remat(1, 5), remat(1, 6) + OOM.format(1), "oom", False, 10),
        (remat(1, 5), remat(1, 6) + OOM.format(1), "timeout", False, 0),
        (remat(1, 5) + OOM.format(1), remat(1, 6) + OOM.format(1), "oom", False, 0),
        (remat(1, 5), remat(1, 6) + "MemoryError\n", "oom", False, 0),
        (remat(1, 5), remat(1, 4)[:-1], "incomplete,oom", False, 13),
        (remat(1, 5), remat(1, 4)[:-1], "", True, 12),
        (GC.format(5) + remat(1, 5), GC.format(4) + remat(1, 5), "", True, 12),
        (remat(1, 5), remat(1, 6), "", True, 0),
        (remat(1, 5) + LIMIT.format(5), remat(1, 5) + LIMIT.format(10), "", True, 12),
        (remat(1, 5) + LIMIT.format(5), remat(1, 5) + LIMIT.format(10), "metric", False, 0),
        (remat(1, 5), remat(1, 5) + SLOW, "metric", False, 11),
        (SLOW + remat(1, 5), remat(1, 5), "metric", False, 0),
    ],
)
def test_exit_codes(base: str, head: str, fail_on: str, strict: bool, code: int) -> None:
    assert exit_code(compared(base, head), fail_on.split(","), strict=strict) == code


@pytest.mark.parametrize(
    ("base", "head", "state", "percent"),
    [
        (remat(11429599132, 62817533356), remat(11429599132, 62817533356), "same", [0, 0]),
        (remat(11429599125, 72679996812), remat(11429599125, 60775368484), "better", [-16.38, 0]),
        (remat(11428802359, 13313787004), remat(11428802359, 17352329320), "worse", [30.33, 0]),
        (PEAK.format(28943842560), PEAK.format(28534432768), "better", [-1.41]),
        (
            PEAK.format(28943842560) + remat(11428802359, 13313787004),
            PEAK.format(28534432768) + remat(11428802359, 17352329320),
            "mixed", [-1.41, 30.33, 0],
        ),
        (remat(11429599125, 72679996812), remat(11428802214, 76523901244), "unknown", []),
    ],
)  # fmt: skip
def test_real_numbers_are_judged_as_people_did(
    base: str, head: str, state: str, percent: list[float]
) -> None:
    """Of EnzymeAD/Enzyme-JAX#1307 and Reactant.jl#1619; the last pair's limits differ."""
    found = compared(base, head)
    ratios = [round(100 * (one.pair.ratio or 0), 2) for one in found.pairs]
    assert (found.state, ratios) == (state, percent)
    nearest = [round(100 * (one.ratio or 0), 2) for one in found.pairing.nearest]
    assert nearest == ([5.29, 0] if not percent else [])


def test_stages_whose_limits_print_alike_are_not_paired() -> None:
    """Numbers of a real run: https://github.com/EnzymeAD/Enzyme-JAX/pull/1307."""
    first, second = remat(11429599132, 62817533356), remat(11429599125, 72679996812)
    found = compared(first + second, first)
    refused = next(one for one in found.pairing.refused if one.before.name == AFTER)
    assert refused.differing == (
        KeyDifference("limit_bytes", "11429599125", "11429599132", "1.00GiB"),
    )
    assert refused.ratio is not None
    assert round(100 * refused.ratio, 2) == -13.57
    assert ([one.verdict for one in found.pairs], found.state) == (["same", "same"], "unknown")
