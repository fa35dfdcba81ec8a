"""Lines as runners and terminals write them, in any blocks; and how a log ends."""

from __future__ import annotations

import io
import random
import tracemalloc
from pathlib import Path
from typing import Final

import pytest

from ciguard.errors import UsageError
from ciguard.logs.accelerator_patterns import SHARE, TRANSIENT
from ciguard.logs.log_reader import BLOCK_BYTES, LINE_BYTES, LogReader, LogReading
from ciguard.logs.pattern import LogPattern
from ciguard.logs.values import parse_quantity

READER: Final = LogReader()
SAMPLES: Final = Path(__file__).parent.parent / "samples" / "logs"
PEAK: Final = b"peak_bytes_in_use: 4096"
TIME: Final = b"2026-01-02T03:04:05.1234567Z "


def read(log: bytes) -> LogReading:
    return READER.read(io.BytesIO(log))


def places(log: bytes) -> list[tuple[str, float, int]]:
    return [(one.name, one.value, one.place.line) for one in read(log).values]


FOUND: Final = [("allocator.peak_bytes_in_use", 4096, 2)]


@pytest.mark.parametrize(
    "line",
    [
        PEAK,
        "│ ".encode() + PEAK,
        b"\x1b[36m\x1b[1m"
        + "│ ".encode()
        + b"\x1b[22m\x1b[39mpeak_\x1b[1mbytes\x1b[0m_in_use: 4096",
        TIME + PEAK,
        TIME + "│ ".encode() + PEAK,
        PEAK + b"\r",
        b" 10%\r 99%\r" + PEAK,
        PEAK.replace(b"_", b"_\0"),
        b"\x1b]8;;https://example.org\x07" + PEAK + b"\x1b]8;;\x07",
    ],
)
def test_what_terminals_and_runners_add_is_taken_out(line: bytes) -> None:
    assert places(b"start\n" + line + b"\nend\n") == FOUND


def test_a_log_in_utf16_is_read() -> None:
    assert places("start\r\npeak_bytes_in_use: 4096\r\n".encode("utf-16")) == FOUND


def test_bytes_that_are_no_utf8_are_replaced() -> None:
    log = b"\xff\xfe\xfa\n\xc3 Allocator (GPU_1_bfc) ran out of memory trying to allocate 4.0KiB"
    (found,) = read(log + b" (rounded to 4096)requested by op \xff\n").values
    assert (found.value, found.place.line) == (4096, 2)


def test_a_long_line_is_read_whole() -> None:
    for before in (BLOCK_BYTES - 5, 1 << 20):
        assert places(b"x\n" + b" " * before + PEAK + b"\n") == FOUND


def test_a_line_without_end_is_read_in_parts() -> None:
    assert places(b"x\n" + b"y" * 3 * LINE_BYTES + b"\n" + PEAK + b"\n")[0][2] == 3


@pytest.mark.parametrize("before", range(BLOCK_BYTES - 30, BLOCK_BYTES + 2, 3))
def test_a_line_across_two_blocks_is_read_once(before: int) -> None:
    assert places(b"x" * (before - 1) + b"\n" + PEAK + b"\n" + b"y" * BLOCK_BYTES) == FOUND


@pytest.mark.parametrize(
    ("log", "end", "lines"),
    [
        (b"", "empty", 0),
        (b"\n \n", "empty", 2),
        (b"a\nb\n", "whole", 2),
        (b"a\nb", "cut", 2),
        (TIME + b"Current runner version: '2.319.1'\n" + TIME + b"hello\n", "cut", 2),
        (
            TIME
            + b"Current runner version: '2.319.1'\n"
            + TIME
            + b"Cleaning up orphan processes\n",
            "whole",
            2,
        ),
    ],
)
def test_a_log_that_does_not_end_is_cut(log: bytes, end: str, lines: int) -> None:
    found = read(log)
    assert (found.end, found.lines) == (end, lines)


def test_running_tests_are_those_below_their_title() -> None:
    line = b"\tTestSlow (9m52s)\n"
    far = b"x\n" * 20
    assert read(line).values == ()
    assert [one.value for one in read(b"running tests:\n" + line).values] == [592]
    assert read(b"running tests:\n" + far + line).values == ()
    # The title is the last line of a block.
    title = b"x" * (BLOCK_BYTES - len(b"\nrunning tests:\n")) + b"\nrunning tests:\n"
    assert [one.place.line for one in read(title + b"\n" + line + line).values] == [4, 5]


def block(rank: int, peak: int, used: int) -> bytes:
    return (
        f"┌ Info: [{rank}] allocations\n│ AllocatorStats\n│ bytes_in_use: {used}\n"
        f"│ peak_bytes_in_use: {peak}\n│ bytes_limit: 31804391424\n└\n"
    ).encode()


def test_values_belong_to_the_newest_line_that_names_a_stage() -> None:
    stage = "┌ Info: [0] {}\n└   now(UTC) = 2025-08-23T14:04:03\n" + "x\n" * 30
    log = stage.format("Compiling first_time_step!...").encode() + block(0, 3000, 1000)
    log += stage.format("running loop").encode() + block(0, 5000, 4000)
    found = [
        ([field.value for field in one.key], one.value)
        for one in read(log).values
        if one.name == TRANSIENT
    ]
    assert found == [(["Compiling first_time_step!", "0"], 2000), (["running loop", "0"], 1000)]


def test_memory_beyond_what_stays_is_of_each_block() -> None:
    log = block(0, 3000, 1000) + block(1, 5000, 4000)
    found = [
        (one.name, one.key[0].value, one.value)
        for one in read(log).values
        if one.name.startswith(TRANSIENT)
    ]
    percent = 100 / 31804391424
    assert found == [
        (TRANSIENT, "0", 2000), (SHARE, "0", 2000 * percent),
        (TRANSIENT, "1", 1000), (SHARE, "1", 1000 * percent),
    ]  # fmt: skip


def test_numbers_of_two_blocks_are_not_mixed() -> None:
    apart = b"peak_bytes_in_use: 4096\nx\nbytes_in_use: 1\n"
    assert TRANSIENT not in [one.name for one in read(apart).values]


def test_no_number_is_no_value() -> None:
    row = LogPattern("hits", r"hit rate: (?P<value>\S+)", ("hit rate:",), fields={"value": "%"})
    found = LogReader([row]).read(io.BytesIO(b"hit rate: nan\nhit rate: 7\nhit rate: inf\n"))
    assert [(one.value, one.place.line) for one in found.values] == [(7, 2)]
    assert [(one.text, one.place.line) for one in found.unreadable] == [("nan", 1), ("inf", 3)]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("7,192,664", 7192664), ("1,234.5", 1234.5), ("-12,000", -12000), ("1,000e3", 1e6),
        ("7,19", None), ("7,1924", None), ("0,123", None), ("1.234,5", None), ("1,,234", None),
        (",123", None), ("1234,567", None), ("1 234", None),
    ],
)  # fmt: skip
def test_thousands_may_have_commas_and_decimals_may_not(text: str, value: float | None) -> None:
    found = parse_quantity(text, "")
    assert (found[0] if found else None) == value


@pytest.mark.parametrize(
    ("text", "unit", "found"),
    [
        ("9" * 400 + "h1s", "hms", None), ("9" * 5000 + "h1s", "hms", None),
        ("9" * 400 + "s", "hms", None), ("9" * 400, "", None), ("9" * 308, "G", None),
        ("1h0.50s", "hms", (3600.5, 0.01, "s")), ("0e999", "", (0, 0, "")),
        ("1e+06", "", (1e6, 10, "")), ("1.5e+6", "", (1.5e6, 10, "")),
        ("1.2e-03", "", (1.2e-3, 1e-8, "")),
        ("1.0000000e+01", "", (10, 1e-6, "")),
    ],
)  # fmt: skip
def test_numbers_are_finite_and_as_exact_as_printed(
    text: str, unit: str, found: tuple[float, float, str] | None
) -> None:
    assert parse_quantity(text, unit) == found


class Repeated(io.RawIOBase):
    """A log of one line, many times."""

    def __init__(self, line: bytes, size: int) -> None:
        self._chunk = (line * (BLOCK_BYTES // len(line) + 1))[:BLOCK_BYTES]
        self._left = size // BLOCK_BYTES

    def read(self, size: int = -1) -> bytes:  # noqa: ARG002  # blocks, as the reader asks for
        self._left -= 1
        return self._chunk if self._left >= 0 else b""


def test_memory_does_not_grow_with_the_log() -> None:
    tracemalloc.start()
    READER.read(Repeated(b"compiling a.cc with no numbers of interest\n", 1 << 24))  # type: ignore[arg-type]
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2_000_000


def test_too_many_values_cut_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ciguard.logs.log_reader.MAX_VALUES", 100)
    found = read((PEAK + b"\n") * (BLOCK_BYTES // 8))
    assert found.end == "cut"
    assert 100 <= len(found.values) <= BLOCK_BYTES // len(PEAK)


def test_a_pattern_that_re2_does_not_know_is_refused() -> None:
    row = LogPattern("mine", r"hits(?= )", ("hits",))
    with pytest.raises(UsageError, match="RE2 has no lookaround") as found:
        LogReader([row])
    assert found.value.where == "metrics.mine.pattern"


def test_blocks_find_what_single_lines_hold() -> None:
    source = random.Random(5)
    own = [
        line
        for line in (SAMPLES / "lines.txt").read_bytes().splitlines()
        if not line.endswith((b"allocations", b"running tests:"))
    ]
    noise = [source.randbytes(100).replace(b"\n", b"") for _ in range(50)]
    lines = source.choices([*own, *noise, *(line[:20] for line in own)], k=6000)
    single = [
        (one.name, one.value, number)
        for number, line in enumerate(lines, 1)
        for one in read(line + b"\n").values
        if not one.name.startswith(TRANSIENT)
    ]
    whole = b"\n".join(lines) + b"\n"
    assert len(whole) > 3 * BLOCK_BYTES
    assert [one for one in places(whole) if not one[0].startswith(TRANSIENT)] == single
