"""What re-runs of suspects said, as whoever proposes a change may have written it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from compare.compare_factories import case, run_of

from ciguard.compare.compare_runs import compare_run
from ciguard.compare.comparison import Comparison
from ciguard.compare.confirmation import MAX_BYTES, apply_confirmation, read_confirmation
from ciguard.compare.wording import measure_text, note_text
from ciguard.errors import InputError

KEY = {"suite": "", "variant": "", "unit": "a", "case": "a"}


def answer(*rows: tuple[str, float | None], **changes: Any) -> bytes:
    """The program's JSON; a row is its verdict and p."""
    reported = [{"key": KEY, "measure": "peak_delta_bytes", "p": p, "verdict": v} for v, p in rows]
    values = {
        "schema": 1,
        "verdict": "mixed",
        "complete": True,
        "stopped_because": "all runs",
        "failure": None,
        "head": "c" * 40,
        "pairs": [5],
        "rows": reported,
    }
    return json.dumps({**values, **changes}).encode()


def suspected() -> Comparison:
    past = [run_of({"01": [case("a", 1.0, 20 + n / 1e3)]}, run_id=n) for n in range(1, 13)]
    head = run_of({"01": [case("a", 1.0, 40)]}, run_id=20, tested_sha="c" * 40)
    found = compare_run(head, None, past)
    assert [one.tier for one in found.memory.losses] == ["suspect"]
    return found


def confirmed(content: bytes) -> tuple[Comparison, list[str]]:
    now = apply_confirmation(suspected(), read_confirmation(content, "x"))
    return now, [one.tier for one in now.memory.losses]


@pytest.mark.parametrize(
    ("verdict", "p", "tier", "state"),
    [
        ("more memory", 0.001, "confirmed", "worse"),
        ("-", 0.4, "not confirmed", "same"),
        ("less memory", 0.001, "not confirmed", "same"),
        ("too short", None, "suspect", "suspect"),
    ],
)
def test_confirmation_result_sets_tier_and_state(
    verdict: str, p: float, tier: str, state: str
) -> None:
    now, tiers = confirmed(answer((verdict, p)))
    assert (tiers, now.state) == ([tier], state)
    evaluated = p is not None
    output = f"{1 if tier == 'confirmed' else 0} of {'1 suspect' if evaluated else '0 suspects'}"
    assert (
        note_text(now.notes[-1])
        == f"5 alternating runs of base and head on one machine: {output} confirmed."
    )


def test_baseline_size_is_that_of_a_typical_test() -> None:
    """The suspect has 4 values, the other tests have 12."""
    past = [
        run_of(
            {"01": [case(unit, 1.0, 20 + n / 1e3) for unit in ("abc" if n > 8 else "bc")]}, run_id=n
        )
        for n in range(1, 13)
    ]
    units = {"01": [case("a", 1.0, 40), case("b"), case("c")]}
    found = compare_run(run_of(units, run_id=20, tested_sha="c" * 40), None, past)
    now = apply_confirmation(found, read_confirmation(answer(("-", 0.4)), "x"))
    assert "(3 tests judged, n=12)" in measure_text(found.memory)
    assert "(3 tests judged, n=12)" in measure_text(now.memory)


def test_confirmation_of_a_non_suspect_adds_no_finding() -> None:
    other = {"key": {**KEY, "unit": "b", "case": "b"}, "measure": "wall_s", "p": 0.01}
    now, tiers = confirmed(answer(rows=[{**other, "verdict": "slower"}]))
    assert (tiers, now.durations) == (["suspect"], suspected().durations)


@pytest.mark.parametrize(
    ("changes", "output"),
    [
        ({"head": "d" * 40}, "not the candidate: it confirms nothing"),
        ({"complete": False, "stopped_because": "budget"}, "could not judge the suspects: budget"),
        (
            {"complete": False, "failure": "a 1: exit 2\n<b>"},
            "could not judge the suspects: a 1: exit 2",
        ),
    ],
)
def test_inapplicable_confirmation_changes_nothing_and_adds_a_note(
    changes: dict[str, Any], output: str
) -> None:
    now, tiers = confirmed(answer(("more memory", 0.001), **changes))
    assert (tiers, now.state) == (["suspect"], "suspect")
    assert output in note_text(now.notes[-1])
    assert "\n" not in note_text(now.notes[-1])


@pytest.mark.parametrize(
    ("content", "output"),
    [
        (b"", "no confirmation"),
        (b"[]", "no confirmation"),
        (answer(schema=3), "schema 3 is newer than 2"),
        (answer(pairs=[]), "pairs"),
        (answer(rows=[{"key": KEY, "measure": "rss", "p": 0, "verdict": ""}]), "rows.0.measure"),
        (answer().replace(b"[5]", b"[NaN]"), "no confirmation"),
        (b" " * (MAX_BYTES + 1), "at most"),
    ],
)
def test_invalid_confirmation_is_rejected(content: bytes, output: str) -> None:
    with pytest.raises(InputError, match=output):
        read_confirmation(content, "x")
