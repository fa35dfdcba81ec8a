"""What became of each case: transitions, tests under another name, and past failure rates."""

from __future__ import annotations

import pytest
from compare.compare_factories import case, died, files_of, run_of
from guard.fixtures import make_plan
from hypothesis import given
from hypothesis import strategies as st

from ciguard.codec.record.reader import read_records
from ciguard.compare.command import FORMATS
from ciguard.compare.compare_runs import compare_run
from ciguard.compare.comparison import Comparison
from ciguard.compare.transitions import WORSE_KINDS, match_renames, transitions
from ciguard.compare.wording import before_text, case_text, failure_rate_text, headline, kind_text
from ciguard.history.file import History
from ciguard.history.ingest import RunMetadata, history_of
from ciguard.history.merge import merge
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


PAIRS: list[tuple[list[str], list[str], dict[str, str]]] = [
    (["a.py::t"], ["b.py::t"], {"b.py::t": "a.py::t"}),
    (["a.py::C::t"], ["a.py::D::t"], {"a.py::D::t": "a.py::C::t"}),
    (["a.py::t[1]"], ["b.py::t[1]"], {"b.py::t[1]": "a.py::t[1]"}),
    (["a.py::t[1]"], ["b.py::t[2]"], {}),
    (["a.py::test_parse"], ["a.py::test_render"], {}),
    (["a.py::test_a"], ["a.py::test_b"], {}),
    (["a.py::test_case_1"], ["a.py::test_case_2"], {}),
    (["a.py::test_logs_in"], ["b.py::test_login"], {}),  # moved and renamed: nobody knows
    (["x/a.py::t", "y/a.py::t"], ["z/a.py::t"], {}),  # which of the two?
    (
        ["one/a.py::t", "two/a.py::t"],
        ["one/b/a.py::t", "two/b/a.py::t"],
        {"one/b/a.py::t": "one/a.py::t", "two/b/a.py::t": "two/a.py::t"},
    ),
    (["a.py::C::t", "b.py::D::t"], ["a.py::E::t"], {}),  # which of the two?
    (["a.py::C::t"], ["b.py::D::t"], {}),  # another class of another file
    (["d/a.py::test_soon"], ["d.b::test_sooner"], {}),
    (["N.One.Soon"], ["N.Two.Sooner"], {}),
    (["N.One.T(x: 1)"], ["N.Two.T(x: 1)"], {"N.Two.T(x: 1)": "N.One.T(x: 1)"}),
    (["a.py::t"], ["a.py::t"], {}),
    (
        ["a.py::test_parse[json]", "a.py::test_parse[xml]"],
        ["a.py::test_reads[json]", "a.py::test_reads[xml]"],
        {
            "a.py::test_reads[json]": "a.py::test_parse[json]",
            "a.py::test_reads[xml]": "a.py::test_parse[xml]",
        },
    ),
    (["a.py::p[1]", "a.py::p[2]"], ["a.py::r[1]", "a.py::r[3]"], {}),  # other parameters
    (["a.py::p[1]", "a.py::p[2]"], [f"a.py::{f}[{n}]" for f in "rs" for n in (1, 2)], {}),
]


@pytest.mark.parametrize(("removed", "new", "expected"), PAIRS)
def test_certain_renames(removed: list[str], new: list[str], expected: dict[str, str]) -> None:
    found = match_renames(run_of({"01": [*map(case, removed)]}), run_of({"01": [*map(case, new)]}))
    assert {now.case: was.case for now, was in found.sure.items()} == expected


PERHAPS: list[tuple[list[str], list[str], dict[str, str]]] = [
    (["a.py::test_logs_in"], ["a.py::test_login"], {"a.py::test_login": "a.py::test_logs_in"}),
    # The second one was renamed, and the first one deleted: its name is nearer to the new one.
    (
        ["a.py::test_prints_its_metavar_missing_arg", "a.py::test_prints_its_metavar_bad_arg"],
        ["a.py::test_prints_its_metavar_wrong_arg"],
        {"a.py::test_prints_its_metavar_wrong_arg": "a.py::test_prints_its_metavar_missing_arg"},
    ),
    (["a.py::C::t", "b.py::D::t"], ["a.py::E::t"], {"a.py::E::t": "a.py::C::t"}),
    (["a.py::C::t"], ["b.py::D::t"], {"b.py::D::t": "a.py::C::t"}),
    (["a/x.py::t", "b/x.py::t"], ["a/y.py::t"], {"a/y.py::t": "a/x.py::t"}),
    # The same place in a record and in JUnit XML.
    (["d/a.py::test_on[b]"], ["d.a::test_one[b]"], {"d.a::test_one[b]": "d/a.py::test_on[b]"}),
]


@pytest.mark.parametrize(("removed", "new", "expected"), PERHAPS)
def test_uncertain_renames(removed: list[str], new: list[str], expected: dict[str, str]) -> None:
    found = match_renames(run_of({"01": [*map(case, removed)]}), run_of({"01": [*map(case, new)]}))
    assert not found.sure
    assert {now.case: was.case for now, was in found.perhaps.items()} == expected


def test_uncertain_rename_is_shown_and_not_compared() -> None:
    base = run_of({"01": [case("a.py::test_logs_in", outcome="failed")]})
    head = run_of({"01": [case("a.py::test_login")]}, run_id=2)
    found = compare_run(head, None, [base])
    (one,) = found.transitions
    assert (one.kind, one.renamed_from, one.perhaps_was) == ("renamed", None, base.keys[0])
    for shape in ("text", "markdown", "html"):
        assert "perhaps" in FORMATS[shape](found)
    assert found.state == "inconclusive", "the failure is not called fixed"


def test_no_rename_across_suites_or_of_a_planned_test() -> None:
    base = run_of({"01": [case("a.py::t")]})
    assert not match_renames(base, run_of({"01": [case("b.py::t", suite="s")]})).sure
    head = run_of({"01": [case("b.py::t")]})
    assert not match_renames(base, head, {UnitKey("", "", "a.py::t"): "01"}).sure


RENAMED = [
    ("passed", "passed", "renamed"),
    ("passed", "failed", "newly_failing"),
    ("failed", "failed", "failing_on_both"),
    ("failed", "passed", "fixed"),
    ("passed", "skipped", "newly_skipped"),
]


@pytest.mark.parametrize(("before", "after", "kind"), RENAMED)
def test_renamed_test_is_compared_with_its_old_name(before: str, after: str, kind: str) -> None:
    base = run_of({"01": [case("a.py::t", outcome=before)]})
    head = run_of({"01": [case("b.py::t", outcome=after)]}, run_id=2)
    (found,) = compare_run(head, None, [base]).transitions
    assert (found.kind, found.renamed_from) == (kind, base.keys[0])
    assert (case_text(found.before), case_text(found.after)) == (before, after)


JEST = [f"cart > adds {n}.5 items" for n in range(41)]


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (
            [case(f"tests/a.py::test_t{n}") for n in range(41)],
            [case(f"tests/b.py::test_t{n}") for n in range(41)],
            "tests/a.py -> tests/b.py: 41 tests",
        ),
        (
            [case("a.test.js", case=name) for name in JEST],
            [case("b.test.js", case=name) for name in JEST],
            "a.test.js -> b.test.js: 41 tests",
        ),
        (
            [case(f"a.py::C::test_parse[{n}]") for n in range(3)],
            [case(f"a.py::C::test_reads[{n}]") for n in range(3)],
            "a.py::C::test_parse -> a.py::C::test_reads: 3 tests",
        ),
        (
            [case("u.test.js", case="cart"), case("u.test.js", case="cart sums up to 10")],
            [case("u.test.js", case="cart"), case("u.test.js", case="cart sums up at 10")],
            "u.test.js cart sums up at 10, perhaps was u.test.js cart sums up to 10",
        ),
    ],
)
@pytest.mark.parametrize("is_planned", [False, True])
def test_rename_is_one_row(
    old: list[Result], new: list[Result], words: str, is_planned: bool
) -> None:
    base, head = run_of({"01": old}), run_of({"01": new}, run_id=2)
    plan = make_plan({"01": tuple({one.unit for one in new})}) if is_planned else None
    text = " ".join(FORMATS["text"](compare_run(head, None, [base], plan=plan)).split())
    assert words in text
    assert "gone" not in text


def test_cases_of_a_file_that_died_were_not_renamed() -> None:
    base = run_of({"01": [case("a.test.js", case="works"), case("b.test.js", case="x")]})
    died_unit = [died("a.test.js", "crash"), case("b.test.js", case="works")]
    assert not match_renames(base, run_of({"01": died_unit})).old_keys


def test_renamed_test_is_not_lost() -> None:
    base = run_of({"01": [case("a.py::u")], "02": [case("a.py::t")]})
    head = run_of({"02": [case("b.py::t")]}, run_id=2)
    (lost,) = compare_run(head, None, [base]).lost_units
    assert [unit.unit for unit in lost.units] == ["a.py::u"]


def test_suite_of_new_names_is_matched_in_bounded_time() -> None:
    removed = [case(f"a.py::test_old{n}") for n in range(2000)]
    new = [case(f"a.py::test_new{n}") for n in range(2000)]
    assert not match_renames(run_of({"01": removed}), run_of({"01": new})).perhaps


GOOD, BAD = case("u"), case("u", outcome="failed")
TIMED_OUT, CANCELLED = died("u", "timeout"), died("u", "cancelled")


def history(past: list[Result | None]) -> History:
    """A run for each, a day apart; None is a run without the test."""
    found = None
    for day, result in enumerate(past, 1):
        facts = {"run_id": day, "started_at": f"2026-11-{day:02}T10:00:00Z", "event": "push"}
        results = [case("v"), *([result] if result is not None else [])]
        files = files_of({"01": results}, **facts)
        one = history_of(read_records(files.items()), RunMetadata())
        found = one if found is None else merge(found, one)
    assert found is not None
    return found


def compared(now: Result, past: list[Result | None]) -> Comparison:
    head = run_of({"01": [now, case("v")]}, run_id=99, started_at="2026-11-25T10:00:00Z")
    return compare_run(head, history(past))


PAST = [
    (BAD, [BAD, GOOD, GOOD, GOOD], (1, 4), "; failed in 1 of 4 baseline runs"),
    (BAD, [GOOD, TIMED_OUT, BAD, GOOD], (2, 4), "; failed in 2 of 4 baseline runs"),
    (TIMED_OUT, [BAD], (1, 1), "; failed in 1 of 1 baseline run"),
    (BAD, [BAD, None, None, GOOD], (1, 2), "; failed in 1 of 2 baseline runs"),
    (BAD, [GOOD, GOOD], (0, 2), ""),
    (BAD, [CANCELLED, GOOD, GOOD], (0, 2), ""),  # its leg was cancelled: that is no word about it
    (BAD, [None, None], (0, 0), ""),
]


@pytest.mark.parametrize(("now", "past", "counts", "words"), PAST)
def test_transition_reports_its_baseline_failure_rate(
    now: Result, past: list[Result | None], counts: tuple[int, int], words: str
) -> None:
    found = compared(now, past)
    (one,) = [one for one in found.transitions if one.key.unit == "u"]
    assert one.past is not None
    assert (one.past.ended.count("failed"), len(one.past.ended)) == counts
    assert failure_rate_text(one) == words
    for shape in ("text", "markdown", "html"):
        assert FORMATS[shape](found).count("failed in ") == bool(words), shape


def test_fixed_test_has_no_failure_rate() -> None:
    found = compared(GOOD, [BAD, BAD, BAD])
    (one,) = found.transitions
    assert (one.kind, one.past, one.answer, failure_rate_text(one)) == ("fixed", None, None, "")
