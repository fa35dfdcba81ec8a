"""Result files of other projects' own tests, read with the counts that those projects expect.

docs/reference/result-files.md says file by file where ours differ on purpose.
"""

from __future__ import annotations

import io
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from ciguard.codec.results.formats import format_of
from ciguard.codec.unpack_limits import gunzip
from ciguard.errors import InputError
from ciguard.model import Result

ROOT = Path(__file__).parents[3]
RECORDED = ROOT / "tests/samples/recorded"
DOCS = (ROOT / "docs" / "reference" / "result-files.md").read_text("utf-8")
ENTRIES = json.loads((RECORDED / "peers/manifest.json").read_bytes())["files"]

# Ours where not theirs: (tests, failed, errored, skipped), and what the error says, "" if none.
DIFFERENT: dict[str, tuple[tuple[int, int, int, int], str]] = {
    "junit-xml/junit.multiresult.xml": ((4, 1, 1, 1), ""),
    "junit-xml/no-cases-but-tests.xml": ((0, 0, 0, 0), "6 tests, and it holds 0"),
    "junit-xml/xunit/xunit.xml": ((2, 0, 0, 0), "173 tests, and it holds 2"),
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


def read(path: Path) -> tuple[tuple[int, int, int, int], InputError | None, list[Result]]:
    """Return the counts of the last tries, the error, and all results."""
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


def ours(entry: Any) -> str | None:
    return next((name for name in DIFFERENT if entry["upstream"].endswith(name)), None)


@pytest.mark.parametrize(
    "entry", [entry for entry in ENTRIES if not entry["malformed"]], ids=lambda entry: entry["path"]
)
def test_counts_match_the_peer_project_or_the_docs_explain_why(entry: Any) -> None:
    counts, error, _ = read(RECORDED / "peers" / entry["path"])
    different = ours(entry)
    if different is not None:
        expected, states = DIFFERENT[different]
        assert counts == expected
        assert states in error.what if error else not states
        assert f"`{different}`" in DOCS
        return
    assert error is None
    theirs = entry["expected"]
    assert all(one in (None, count) for one, count in zip(theirs, counts, strict=True)), theirs


@pytest.mark.parametrize(
    "entry", [entry for entry in ENTRIES if entry["malformed"]], ids=lambda entry: entry["path"]
)
def test_malformed_file_is_an_error_that_names_the_file(entry: Any) -> None:
    counts, error, _ = read(RECORDED / "peers" / entry["path"])
    if ours(entry) is not None:
        assert error is None
        return
    assert error is not None
    assert error.where.startswith(Path(entry["path"]).name)
    expected, place = CUT.get("/".join(Path(entry["path"]).parts[-2:]), ((0, 0, 0, 0), ""))
    assert counts == expected
    assert error.where.endswith(place)


@pytest.mark.parametrize("name", sorted(OWN))
def test_files_of_real_runners_give_expected_counts(name: str) -> None:
    counts, error, found = read(RECORDED / "own" / name)
    assert (counts, error) == (OWN[name], None)
    stopped = {"jest", "playwright", "vitest"}
    endings = {one.ending for one in found} - {"completed"}
    expected = {"timeout"} if name.partition("-")[0] in stopped else set()
    assert endings == (expected or ({"crash"} if "crash" in name else set()))


def test_any_file_of_any_format_gives_at_most_an_input_error() -> None:
    paths = [path for path in sorted(RECORDED.rglob("*")) if path.is_file()]
    assert len(paths) > 100
    for path in paths:
        read(path)
