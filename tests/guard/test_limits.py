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
CHILDREN = {"rss_before_bytes": GIB, "peak_lower_bytes": 3 * GIB}


@pytest.mark.parametrize(
    ("unit", "measured", "message"),
    [
        ("t", {"peak_delta_bytes": GIB, "wall_s": 10.0}, ""),
        ("t", {"peak_delta_bytes": 3 * GIB}, "took 3.00 GiB, limit 1.00 GiB; {} 2"),
        ("t", {"wall_s": 12.0}, "took 12 s, limit 10 s; {} 2"),
        (
            "t",
            {"peak_delta_bytes": 3 * GIB, "wall_s": 65.0},
            "took 3.00 GiB, limit 1.00 GiB; 1 min 05 s, limit 10 s; {} 2",
        ),
        ("slow/t", {"peak_delta_bytes": 3 * GIB, "wall_s": 50.0}, ""),
        ("slow/t", {"wall_s": 61.0}, "took 1 min 01 s, limit 1 min 00 s; {} 1"),
        ("t", {**CHILDREN, "peak_delta_bytes": 5}, "took 2.00 GiB, limit 1.00 GiB; {} 2"),
        ("t", {**CHILDREN, "peak_lower_bytes": 2 * GIB, "peak_upper_bytes": 9 * GIB}, ""),
        ("t", {"peak_lower_bytes": 3 * GIB}, ""),
        ("t", {"peak_delta_bytes": 3 * GIB, "concurrent": 2}, ""),
        ("t", {"wall_s": 11.0, "outcome": "skipped"}, ""),
        ("t", {"wall_s": 11.0, "outcome": "failed", "message": "assert"}, ""),
        ("t", {"wall_s": 11.0, "outcome": "died", "ending": "deadline"}, ""),
    ],
)
def test_passed_tests_above_their_first_limit(
    unit: str, measured: dict[str, Any], message: str
) -> None:
    units = {UnitKey("a", "", unit): resolve_attempts([passed(unit, suite="a", **measured)])}
    found = check_limits(units, {"a": LIMITS, "other": (Limit("*", 0, 0.001),)})
    text = f"[a] {unit} {message.format('by suite.a.limits, entry')}"
    assert list(map(finding_message, found)) == ([text] if message else [])


def run_with_limit(needs: str = "success") -> World:
    """A run of eight passed tests, of which one is above its limit."""
    world = World(policy=Policy(limits={"": (Limit("a.t::*", GIB),)}))
    world.result("01", "a.t::two", wall_s=1.0, peak_delta_bytes=2 * GIB)
    world.needs = (NeededJob("tests", needs),)
    return world


def test_test_above_its_limit_fails_the_run_and_says_why() -> None:
    verdict = run_with_limit().prove()
    reason = 'a.t::two took 2.00 GiB, limit 1.00 GiB; by suite."".limits, entry 1'
    assert (verdict.state, headline(verdict)) == ("failed", f"FAILED: {reason}")
    assert reason in " ".join(text_of(verdict).split())
    (finding,) = as_json(verdict)["findings"]
    assert (finding["level"], finding["facts"]["peak_bytes"]) == ("failed", 2 * GIB)
    assert [(one.level, one.message) for one in annotations_of(verdict)] == [("error", reason)]


def test_headline_sums_up_tests_above_a_limit_beside_failed_ones() -> None:
    world = run_with_limit("failure")
    world.result("02", "c.t::four", outcome="failed", message="assert")
    assert headline(world.prove()).startswith("FAILED: 1 of 8 tests failed; a.t::two took 2.00 GiB")
    world.result("01", "a.t::one", wall_s=1.0, peak_delta_bytes=2 * GIB)
    text = "FAILED: 1 of 8 tests failed; 2 tests took more than a limit"
    assert headline(world.prove()) == text


def test_test_above_its_limit_explains_no_failed_job() -> None:
    verdict = run_with_limit("failure").prove()
    assert verdict.state == "incomplete"
    assert [finding.kind for finding in verdict.findings] == ["job_unexplained", "above_limit"]


def test_entry_without_limit_and_zero_time_are_mistakes() -> None:
    text = b'[[suite.a.limits]]\nunits = "x"\n'
    with pytest.raises(CiguardError, match=r"suite\.a\.limits\.0: declares nothing\n.*time"):
        parse({"ciguard.toml": text}, {})
    with pytest.raises(CiguardError, match=r"suite\.a\.limits\.0\.time: expected .* 0"):
        parse({"ciguard.toml": text + b"time = 0\n"}, {})
