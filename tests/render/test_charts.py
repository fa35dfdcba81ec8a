"""The drawing of runs."""

from __future__ import annotations

from ciguard.render.charts import HEADROOM, draw_runs


def test_runs_without_a_value_interrupt_the_line() -> None:
    drawn = draw_runs([(1.0, "good"), (2.0, "bad"), (None, "bad"), (0.0, "good"), (1.0, "good")])
    assert drawn is not None
    assert drawn.most == 2.0 * HEADROOM
    assert drawn.bad == (250.0, 500.0)
    assert drawn.lines == ("0.0,52.4 250.0,4.8", "750.0,100.0 1000.0,52.4")


def test_single_run_is_a_line_of_no_length_and_nothing_measured_is_none() -> None:
    drawn = draw_runs([(0.0, "good")])
    assert drawn is not None
    assert drawn.lines == ("0.0,100.0 0.0,100.0",)
    assert [draw_runs([(None, "good")]), draw_runs([])] == [None, None]
