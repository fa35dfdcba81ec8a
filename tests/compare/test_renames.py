"""Tests under another name: which are recognised, and which are not."""

from __future__ import annotations

import pytest
from compare.compare_factories import case, died, run_of
from guard.fixtures import make_plan

from ciguard.compare.command import FORMATS
from ciguard.compare.compare_runs import compare_run
from ciguard.compare.transitions import match_renames
from ciguard.compare.wording import case_text
from ciguard.model import Result, UnitKey

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


OUTCOMES = [
    ("passed", "passed", "renamed"),
    ("passed", "failed", "newly_failing"),
    ("failed", "failed", "failing_on_both"),
    ("failed", "passed", "fixed"),
    ("passed", "skipped", "newly_skipped"),
]


@pytest.mark.parametrize(("before", "after", "kind"), OUTCOMES)
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
