"""Result files of other projects' own tests, read with the counts that those projects expect.

They lie in a folder of their own, under their own licences, and are not part of this project.
docs/reference/result-files.md says file by file where ours differ on purpose.
"""

from __future__ import annotations

import io
import json
import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ciguard.codec.results.base import gunzip
from ciguard.codec.results.formats import format_of
from ciguard.errors import InputError

if TYPE_CHECKING:
    from ciguard.model import Result

ROOT = Path(__file__).parents[3]
SHARED = Path(os.environ.get("CIGUARD_SHARED_DATA", ROOT.parent / "shared" / "data")) / "results"
DOCS = (ROOT / "docs" / "reference" / "result-files.md").read_text("utf-8")

pytestmark = pytest.mark.skipif(
    not (SHARED / "peers" / "manifest.json").is_file(),
    reason=f"no result files of other projects at {SHARED}; CIGUARD_SHARED_DATA says where",
)

# Ours where not theirs: (tests, failed, errored, skipped), and what the error says, "" if none.
DIFFERENT: dict[str, tuple[tuple[int, int, int, int], str]] = {
    "jenkinsci/testcase2.xml": ((1, 0, 0, 0), "3 tests, and it holds 1"),
    "jenkins/NUnit-issue33493.xml": ((2, 0, 0, 1), ""),
    "junit-xml/junit.multiresult.xml": ((4, 1, 1, 1), ""),
    "junit-xml/no-cases-but-tests.xml": ((0, 0, 0, 0), "6 tests, and it holds 0"),
    "junit-xml/xunit/xunit.xml": ((2, 0, 0, 0), "173 tests, and it holds 2"),
    "ctrf-reports/ctrf-report.json": ((10, 2, 0, 2), "1 of 10 tests have no result"),
    "fixtures/junit-with-message.xml": ((1, 1, 0, 0), "6 tests, and it holds 1"),
    "fixtures/python-xunit-pytest.xml": ((10, 2, 0, 2), "15 tests, and it holds 10"),
    "junit/04-bazel-junit.xml": ((2, 0, 1, 0), ""),
    "flaky_retries/flaky_all_failures.xml": ((3, 2, 1, 0), ""),
    "flaky_retries/flaky_success_first.xml": ((3, 1, 1, 0), ""),
    "junit-server-test/report.xml": ((4, 1, 0, 1), ""),
    "junit-web-test/expected.xml": ((0, 0, 0, 0), "malformed XML"),
    "junit-web-test/expectedRetries.xml": ((0, 0, 0, 0), "malformed XML"),
    "mocha/mocha.xml": ((1, 0, 0, 0), "15,515 tests, and it holds 1"),
    "multiple/test_12.xml": ((3, 0, 0, 1), "8 tests, and it holds 3"),
    "multiple_failures/test_multiple_errors.xml": ((3, 0, 2, 0), ""),
    "subfolder/invalid-no-tests.xml": ((0, 0, 0, 0), ""),
}
CUT = {  # malformed for everybody: what stands before the damage
    "pytest/corrupt-xml.xml": ((1, 0, 0, 0), ":11:22"),
    "sf-reports/TEST-test.CorruptTest.xml": ((1, 1, 0, 0), ":18:26"),
}
OWN = {
    "ctest-junit.xml": (7, 4, 0, 2),
    "gotestsum-junit.xml": (6, 3, 0, 1),
    "gtest.xml": (6, 2, 0, 2),
    "jest-junit.xml": (5, 2, 0, 1),
    "playwright-junit.xml": (6, 1, 1, 2),
    "pytest-empty.xml": (0, 0, 0, 0),
    "pytest-xdist-worker-crash.xml": (3, 0, 1, 0),
    "pytest-xunit1-xdist.xml": (14, 2, 2, 2),
    "pytest-xunit2.xml": (15, 2, 3, 2),
    "vitest-junit.xml": (6, 2, 0, 2),
}


def entries() -> list[Any]:
    manifest = SHARED / "peers" / "manifest.json"
    return json.loads(manifest.read_bytes())["files"] if manifest.is_file() else []


def read(path: Path) -> tuple[tuple[int, int, int, int], InputError | None, list[Result]]:
    """Counts of the last tries, and the error."""
    found: list[Result] = []
    error: InputError | None = None
    try:
        stream = gunzip(io.BytesIO(path.read_bytes()))
        found.extend(format_of(stream, path.name).read(stream, path.name))
    except InputError as caught:
        error = caught
    last: dict[Any, int] = {}
    for one in found:
        last[one.key] = max(one.try_number, last.get(one.key, 0))
    final = [one for one in found if one.try_number == last[one.key]]
    counts = Counter(one.outcome for one in final)
    return (len(final), counts["failed"], counts["errored"], counts["skipped"]), error, found


# Formats that are not read: NUnit 2 (its last version is of 2016), TAP, and JSON of Dart and Mocha.
NOT_READ = {"nunit2-xml", "tap", "dart-json", "mocha-json", "mochawesome-json"}
# Peers that have one number for failures and errors.
WITHOUT_ERRORS = {"test-summary/action", "mikepenz/action-junit-report"}
# Where no way of counting agrees; docs/reference/result-files.md says why.
DIFFERING = {"junit-xml/no-cases-but-tests.xml", "flaky_retries/flaky_success_first.xml"}
TEMPLATES = {"junit-web-test/expected.xml", "junit-web-test/expectedRetries.xml"}
BY_SEVERITY = ("passed", "skipped", "failed", "errored", "died")


def count_names(found: list[Result]) -> tuple[int, int, int, int]:
    """Counts of distinct tests, each with its worst outcome, as the history keeps them."""
    worst: dict[str, str] = {}
    for one in found:
        worst[one.unit] = max(worst.get(one.unit, "passed"), one.outcome, key=BY_SEVERITY.index)
    counts = Counter(worst.values())
    return len(worst), counts["failed"], counts["errored"], counts["skipped"]


def classify(entry: Any) -> str:
    """How a file of the manifest compares: rows with what the peer calls runs, names with tests."""
    if entry["malformed"]:
        return "malformed"
    if entry["format"] in NOT_READ:
        return "not read"
    if any(entry["path"].endswith(f"/{name}") for name in TEMPLATES):
        return "template"
    if entry["expected"] is None:
        return "no numbers"
    counts, _, found = read(SHARED / "peers" / entry["path"])
    for prefix, numbers in (("runs_", counts), ("", counts), ("", count_names(found))):
        total = entry["expected"].get(prefix.removesuffix("_") or "tests")
        names = ("failures", "errors", "skipped")
        theirs = [total, *(entry["expected"].get(prefix + name) for name in names)]
        tests, failed, errored, skipped = numbers
        own = numbers
        if entry["peer"] in WITHOUT_ERRORS:
            own, theirs[2] = (tests, failed + errored, 0, skipped), None
        if total is not None and all(a in (None, b) for a, b in zip(theirs, own, strict=True)):
            return "agrees"
    return "differs"


def test_97_percent_of_the_files_with_numbers_agree() -> None:
    kinds = {entry["path"]: classify(entry) for entry in entries()}
    assert Counter(kinds.values()) == {
        "agrees": 74,
        "differs": 2,
        "no numbers": 14,
        "template": 2,
        "malformed": 13,
        "not read": 23,
    }
    differing = [path for path, kind in kinds.items() if kind == "differs"]
    assert {ours(path) for path in differing} == DIFFERING
    assert "74 of 76" in DOCS


def ours(path: str) -> str | None:
    return next((name for name in DIFFERENT if path.endswith(f"/{name}")), None)


READ = (
    *("junit-xml", "trx", "nunit3-xml", "xunit-xml", "go-test-json", "rspec-json", "ctrf-json"),
)
WELL_FORMED = [one for one in entries() if one["format"] in READ and not one["malformed"]]


@pytest.mark.parametrize("entry", WELL_FORMED, ids=lambda entry: Path(entry["path"]).name)
def test_counts_match_the_peer_project_or_the_docs_explain_why(entry: Any) -> None:
    counts, error, _ = read(SHARED / "peers" / entry["path"])
    different = ours(entry["path"])
    if different is not None:
        expected, states = DIFFERENT[different]
        assert counts == expected
        assert states in error.what if error else not states
        assert f"`{different}`" in DOCS
        return
    assert error is None
    theirs = entry["expected"] or {}
    prefix = "runs_" if "runs" in theirs else ""
    named = ("failures", "errors", "skipped")
    reported = (
        theirs.get("runs", theirs.get("tests")),
        *(theirs.get(prefix + one) for one in named),
    )
    assert all(one in (None, count) for one, count in zip(reported, counts, strict=True)), reported


@pytest.mark.parametrize(
    "entry",
    [one for one in entries() if one["malformed"] and one["format"] != "tap"],
    ids=lambda entry: Path(entry["path"]).name,
)
def test_malformed_file_is_an_error_that_names_the_file(entry: Any) -> None:
    counts, error, _ = read(SHARED / "peers" / entry["path"])
    if ours(entry["path"]) is not None:
        assert error is None
        return
    assert error is not None
    assert error.where.startswith(Path(entry["path"]).name)
    cut = next((one for name, one in CUT.items() if entry["path"].endswith(name)), None)
    expected, place = cut or ((0, 0, 0, 0), "")
    assert counts == expected
    assert error.where.endswith(place)


@pytest.mark.parametrize("name", sorted(OWN))
def test_files_of_real_runners_give_expected_counts(name: str) -> None:
    counts, error, found = read(SHARED / "own" / name)
    assert (counts, error) == (OWN[name], None)
    stopped = {"jest", "playwright", "vitest"}
    endings = {one.ending for one in found} - {"completed"}
    expected = {"timeout"} if name.partition("-")[0] in stopped else set()
    assert endings == (expected or ({"crash"} if "crash" in name else set()))


def test_any_file_of_any_format_gives_at_most_an_input_error() -> None:
    paths = [path for path in sorted(SHARED.rglob("*")) if path.is_file()]
    assert len(paths) > 100
    for path in paths:
        read(path)
