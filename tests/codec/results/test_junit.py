from __future__ import annotations

import gzip
import io
from dataclasses import FrozenInstanceError
from pathlib import Path

import pytest
from codec.results.reading import read_until_error

from ciguard.codec.results import junit
from ciguard.codec.results.base import MAX_MESSAGE_BYTES, peek
from ciguard.codec.results.formats import FORMATS, format_of
from ciguard.codec.unpack_limits import gunzip
from ciguard.errors import InputError
from ciguard.model import Result

ROOT = Path(__file__).parents[3]
SAMPLES = ROOT / "tests" / "samples" / "junit"


def read(content: bytes) -> list[Result]:
    return list(junit.read(gunzip(io.BytesIO(content)), "results"))


def test_result_is_a_frozen_value() -> None:
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
    assert caught.value.where.startswith("results:1:")


def test_huge_token_is_rejected_after_earlier_results() -> None:
    parts = [b'<testsuite><testcase name="ok"/><testcase name="', *[b"x" * (1 << 20)] * 6]
    found, error = read_until_error(junit.read, b"".join(parts))
    assert [result.unit for result in found] == ["ok"]
    assert error is not None
    assert "4 MiB" in error.what


def test_long_text_is_accepted_and_message_truncated() -> None:
    text = b"0123456789abcde\n" * 400_000
    case = b'<testcase name="t"><failure>' + text + b"</failure><system-out>" + text
    (result,) = read(b"<testsuite>" + case + b"</system-out></testcase></testsuite>")
    assert result.message is not None
    assert MAX_MESSAGE_BYTES - 16 < len(result.message.encode()) <= MAX_MESSAGE_BYTES


def test_results_before_a_syntax_error_are_yielded() -> None:
    found, error = read_until_error(
        junit.read, b'<testsuite>\n<testcase name="a"/>\n<testcase name=a/>'
    )
    assert [result.unit for result in found] == ["a"]
    assert error is not None
    assert error.where == "results:3:16"


def test_nested_cases_are_both_read() -> None:
    found = read(b'<testcase name="a"><testcase name="b"><failure/></testcase></testcase>')
    assert [(result.unit, result.outcome) for result in found] == [("a", "passed"), ("b", "failed")]


def test_unknown_encodings_are_input_errors() -> None:
    for encoding in (b"klingon", b"gb2312"):
        _, error = read_until_error(
            junit.read, b'<?xml version="1.0" encoding="' + encoding + b'"?><testsuite/>'
        )
        assert error is not None


def test_gzip_and_damaged_gzip() -> None:
    packed = gzip.compress((SAMPLES / "nested_suites" / "input.xml").read_bytes())
    assert len(read(packed)) == 3
    for end in range(2, len(packed) - 1):
        with pytest.raises(InputError):
            read(packed[:end])


def test_utf16_is_sniffed_and_read() -> None:
    content = '<?xml version="1.0" encoding="utf-16"?><testsuite><testcase name="é"/></testsuite>'
    stream = io.BytesIO(content.encode("utf-16"))
    assert format_of(stream, "x") is FORMATS["junit"]
    assert [result.unit for result in junit.read(stream, "x")] == ["é"]


def test_unknown_format_error_lists_the_formats() -> None:
    with pytest.raises(InputError, match="no format") as caught:
        format_of(io.BytesIO(b"<html/>"), "x.html")
    assert "junit" in caught.value.fix
    with pytest.raises(InputError, match="the root <test-run>") as caught:
        format_of(io.BytesIO(b"<test-run id='2'/>"), "TestResult.xml")
    assert "--logger trx" in caught.value.fix
    with pytest.raises(InputError, match="gzip"):
        peek(gunzip(io.BytesIO(b"\x1f\x8bnonsense")), "x")


def test_forbidden_xml_characters_do_not_end_the_file() -> None:
    for place in range(65_480, 65_540):
        text = b"x" * place + b"\x1b[31mred&#x1B;[0m&#27;&amp;&#9;\x00"
        content = b'<testsuite><testcase name="a"><failure>' + text
        found = read(content + b'</failure></testcase><testcase name="b"/></testsuite>')
        assert [result.unit for result in found] == ["a", "b"]
    content = b'<testcase name="\x1b[31mred&#27;[0m&#32;&#x1F600;&amp;"/>'
    (result,) = read(content)
    assert result.name == "?[31mred?[0m \U0001f600&"
    (result,) = read(b'<testcase name="ends with &#x41;"/>')
    assert result.name == "ends with A"


@pytest.mark.parametrize(
    ("inside", "states"),
    [
        ('<testcase name="a"><j:failure/></testcase>', "<j:failure> is not how <failure>"),
        ('<testcase name="a"><Failure/></testcase>', "<Failure> is not how <failure>"),
        ('<testcase name="a"><ERROR/></testcase>', "<ERROR> is not how <error>"),
        ('<testcase name="a"><j:rerunError/></testcase>', "is not how <rerunError>"),
        ('<testcase name="a"/><TestCase name="b"/>', "<TestCase> is not how <testcase>"),
        ('<testcase name="a"/><j:testcase name="b"/>', "<j:testcase> is not how <testcase>"),
        ('<TestSuite errors="1"/>', "<TestSuite> is not how <testsuite>"),
        ('<testsuite errors="1"/><testcase name="a"/>', "1 failed, and it holds 0"),
        ('<testsuite tests="2"><testcase name="a"/></testsuite>', "2 tests, and it holds 1"),
        (
            '<testsuite failures="3"><testcase name="a"/><testcase name="b"><failure/></testcase>'
            "</testsuite>",
            "3 failed, and it holds 1",
        ),
        (
            '<testsuite failures="1" errors="1"><testcase name="a"><error/></testcase>'
            '<testcase name="b"><system-err>error: failure</system-err></testcase></testsuite>',
            "2 failed, and it holds 1",
        ),
    ],
)
def test_misspelled_elements_and_wrong_counters_are_errors(inside: str, states: str) -> None:
    _, error = read_until_error(
        junit.read, f'<testsuite xmlns:j="urn:j">{inside}</testsuite>'.encode()
    )
    assert error is not None
    assert states in error.what
    assert error.where.startswith("results:1:")
    assert error.fix


@pytest.mark.parametrize(
    "word", ["error", "Errored", "BROKEN", "timeout", "timedOut", "aborted", "incomplete"]
)
def test_status_other_than_passed_is_errored(word: str) -> None:
    for more in ("", ' classname="C"', ' classname="C" time="1"'):
        case = f'<testcase name="t" status="{word}"{more}/>'
        (result,) = read(f"<testsuite>{case}</testsuite>".encode())
        assert result.outcome == "errored"


@pytest.mark.parametrize(
    ("suite", "outcomes"),
    [
        ('tests="2" failures="0" errors="0" skipped="0" time="0"', ["passed"]),
        ('tests="2" failures="0" errors="0" skipped="0" time="0.01"', ["passed", "passed"]),
        # Playwright and pytest write the same attributes in another order.
        ('tests="2" failures="0" skipped="0" time="0" errors="0"', ["passed", "passed"]),
        ('tests="2" failures="0" errors="0" time="0"', ["passed", "passed"]),
    ],
)
def test_zero_time_means_no_result_only_in_vitest_files(suite: str, outcomes: list[str]) -> None:
    more = 'name="t.js" timestamp="" hostname=""'
    cases = '<testcase name="a" time="0.2"/><testcase name="b" time="0"/>'
    content = f"<testsuites><testsuite {more} {suite}>{cases}</testsuite></testsuites>"
    found, error = read_until_error(junit.read, content.encode())
    assert [result.outcome for result in found] == outcomes
    assert (error is not None) == (len(outcomes) == 1)


@pytest.mark.parametrize("file", ["a.test-d.ts", "b.spec-d.mts", "c.test-d.tsx"])
def test_type_tests_of_vitest_run_nothing_and_take_no_time(file: str) -> None:
    """Measured with Vitest 4.1 and `typecheck.enabled`."""
    suite = f'name="{file}" timestamp="" hostname="" tests="1" failures="0" errors="0" skipped="0"'
    content = f'<testsuite {suite} time="0"><testcase name="types" time="0"/></testsuite>'
    (result,) = read(content.encode())
    assert result.outcome == "passed"


def test_suite_in_a_file_of_vitest_may_have_no_time() -> None:
    more = 'name="t.js" timestamp="" hostname="" tests="1" failures="0" errors="0" skipped="0"'
    inner = '<testsuite name="in it"><testcase name="a" time="0"/></testsuite>'
    (result,) = read(f'<testsuite {more} time="0.1">{inner}</testsuite>'.encode())
    assert result.outcome == "passed"


CTEST = 'name="(empty)" tests="1" failures="0" disabled="0" skipped="1" hostname="" time="0"'


@pytest.mark.parametrize(
    ("suite", "status", "message", "outcome"),
    [
        (f'{CTEST} timestamp=""', "notrun", "Unable to find executable", "failed"),
        (f'{CTEST} timestamp=""', "notrun", "Fixture dependency failed", "failed"),
        (f'{CTEST} timestamp=""', "notrun", "SKIP_RETURN_CODE=77", "skipped"),
        (f'{CTEST} timestamp=""', "notrun", "", "skipped"),
        (f'{CTEST} timestamp=""', "run", "Unable to find executable", "skipped"),
        (CTEST, "notrun", "Unable to find executable", "skipped"),
    ],
)
def test_skip_that_ctest_counts_as_failed_is_a_failure(
    suite: str, status: str, message: str, outcome: str
) -> None:
    case = f'<testcase name="t" classname="t" time="0" status="{status}">'
    skip = f'<skipped message="{message}"/></testcase>'
    (result,) = read(f"<testsuite {suite}>{case}{skip}</testsuite>".encode())
    assert (result.outcome, result.message or "") == (outcome, message)


PLAYWRIGHT = 'id="" name="" tests="1" failures="0" skipped="1" errors="0" time="1"'


@pytest.mark.parametrize(
    ("root", "classname", "properties", "outcome"),
    [
        (PLAYWRIGHT, "a.js", "", "died"),
        (PLAYWRIGHT, "a.js", '<property name="serial" value=""/>', "died"),
        (PLAYWRIGHT, "a.js", '<property name="skip" value="no GPU"/>', "skipped"),
        (PLAYWRIGHT, "a.js", '<property name="tag"/><property name="fixme"/>', "skipped"),
        (PLAYWRIGHT, "a.js › t", "", "skipped"),  # 1.30 and older, without properties
        ('name="" tests="1"', "a.js", "", "skipped"),
    ],
)
def test_skip_without_a_reason_was_not_run_by_playwright(
    root: str, classname: str, properties: str, outcome: str
) -> None:
    case = f'<testcase name="t" classname="{classname}" time="0">'
    inside = f"{case}<properties>{properties}</properties><skipped></skipped></testcase>"
    before = '<testcase name="s" classname="a.js"><properties><property name="skip"/></properties>'
    suite = f'<testsuite name="a.js" tests="2">{before}<skipped/></testcase>{inside}</testsuite>'
    found, error = read_until_error(junit.read, f"<testsuites {root}>{suite}</testsuites>".encode())
    assert [result.outcome for result in found] == ["skipped", outcome]
    not_run = "Playwright did not run 1 of 2 tests" if outcome == "died" else None
    assert (error.what if error else None) == not_run


def test_time_in_nanoseconds_is_not_measured() -> None:
    (result,) = read(b'<testsuite><testcase name="a" time="548392417"/></testsuite>')
    assert result.wall_s is None


def test_libtest_counts_ignored_tests_that_it_does_not_list() -> None:
    suite = '<testsuite name="t" package="t" id="0" errors="0" failures="0" tests="{}" skipped="1">'
    case = '<testcase classname="m" name="t" time="0"/></testsuite>'
    assert read_until_error(junit.read, f"{suite.format(2)}{case}".encode())[1] is None
    _, error = read_until_error(junit.read, f"{suite.format(3)}{case}".encode())
    assert error is not None


def test_stderr_text_does_not_change_the_outcome() -> None:
    (result,) = read(
        b"<testsuite><testcase name='t'><system-err>FAILED</system-err></testcase>"
        b"<system-err>java.lang.OutOfMemoryError</system-err></testsuite>"
    )
    assert (result.outcome, result.ending) == ("passed", "completed")


@pytest.mark.parametrize(
    ("case", "states"),
    [
        ('<testcase name="b" status="crashed"/>', "status='crashed' of a case is none that is"),
        ('<testcase name="b" status="run" result="weird"/>', "result='weird' of a case is none"),
        ('<testcase classname="a.b"/>', "a case of 'a.b' has no name"),
        ('<testsuite tests="some"/>', "the counter tests='some' is no number"),
        ('<testsuite failures="?"/>', "the counter failures='?' is no number"),
        ('<testsuite errors="-1"/>', "the counter errors='-1' is no number"),
    ],
)
def test_unknown_status_or_invalid_counter_is_an_error_with_its_line(
    case: str, states: str
) -> None:
    text = f'<testsuite>\n<testcase name="ok"/>\n{case}\n</testsuite>'
    found, error = read_until_error(junit.read, text.encode())
    assert [result.unit for result in found] == ["ok"]
    assert error is not None
    assert states in error.what
    assert error.where.startswith("results:3:")


def test_properties_are_skipped_and_hide_no_case() -> None:
    some = '<properties><property name="a" value="b"/><property name="c">d</property></properties>'
    bare = '<testsuite tests="2"><testcase name="a"/><testcase name="b"><failure/></testcase>'
    full = bare.replace("<testcase", f"{some}<testcase").replace("<failure/>", f"{some}<failure/>")
    assert read(f"{full}{some}</testsuite>".encode()) == read(f"{bare}</testsuite>".encode())
    for hidden in ("<failure/>", "<j:Error/>", "<testcase/>", "<testsuite/>"):
        inside = f"<testsuite><testcase name='a'><properties>{hidden}</properties></testcase>"
        found, error = read_until_error(junit.read, inside.encode())
        assert found == []
        assert error is not None
        assert "among <properties>" in error.what


def test_known_status_values_and_counters_are_read() -> None:
    words = {"passed": ("run", "PASSED", " ok ", "", "success"), "skipped": ("untested", "NotRun")}
    for outcome, output in words.items():
        for word in output:
            (one,) = read(f'<testsuite><testcase name="t" status="{word}"/></testsuite>'.encode())
            assert one.outcome == outcome, word
    failed = (
        '<testsuite tests=" 1 " failures=""><testcase name="t" status="odd"><failure/></testcase>'
    )
    (one,) = read(f"{failed}</testsuite>".encode())
    assert one.outcome == "failed"
    (one,) = read(b"<testsuite><testcase/></testsuite>")
    assert one.unit == "unnamed"


def test_suites_of_node_before_24_are_the_class() -> None:
    counts = b'time="0" disabled="0" errors="0" tests="%d" failures="0" skipped="0" hostname="h"'
    case = b'<testcase name="adds" time="0.1" classname="test"/>'
    inner = b'<testsuite name="sums" ' + counts % 1 + b">" + case + b"</testsuite>"
    outer = b'<testsuite name="cart" ' + counts % 2 + b">" + case + inner + b"</testsuite>"
    found = read(b"<testsuites>" + case + outer + b"</testsuites>")
    assert [one.unit for one in found] == ["test::adds", "cart::adds", "cart.sums::adds"]
