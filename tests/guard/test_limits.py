"""Absolute limits of tests: which passed tests are above one, and where the run says so."""

from __future__ import annotations

from typing import Any

import pytest
from guard.fixtures import World, passed, text_of

from ciguard.config.file import parse
from ciguard.errors import CiguardError
from ciguard.guard.annotations_and_outputs import annotations_of
from ciguard.guard.github_facts import NeededJob
from ciguard.guard.headline import headline
from ciguard.guard.json import as_json
from ciguard.guard.limits import check_limits
from ciguard.guard.verdict import Limit, Policy
from ciguard.guard.wording import finding_message
from ciguard.model import UnitKey
from ciguard.model.attempts import resolve_attempts

GIB = 1 << 30
LIMITS = (Limit("slow/*", time_s=60.0), Limit("*", GIB, 10.0))
OF = ("limits.0 (slow/*)", "limits.1 (*)")
CHILDREN = {"rss_before_bytes": GIB, "peak_lower_bytes": 3 * GIB}


@pytest.mark.parametrize(
    ("unit", "measured", "message"),
    [
        ("t", {"peak_delta_bytes": GIB, "wall_s": 10.0}, ""),
        ("t", {"peak_delta_bytes": 3 * GIB}, "is above its limit, 3.00 GiB of 1.00 GiB: {1}"),
        ("t", {"wall_s": 12.0}, "is above its limit, 12 s of 10 s: {1}"),
        (
            "t",
            {"peak_delta_bytes": 3 * GIB, "wall_s": 65.0},
            "is above its limit, 3.00 GiB of 1.00 GiB, 1 min 05 s of 10 s: {1}",
        ),
        ("slow/t", {"peak_delta_bytes": 3 * GIB, "wall_s": 50.0}, ""),
        ("slow/t", {"wall_s": 61.0}, "is above its limit, 1 min 01 s of 1 min 00 s: {0}"),
        ("t", {**CHILDREN, "peak_delta_bytes": 5}, "is above its limit, 2.00 GiB of 1.00 GiB: {1}"),
        ("t", {**CHILDREN, "peak_lower_bytes": 2 * GIB, "peak_upper_bytes": 9 * GIB}, ""),
        ("t", {"peak_lower_bytes": 3 * GIB}, ""),
        ("t", {"peak_delta_bytes": 3 * GIB, "concurrent": 2}, ""),
        # A worker of xdist.
        (
            "t",
            {"peak_delta_bytes": 3 * GIB, "concurrent": 2, "measured_by": "mark_untrimmed"},
            "is above its limit, 3.00 GiB of 1.00 GiB: {1}",
        ),
        ("t", {"wall_s": 11.0, "outcome": "skipped"}, ""),
        ("t", {"wall_s": 11.0, "outcome": "failed", "message": "assert"}, ""),
    ],
)
def test_passed_tests_above_their_first_limit(
    unit: str, measured: dict[str, Any], message: str
) -> None:
    units = {UnitKey("a", "", unit): resolve_attempts([passed(unit, suite="a", **measured)])}
    found = check_limits(units, {"a": LIMITS, "other": (Limit("*", 0, 0.001),)})
    text = f"[a] {unit} {message.format(*(f'suite.a.{entry}' for entry in OF))}"
    assert [finding_message(one) for one in found if one.level == "failed"] == [text] * bool(
        message
    )


def test_file_is_above_a_limit_where_its_tests_share_one_peak() -> None:
    shared = {"rss_before_bytes": 0, "peak_lower_bytes": 3 * GIB}
    cases = [passed("a.js", case=name, suite="a", **shared) for name in ("large", "empty")]
    units = {UnitKey("a", "", "a.js"): resolve_attempts(cases)}
    unused, above = map(finding_message, check_limits(units, {"a": LIMITS}))
    assert unused == "suite.a.limits.0: slow/* matches no test of the run"
    assert above == "[a] a.js is above its limit, 3.00 GiB of 1.00 GiB: suite.a.limits.1 (*)"


@pytest.mark.parametrize(
    ("limits", "measured", "messages"),
    [
        (("t?", "x"), {}, ["1: x matches no test of the run"]),
        (("*", "t*"), {}, ["1: t* matches no test of the run except 2 tests of earlier entries"]),
        (("t*",), {"outcome": "skipped"}, []),
    ],
)
def test_limits_without_effect_are_warnings(
    limits: tuple[str, ...], measured: dict[str, Any], messages: list[str]
) -> None:
    units = {
        UnitKey("a", "", name): resolve_attempts([passed(name, suite="a", **measured)])
        for name in ("t1", "t2")
    }
    found = list(check_limits(units, {"a": [Limit(units, time_s=9.0) for units in limits]}))
    assert [finding_message(one) for one in found] == [f"suite.a.limits.{one}" for one in messages]
    assert {finding.level for finding in found} <= {"warning"}
    found = list(check_limits(units, {"a": [Limit("*", memory_bytes=1)]}))
    text = "suite.a.limits.0: its 2 tests have no measured memory (*)"
    assert list(map(finding_message, found)) == [text] * ("outcome" not in measured)


def test_furthest_tests_of_an_entry_are_named_and_the_others_counted() -> None:
    tests = [f"t{n}" for n in range(9)]
    units = {
        UnitKey("a", "", test): resolve_attempts([passed(test, suite="a", wall_s=11.0 + number)])
        for number, test in enumerate(tests)
    }
    messages = list(map(finding_message, check_limits(units, {"a": [Limit("*", time_s=10.0)]})))
    assert [message.split()[1] for message in messages[:5]] == tests[:3:-1]
    assert messages[5:] == ["4 more tests are above suite.a.limits.0 (*)"]


def run_with_limit(needs: str = "success") -> World:
    """A run of eight passed tests, of which one is above its limit."""
    world = World(policy=Policy(limits={"": (Limit("a.t::*", GIB),)}))
    world.result("01", "a.t::two", wall_s=1.0, peak_delta_bytes=2 * GIB)
    world.needs = (NeededJob("tests", needs),)
    return world


def test_test_above_its_limit_fails_the_run_and_says_why() -> None:
    verdict = run_with_limit().prove()
    reason = 'a.t::two is above its limit, 2.00 GiB of 1.00 GiB: suite."".limits.0 (a.t::*)'
    assert (verdict.state, headline(verdict)) == ("failed", f"FAILED: {reason}")
    assert reason in " ".join(text_of(verdict).split())
    (finding,) = as_json(verdict)["findings"]
    assert (finding["level"], finding["facts"]["peak_bytes"]) == ("failed", 2 * GIB)
    assert [(one.level, one.message) for one in annotations_of(verdict)] == [("error", reason)]


def test_headline_sums_up_tests_above_a_limit_beside_failed_ones() -> None:
    world = run_with_limit("failure")
    world.result("02", "c.t::four", outcome="failed", message="assert")
    assert headline(world.prove()).startswith("FAILED: 1 of 8 tests failed; a.t::two is above its")
    world.result("01", "a.t::one", wall_s=1.0, peak_delta_bytes=2 * GIB)
    text = "FAILED: 1 of 8 tests failed; 2 tests above a limit"
    assert headline(world.prove()) == text


def test_test_above_its_limit_explains_no_failed_job() -> None:
    verdict = run_with_limit("failure").prove()
    assert verdict.state == "incomplete"
    assert [finding.kind for finding in verdict.findings] == ["job_unexplained", "above_limit"]


def test_entry_without_limit_and_zero_time_are_mistakes() -> None:
    text = b'[[suite.a.limits]]\nunits = "x"\n'
    with pytest.raises(CiguardError, match=r"suite\.a\.limits\.0: declares nothing\n.*time"):
        parse({"ciguard.toml": text}, {})
    for key in ("time", "memory"):
        with pytest.raises(CiguardError, match=rf"suite\.a\.limits\.0\.{key}: expected .* 0"):
            parse({"ciguard.toml": text + f"{key} = 0\n".encode()}, {})
