"""Comparisons that the formats are shown with, and the legs that they are made of."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from compare.compare_factories import case, died, run_of

from ciguard.compare.compare_runs import Context, compare_run
from ciguard.compare.comparison import Comparison
from ciguard.model import Result
from ciguard.model.jobs import Job

HOSTILE = "t.py::x[`|<b>@everyone</b> #1 ${{ x }} ::set-output\n\u202e\U0001f389]"


def job(name: str, conclusion: str) -> Job:
    begin = datetime(2026, 11, 21, 10, tzinfo=UTC)
    return Job(1, name, 1, "completed", conclusion, begin, begin + timedelta(seconds=10))


CONTEXT = Context(
    jobs_before=(job("lint", "success"), job("docs", "cancelled")),
    jobs_after=(job("lint", "failure"), job("docs", "success")),
)


def base_legs() -> dict[str, list[Result]]:
    return {
        "01": [case("m.py::index", 1.0, 100), case("m.py::settles"), case("m.py::cookie")],
        "02": [case("n.py::one", 2.0), case("n.py::two", outcome="failed"), case("n.py::gone")],
        "03": [case("o.py::lost")],
    }


def head_legs() -> dict[str, list[Result]]:
    return {
        "01": [
            case("m.py::index", 1.1, 160),
            died("m.py::settles", "timeout", message="stopped: over its limit\nmore"),
            died("m.py::cookie", "crash", message="killed by SIGSEGV"),
        ],
        "02": [
            case("n.py::one", 2.1, try_number=2),
            case("n.py::one", 2.1, outcome="failed", try_number=1),
            case("n.py::two"),
            case(HOSTILE, outcome="failed", message="`|<script>alert(1)</script>\n@everyone"),
        ],
        "04": [case("o.py::new", outcome="skipped", suite="s", variant="v")],
    }


def past(count: int) -> list[Any]:
    return [run_of(base_legs(), f"base {n}", run_id=n, head_sha="b" * 40) for n in range(1, count)]


def hurt() -> Comparison:
    head = run_of(head_legs(), "head", run_id=9, branch="topic", head_sha="a" * 40)
    return compare_run(head, None, [run_of(base_legs(), "base")], context=CONTEXT)


def same() -> Comparison:
    """Nothing new over twelve runs."""
    runs = [
        run_of({"01": [case("a", 1 + n / 100, 50 + n / 50)]}, f"run {n}", run_id=n)
        for n in range(1, 14)
    ]
    return compare_run(runs[6], None, [*runs[:6], *runs[7:]])


def confirmed() -> Comparison:
    """A regression of memory in two runs, over twelve."""
    runs = [
        run_of({"01": [case("a", 1.0, 512 + n / 10)]}, f"run {n}", run_id=n) for n in range(1, 13)
    ]
    heads = [run_of({"01": [case("a", 1.0, 640 + n)]}, "head", run_id=20 + n) for n in (0, 1)]
    return compare_run(heads[1], None, runs, previous=heads[0])


def leaking() -> Comparison:
    """Two processes that leak, in two runs, over twelve."""

    def run(stored: float, run_id: int) -> Any:
        legs = {
            shard: [case(f"{shard}::{n}", retained_bytes=round(stored * 2**20)) for n in range(40)]
            for shard in ("01", "02")
        }
        return run_of(legs, run_id=run_id)

    return compare_run(run(2, 20), None, [run(0.1, n) for n in range(1, 13)], previous=run(2, 19))


COMPARISONS = {"hurt": hurt, "same": same, "confirmed": confirmed, "leaking": leaking}
