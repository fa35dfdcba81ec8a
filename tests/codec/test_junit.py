from __future__ import annotations

import gzip
import io
import json
import os
from collections import Counter
from dataclasses import FrozenInstanceError, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ciguard.codec import junit
from ciguard.codec.base import MAX_MESSAGE_BYTES, head_of, unpacked
from ciguard.codec.formats import FORMATS, format_of
from ciguard.errors import InputError
from ciguard.model import Result

if TYPE_CHECKING:
    from conftest import Golden

ROOT = Path(__file__).parents[2]
SAMPLES = ROOT / "tests" / "samples" / "junit"
SHARED = Path(os.environ.get("CIGUARD_SHARED_DATA", ROOT.parent / "shared" / "data")) / "results"


def read(content: bytes) -> list[Result]:
    return list(junit.read(unpacked(io.BytesIO(content)), "r.xml"))


def read_until_error(content: bytes) -> tuple[list[Result], InputError | None]:
    found: list[Result] = []
    try:
        found.extend(junit.read(unpacked(io.BytesIO(content)), "r.xml"))
    except InputError as error:
        return found, error
    return found, None


def told(result: Result) -> dict[str, Any]:
    values = ((field.name, getattr(result, field.name)) for field in fields(result))
    return {name: value for name, value in values if value is not None and value != ""}


@pytest.mark.parametrize("case", sorted(SAMPLES.iterdir()), ids=lambda case: case.name)
def test_samples(case: Path, golden: Golden) -> None:
    content = (case / "input.xml").read_bytes()
    found: list[Any] = []
    try:
        for result in junit.read(io.BytesIO(content), "input.xml"):
            found.append(told(result))  # noqa: PERF401  # what came before an error counts
    except InputError as error:
        found.append({"error": str(error)})
    golden(json.dumps(found, indent=1, ensure_ascii=False) + "\n", case / "expected.json")


def test_a_result_is_like_any_other() -> None:
    (result,) = read(b'<testsuite><testcase classname="C" name="n" time="0.5"/></testsuite>')
    assert result == Result("C::n", "passed", wall_s=0.5, classname="C", name="n")
    with pytest.raises(FrozenInstanceError):
        result.unit = "other"  # type: ignore[misc]


@pytest.mark.parametrize(
    "attack",
    [
        b'<!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd">]><testsuite><testcase name="&e;"/>',
        b'<!DOCTYPE x [<!ENTITY a "ha"><!ENTITY b "&a;&a;">]><testsuite name="&b;"/>',
        b'<!DOCTYPE testsuite SYSTEM "http://localhost/x.dtd"><testsuite/>',
    ],
    ids=["external", "laughs", "type"],
)
def test_entities_and_document_types_are_refused(attack: bytes) -> None:
    with pytest.raises(InputError, match="document type or an entity") as caught:
        read(attack)
    assert caught.value.where.startswith("r.xml:1:")


def test_one_huge_token_is_refused() -> None:
    parts = [b'<testsuite><testcase name="ok"/><testcase name="', *[b"x" * (1 << 20)] * 6]
    found, error = read_until_error(b"".join(parts))
    assert [result.unit for result in found] == ["ok"]
    assert error is not None
    assert "4 MiB" in error.what


def test_much_text_is_no_huge_token_and_a_message_is_cut() -> None:
    text = b"0123456789abcde\n" * 400_000
    case = b'<testcase name="t"><failure>' + text + b"</failure><system-out>" + text
    (result,) = read(b"<testsuite>" + case + b"</system-out></testcase></testsuite>")
    assert result.message is not None
    assert MAX_MESSAGE_BYTES - 16 < len(result.message.encode()) <= MAX_MESSAGE_BYTES


def test_what_came_before_an_error_is_given_first() -> None:
    found, error = read_until_error(b'<testsuite>\n<testcase name="a"/>\n<testcase name=a/>')
    assert [result.unit for result in found] == ["a"]
    assert error is not None
    assert error.where == "r.xml:3:16"


def test_a_case_inside_a_case_loses_neither() -> None:
    found = read(b'<testcase name="a"><testcase name="b"><failure/></testcase></testcase>')
    assert [(result.unit, result.outcome) for result in found] == [("a", "passed"), ("b", "failed")]


def test_unknown_encodings_are_input_errors() -> None:
    for encoding in (b"klingon", b"gb2312"):
        _, error = read_until_error(
            b'<?xml version="1.0" encoding="' + encoding + b'"?><testsuite/>'
        )
        assert error is not None


def test_gzip_and_damaged_gzip() -> None:
    packed = gzip.compress((SAMPLES / "nested_suites" / "input.xml").read_bytes())
    assert len(read(packed)) == 3
    for end in range(2, len(packed) - 1):
        with pytest.raises(InputError):
            read(packed[:end])


@given(st.binary(max_size=300), st.integers(0, 2000))
@settings(deadline=None)
def test_any_bytes_in_any_place_give_results_or_an_input_error(put: bytes, place: int) -> None:
    content = (SAMPLES / "outcomes" / "input.xml").read_bytes()
    read_until_error(content[:place] + put + content[place:])


def test_utf16_is_sniffed_and_read() -> None:
    content = '<?xml version="1.0" encoding="utf-16"?><testsuite><testcase name="é"/></testsuite>'
    stream = io.BytesIO(content.encode("utf-16"))
    assert format_of(stream, "x") is FORMATS["junit"]
    assert [result.unit for result in junit.read(stream, "x")] == ["é"]


def test_an_unknown_format_names_those_that_there_are() -> None:
    with pytest.raises(InputError, match="no format") as caught:
        format_of(io.BytesIO(b"<html/>"), "x.html")
    assert "junit" in caught.value.fix
    with pytest.raises(InputError, match="gzip"):
        head_of(unpacked(io.BytesIO(b"\x1f\x8bnonsense")), "x")


def peers() -> list[Any]:
    manifest = SHARED / "peers" / "manifest.json"
    if not manifest.is_file():
        return []
    entries = json.loads(manifest.read_bytes())["files"]
    return [entry for entry in entries if entry["format"] == "junit-xml"]


# Where our counting differs on purpose, or the format's deeper variants begin: 7 of 66 well-formed.
DIFFERENT = {
    "junit.multiresult.xml",  # several outcomes in one case: the worst is ours, they count each
    "no-cases-but-tests.xml",  # only totals, no case
    "04-bazel-junit.xml",  # they call an error a failure
    "flaky_all_failures.xml",  # the same case several times: tries or rows
    "flaky_success_first.xml",
    "report.xml",  # they do not count one of the cases
    "test_multiple_errors.xml",  # they call errors failures
}


@pytest.mark.skipif(not SHARED.is_dir(), reason="no shared data here")
def test_the_counts_are_those_of_other_programs() -> None:
    agreed, differed = 0, []
    for entry in peers():
        path = SHARED / "peers" / entry["path"]
        found, error = read_until_error(path.read_bytes())
        if error is not None or not entry["expected"]:
            continue
        expected = entry["expected"]
        prefix = "runs_" if "runs" in expected else ""
        counts = Counter(result.outcome for result in found)
        ours = {
            "tests": len(found),
            "failures": counts["failed"],
            "errors": counts["errored"],
            "skipped": counts["skipped"],
        }
        theirs = {name: expected.get(prefix + name) for name in ours}
        theirs["tests"] = expected["runs"] if prefix else expected.get("tests")
        if all(theirs[name] in (None, number) for name, number in ours.items()):
            agreed += 1
        else:
            differed.append(path.name)
    assert set(differed) <= DIFFERENT
    assert agreed >= 40


@pytest.mark.skipif(not SHARED.is_dir(), reason="no shared data here")
def test_no_file_of_any_format_is_more_than_an_input_error() -> None:
    files = [path for path in SHARED.rglob("*") if path.is_file()]
    assert files
    for path in files:
        read_until_error(path.read_bytes())
