"""What became of each case, one transition at a time."""

from __future__ import annotations

import pytest
from compare.compare_factories import case, died, run_of
from guard.fixtures import make_plan
from hypothesis import given
from hypothesis import strategies as st

from ciguard.compare.compare_runs import compare_run
from ciguard.compare.transitions import WORSE_KINDS, transitions
from ciguard.compare.wording import before_text, case_text, headline, kind_text
from ciguard.model import ENDINGS, OUTCOMES, Result, UnitKey

PASSED = case("u")
SKIPPED = case("u", outcome="skipped")
FAILED = case("u", outcome="failed", message="1 != 2")
ERRORED = case("u", outcome="errored")
TIMEOUT = died("u", "timeout")
MEMORY = died("u", "out_of_memory")
GUARD = died("u", "memory_guard")
CRASH = died("u", "crash")
STOPPED = died("u", "deadline")
LOST = died("u", "cancelled")

TABLE: list[tuple[Result | None, Result | None, str | None]] = [
    (PASSED, PASSED, None),
    (PASSED, FAILED, "newly_failing"),
    (PASSED, ERRORED, "newly_failing"),
    (SKIPPED, FAILED, "newly_failing"),
    (None, FAILED, "failing_added"),
    (None, ERRORED, "failing_added"),
    (PASSED, TIMEOUT, "newly_timed_out"),
    (FAILED, TIMEOUT, "newly_timed_out"),
    (None, TIMEOUT, "timed_out_added"),
    (None, CRASH, "crashed_added"),
    (None, GUARD, "out_of_memory_added"),
    (PASSED, MEMORY, "newly_out_of_memory"),
    (PASSED, GUARD, "newly_out_of_memory"),
    (TIMEOUT, MEMORY, "newly_out_of_memory"),
    (PASSED, CRASH, "newly_crashed"),
    (TIMEOUT, CRASH, "newly_crashed"),
    (FAILED, FAILED, "failing_on_both"),
    (FAILED, ERRORED, "failing_on_both"),
    (TIMEOUT, TIMEOUT, "failing_on_both"),
    (MEMORY, GUARD, "failing_on_both"),
    (CRASH, FAILED, "failing_on_both"),
    (FAILED, PASSED, "fixed"),
    (TIMEOUT, PASSED, "fixed"),
    (MEMORY, PASSED, "fixed"),
    (FAILED, SKIPPED, "newly_skipped"),
    (PASSED, SKIPPED, "newly_skipped"),
    (SKIPPED, SKIPPED, None),
    (SKIPPED, PASSED, None),
    (PASSED, STOPPED, "no_longer_run"),
    (FAILED, LOST, "no_longer_run"),
    (STOPPED, LOST, None),
    (STOPPED, PASSED, None),
    (PASSED, None, "no_longer_run"),
    (FAILED, None, "no_longer_run"),
    (SKIPPED, None, "no_longer_run"),
    (STOPPED, None, None),
    (None, PASSED, "added"),
    (None, SKIPPED, "added"),
]


def kinds(before: list[Result], after: list[Result], planned: set[str] | None = None) -> list[str]:
    keys = None if planned is None else {UnitKey("", "", unit): "07" for unit in planned}
    found = transitions(run_of({"01": before}), run_of({"01": after}), keys)
    return [f"{one.kind} {one.key.case}" for one in found]


@pytest.mark.parametrize(("before", "after", "kind"), TABLE)
def test_transition_of_one_case(
    before: Result | None, after: Result | None, kind: str | None
) -> None:
    found = kinds([before] if before else [], [after] if after else [])
    assert found == ([] if kind is None else [f"{kind} u"])


def test_added_failures_are_named_alike() -> None:
    words = ["out of memory", "timed out", "crashed", "failing"]
    assert [kind_text(kind) for kind in WORSE_KINDS[1::2]] == [f"{word}, added" for word in words]


def test_missing_unit_is_removed_only_if_the_plan_omits_it() -> None:
    assert kinds([PASSED], []) == ["no_longer_run u"]
    assert kinds([PASSED], [], planned={"u"}) == ["no_longer_run u"]
    assert kinds([PASSED], [], planned={"other"}) == ["removed u"]


def test_missing_unit_is_in_its_shard_of_the_candidate_plan() -> None:
    base, head = run_of({"03": [PASSED]}), run_of({"01": [case("v")]})
    (ended, _) = transitions(base, head, {UnitKey("", "", "u"): "02"})
    assert (ended.kind, ended.shard) == ("no_longer_run", "02")
    assert [one.shard for one in transitions(base, head) if one.after is None] == [""]
    (removed, _) = transitions(base, head, {UnitKey("", "", "v"): "01"})
    assert (removed.kind, removed.shard) == ("removed", "")


def test_lost_unit_has_no_transition() -> None:
    lost = {UnitKey("", "", "u")}
    base, head = run_of({"01": [PASSED]}), run_of({"01": [STOPPED]})
    assert transitions(base, run_of({"01": []}), None, lost) == ()
    assert transitions(base, head, None, lost) == ()


def test_flaky_case_may_have_another_transition() -> None:
    rerun = [case("u", outcome="failed", try_number=1), case("u", try_number=2)]
    assert kinds([PASSED], rerun) == ["flaky u"]
    assert kinds([FAILED], rerun) == ["flaky u", "fixed u"]


def test_new_flaky_case_has_one_transition() -> None:
    rerun = [case("u", outcome="failed", try_number=1), case("u", try_number=2)]
    (found,) = transitions(run_of({"01": [case("v")]}), run_of({"01": [*rerun, case("v")]}))
    assert (found.kind, before_text(found)) == ("flaky", "added, failed in an earlier try")


CASES = [case("u", case="u[1]"), case("u", case="u[2]")]


def test_died_unit_is_compared_with_its_cases() -> None:
    assert kinds(CASES, [died("u", "crash")]) == ["newly_crashed u"]
    assert kinds([died("u", "crash")], CASES) == ["fixed u", "added u[1]", "added u[2]"]


def test_case_missing_from_a_unit_that_ran() -> None:
    assert kinds(CASES, CASES[:1]) == ["no_longer_run u[2]"]
    assert kinds(CASES, CASES[:1], planned={"u"}) == ["removed u[2]"]


@pytest.mark.parametrize("reason", ["focus", "filter", "executed"])
def test_case_that_a_focus_or_filter_kept_from_running_was_not_removed(reason: str) -> None:
    base = run_of({"01": [case("u", case=f"u {n}") for n in range(10)]})
    head = run_of({"01": [case("u", case="u 1")]}, run_id=2, execution=reason)
    found = compare_run(head, None, [base], plan=make_plan({"01": ("u",)}))
    assert {one.kind for one in found.transitions} == {
        "removed" if reason == "executed" else "no_longer_run"
    }
    assert headline(found).startswith("INCONCLUSIVE: 9 gone")


def test_expected_failure_is_not_called_skipped() -> None:
    xfail = case("u", outcome="skipped", message="xfail: issue 7")
    assert kinds([PASSED], [xfail]) == ["newly_xfailed u"]
    assert kinds([FAILED], [xfail]) == ["newly_xfailed u"]
    unrun = case("u", outcome="skipped", message="xfail: [NOTRUN] hangs")
    assert kinds([PASSED], [unrun]) == ["newly_skipped u"]
    assert kinds([SKIPPED], [xfail]) == []


def test_transition_has_both_outcomes_and_the_failure_message() -> None:
    (found,) = transitions(run_of({"01": [PASSED]}), run_of({"07": [TIMEOUT]}))
    assert (case_text(found.before), case_text(found.after), found.shard) == (
        "passed",
        "died (timeout)",
        "07",
    )
    (found,) = transitions(run_of({"01": [PASSED]}), run_of({"01": [FAILED]}))
    assert found.message == "1 != 2"


def test_variants_are_never_mixed() -> None:
    before = [case("u", variant="x"), case("u", variant="y", outcome="failed")]
    after = [case("u", variant="x", outcome="failed"), case("u", variant="y", outcome="failed")]
    found = transitions(run_of({"01": before}), run_of({"01": after}))
    assert [(one.kind, one.key.variant) for one in found] == [
        ("newly_failing", "x"),
        ("failing_on_both", "y"),
    ]


@st.composite
def result_lists(draw: st.DrawFn) -> list[Result]:
    """A few results of a few units."""
    return [
        case(
            draw(st.sampled_from("uvw")),
            case=draw(st.sampled_from(["u", "v", "u[1]"])),
            outcome=draw(st.sampled_from(OUTCOMES)),
            ending=draw(st.sampled_from(ENDINGS)),
        )
        for _ in range(draw(st.integers(0, 5)))
    ]


@given(result_lists())
def test_run_compared_with_itself_has_no_new_transitions(results: list[Result]) -> None:
    run = run_of({"01": results})
    assert {one.kind for one in transitions(run, run)} <= {"failing_on_both", "flaky"}


@given(result_lists(), result_lists())
def test_a_case_has_at_most_one_transition_besides_flaky(
    before: list[Result], after: list[Result]
) -> None:
    found = transitions(run_of({"01": before}), run_of({"01": after}))
    keys = [one.key for one in found if one.kind != "flaky"]
    assert len(set(keys)) == len(keys)
