"""How far a leg is, over literals."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ciguard.run.output.progress import (
    Progress,
    clock,
    describe_progress,
    terminal_line,
)

MIB = 1 << 20
ALL = Progress(
    done=12,
    total=40,
    bad=1,
    elapsed_s=250.4,
    predicted_s=720.0,
    tree_bytes=1229 * MIB,
    headroom_bytes=512 * MIB,
    running_units=("a.py::t", "b.py::t [v]"),
)


def test_a_line_says_all_that_is_known_and_nothing_else() -> None:
    assert describe_progress(ALL) == (
        "12/40 units, 1 failed, tests 1.20 GiB, headroom 512 MiB, 4:10 of about 12:00"
    )
    assert describe_progress(Progress(0, 1, 0, 3.0)) == "0/1 unit, 0:03"


HEAD = "12/40 units, 1 failed, 4:10 of about 12:00"
MEMORY = ", tests 1.20 GiB, headroom 512 MiB"


@pytest.mark.parametrize(
    ("at", "columns", "output"),
    [
        ((), 200, f"{HEAD}{MEMORY}"),
        (("a.py::t", "b.py::t [v]"), 200, f"{HEAD}: a.py::t, b.py::t [v]{MEMORY}"),
        (("a.py::t", "b.py::t [v]"), 80, f"{HEAD}: a.py::t, b.py::t [v]"),
        (("x/yy/a_file.py::test_of_it", "b.py::t"), 79, f"{HEAD}: a_file.py::test_of_it, b.py::t"),
        (("x/a_long_file.py::test_of_it", "b_file.py::t"), 70, f"{HEAD}: test_of_it, t"),
        (("a_file.py::C::test_of_all_there_is[1]",), 80, f"{HEAD}: C::test_of_all_there_is[1]"),
        (("a.py::test_of_all_there_is_and_more[7]",), 72, f"{HEAD}: ...all_there_is_and_more[7]"),
        (("a.py::test_of_all[7]",) * 3, 67, f"{HEAD}: ...f_all[7] and 2 more"),
        (("a\x1b[2J\n\r",), 60, f"{HEAD}: a?[2J??"),
        (("a.py::t",), 21, HEAD[:20]),
    ],
)
def test_a_live_line_says_first_what_runs(at: tuple[str, ...], columns: int, output: str) -> None:
    assert terminal_line(replace(ALL, running_units=at), columns) == output


@given(st.integers(0, 200), st.text(max_size=150))
def test_a_live_line_fits_whatever_the_width(columns: int, name: str) -> None:
    text = terminal_line(replace(ALL, running_units=(name,)), columns)
    assert len(text) <= max(0, columns - 1)
    assert text.isprintable()


@pytest.mark.parametrize(
    ("length_s", "output"),
    [(0, "0:00"), (59.4, "0:59"), (59.6, "1:00"), (3599, "59:59"), (3600, "1:00:00")],
)
def test_clocks(length_s: float, output: str) -> None:
    assert clock(length_s) == output
