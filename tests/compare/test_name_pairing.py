"""Names of two runs that differ in a commit, a version, a date or the number of the run."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ciguard.compare.steps_and_artifacts import AmbiguousName, normalize_name, pair_by_name

# The first is of the issue; others as EnzymeAD/Enzyme-JAX, PyTorch and uv name what they upload.
NORMALIZED = {
    "wheel-torch-2.9.0.dev20261101+cpu-a1b2c3d": "wheel-torch-<version>+cpu-<commit>",
    "julia-environment-1.11-1ac176a9b8b4800bc2753d944eec62a39e6189b8-ap": (
        "julia-environment-<version>-<commit>-ap"
    ),
    "x-v2.1rc1-linux": "x-<version>-linux",
    "app-1.2.3-SNAPSHOT": "app-<version>",
    "app-1.0.0-beta.2_amd64": "app-<version>_amd64",
    "tool-1.2.3-14-gabc1234": "tool-<version>-<commit>",
    "2.9.0a0+git1a2b3c4": "<version>+<commit>",
    "app-1.2.3-a1b2c3d": "app-<version>-<commit>",
    "logs-17051302903": "logs-<run>",
    "report-2026-11-01": "report-<date>",
    "report_20261101T120000Z.txt": "report_<date>.txt",
    "Run actions/checkout@v4": "Run actions/checkout@<version>",
    "Run actions/checkout@11bd71901bbe5b1630ceea73d27597364c9af683": (
        "Run actions/checkout@<commit>"
    ),
    "Set up Python 3.12": "Set up Python <version>",
}
UNCHANGED = (
    *("shard-1", "tests (2 of 12)", "bench-1000000", "cu128", "sha256", "x86_64", "deadbeef"),
    *("coverage-linux", "e2e", "port-8080", "a1b2c3", "1234567", "defaced-effaced", ""),
)


@pytest.mark.parametrize("name", NORMALIZED)
def test_what_differs_from_run_to_run_is_left_out(name: str) -> None:
    assert normalize_name(name) == NORMALIZED[name]


@pytest.mark.parametrize("name", UNCHANGED)
def test_other_numbers_and_words_stay(name: str) -> None:
    assert normalize_name(name) == name


def test_a_commit_of_the_run_needs_no_letter_and_no_digit() -> None:
    own = ("1234567" + "e" * 33, "feedfac" + "0" * 33)
    assert normalize_name("a-1234567-feedfac", own) == "a-<commit>-<commit>"


def paired(before: str, after: str) -> tuple[list[str], list[AmbiguousName], list[str]]:
    """Pairs as "a>b", counts, and names that only one run has as "-a" and "+b"."""
    sides = [[(name, name) for name in side.split()] for side in (before, after)]
    found = pair_by_name(sides[0], sides[1])
    alone = [f"-{name}" for name in found.only_before] + [f"+{name}" for name in found.only_after]
    return [f"{old}>{new}" for old, new in found.pairs], [*found.counts], alone


@pytest.mark.parametrize(
    ("before", "after", "pairs", "counts", "alone"),
    [
        ("wheel-1.0+cpu-a1b2c3d", "wheel-1.1+cpu-f00ba42",
         ["wheel-1.0+cpu-a1b2c3d>wheel-1.1+cpu-f00ba42"], [], []),
        # What follows "+" tells builds apart.
        ("wheel-1.0+cpu", "wheel-1.1+cu128", [], [], ["-wheel-1.0+cpu", "+wheel-1.1+cu128"]),
        # A matrix over versions: equal names first.
        ("py-3.11 py-3.12", "py-3.11 py-3.12", ["py-3.11>py-3.11", "py-3.12>py-3.12"], [], []),
        ("py-3.9 py-3.12", "py-3.12 py-3.13", ["py-3.12>py-3.12", "py-3.9>py-3.13"], [], []),
        ("u-1.9 u-1.10", "u-2.0 u-1.11", ["u-1.9>u-1.11", "u-1.10>u-2.0"], [], []),
        ("x-1.0 x-1.1", "x-1.2", [], [AmbiguousName("", "x-<version>", 2, 1)], []),
        ("same same", "same same", ["same>same", "same>same"], [], []),
        ("same same", "same", [], [AmbiguousName("", "same", 2, 1)], []),
        ("old both", "both new", ["both>both"], [], ["-old", "+new"]),
        ("", "new-1.0", [], [], ["+new-1.0"]),
    ],
)  # fmt: skip
def test_pairs_counts_and_what_is_missing(
    before: str, after: str, pairs: list[str], counts: list[AmbiguousName], alone: list[str]
) -> None:
    assert paired(before, after) == (pairs, counts, alone)


NAMES = st.lists(st.text("ab1.0-v٣²", max_size=9) | st.sampled_from([*NORMALIZED]), max_size=8)


@given(NAMES, NAMES)
def test_each_name_is_used_once(before: list[str], after: list[str]) -> None:
    found = pair_by_name([(one, one) for one in before], [(one, one) for one in after])
    old = sorted([*(one for one, _ in found.pairs), *found.only_before])
    new = sorted([*(one for _, one in found.pairs), *found.only_after])
    counted = [sum(getattr(one, side) for one in found.counts) for side in ("before", "after")]
    assert (len(old) + counted[0], len(new) + counted[1]) == (len(before), len(after))
    assert all(old.count(name) <= before.count(name) for name in old)
    both = {name for name in before if before.count(name) == after.count(name)}
    assert all((name, name) in found.pairs for name in both)
    assert all(normalize_name(one) == normalize_name(two) for one, two in found.pairs)
