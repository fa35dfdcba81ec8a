"""PHPUnit's adapter, launcher and log by literals: what a line comes to, what a run is given."""

from __future__ import annotations

import os
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
from run.frameworks.test_registry import batch

from ciguard.errors import UsageError
from ciguard.model import Suite, Variant
from ciguard.run.frameworks.phpunit import PHPUNIT
from ciguard.run.plugins.ciguard_phpunit import (
    Options,
    TeamCityStream,
    find_configuration,
    listed_files,
    parse_options,
    read_configuration,
    select_files,
)

UNITS = {"/p/ATest.php": "ATest.php", "/p/b.phpt": "b.phpt"}
SUITE = "##teamcity[testSuiteStarted name='all']"
CLASS = r"##teamcity[testSuiteStarted name='N\A' locationHint='php_qn:///p/ATest.php::\N\A']"
END_CLASS = r"##teamcity[testSuiteFinished name='N\A']"
END = "##teamcity[testSuiteFinished name='all']"
START = ("start", "ATest.php", "")
CLOSED = ("closed", "ATest.php", "")


def read(stream: TeamCityStream, *lines: str) -> list[dict[str, Any]]:
    return [one for line in lines for one in stream.read(f"{line}\n".encode())]


def brief(*lines: str, risky: str = "passed") -> list[tuple[str, str, str]]:
    """Kind or outcome, unit and case of the lines that come of it, without starts of cases."""
    return [
        (one.get("kind") or one.get("outcome") or "start", one["unit"], one.get("case", ""))
        for one in read(TeamCityStream(UNITS, "all", risky), *lines)
        if one.get("kind") != "case_start"
    ]


def event(kind: str, name: str, **said: str) -> str:
    more = "".join(f" {key}='{value}'" for key, value in said.items())
    return f"##teamcity[{kind} name='{name}'{more} flowId='7']"


def test_class_is_closed_after_its_cases() -> None:
    data_set = 'testB with data set "it|\'s ||n |[x|]|n"'
    assert brief(
        *(SUITE, CLASS, event("testStarted", "testA"), event("testFinished", "testA")),
        event("testSuiteStarted", "testB", locationHint=r"php_qn:///p/ATest.php::\N\A::testB"),
        *(event("testStarted", data_set), event("testFinished", data_set)),
        *(event("testSuiteFinished", "testB"), END_CLASS, END),
    ) == [
        START,
        ("passed", "ATest.php", r"N\A::testA"),
        ("passed", "ATest.php", 'N\\A::testB with data set "it\'s |n [x]\n"'),
        CLOSED,
    ]


def test_case_that_has_not_started_has_its_result() -> None:
    """PHPUnit 10 to 12, where the set-up failed or a test is skipped; 13 says it once more."""
    failed = event("testFailed", "testA", message="E: no", details="/p/ATest.php:7|n")
    ignored = event("testIgnored", "testB", message="later")
    assert brief(CLASS, failed, ignored, END_CLASS, END) == [
        START,
        ("failed", "ATest.php", r"N\A::testA"),
        ("skipped", "ATest.php", r"N\A::testB"),
        CLOSED,
    ]
    twice = event("testFinished", "testA")
    assert brief(CLASS, event("testStarted", "testA"), failed, twice, twice) == [
        START,
        ("failed", "ATest.php", r"N\A::testA"),
    ]


def test_class_that_cannot_be_set_up_is_a_failure_of_its_file() -> None:
    failed = event("testFailed", r"N\A", message="no", details="/p/ATest.php:7|n")
    assert brief(CLASS, failed, END_CLASS, END_CLASS, END) == [
        START,
        ("failed", "ATest.php", ""),
        CLOSED,
    ]


def test_class_without_a_case_is_skipped() -> None:
    assert brief(CLASS, END_CLASS, END) == [START, ("skipped", "ATest.php", ""), CLOSED]


def test_second_case_of_a_name_has_a_number() -> None:
    once = (event("testStarted", "testA"), event("testFinished", "testA"))
    lines = read(TeamCityStream(UNITS, "all", "passed"), CLASS, *once, *once)[1:]
    assert [(one.get("kind", ""), one.get("detail") or one["case"]) for one in lines] == [
        (kind, name) for name in (r"N\A::testA", r"N\A::testA #2") for kind in ("case_start", "")
    ]


def test_last_attempt_of_a_retried_test_has_the_name_of_the_test() -> None:
    name = "testA (attempt 3 of 4)"
    lines = (CLASS, event("testStarted", name), event("testFinished", name))
    _, start, line = read(TeamCityStream(UNITS, "all", "passed"), *lines)
    assert start["detail"] == line["case"]
    assert (line["case"], line["outcome"], line["reruns"]) == (r"N\A::testA", "passed", 2)


def test_phpt_file_is_a_unit() -> None:
    name = "/p/b.phpt"
    assert brief(event("testStarted", name), event("testFinished", name), CLASS) == [
        ("start", "b.phpt", ""),
        ("passed", "b.phpt", ""),
        ("closed", "b.phpt", ""),
        START,
    ]


def test_second_class_of_a_file_is_in_its_unit() -> None:
    second = CLASS.replace(r"N\A", r"N\B")
    once = (event("testStarted", "testA"), event("testFinished", "testA"))
    assert brief(CLASS, *once, END_CLASS, second, *once) == [
        START,
        ("passed", "ATest.php", r"N\A::testA"),
        ("passed", "ATest.php", r"N\B::testA"),
    ]


def test_suite_of_all_files_says_that_they_ran() -> None:
    stream = TeamCityStream(UNITS, "all", "passed")
    read(stream, "##teamcity[testCount count='1']", event("testSuiteStarted", "x.xml"), SUITE)
    assert stream.has_begun
    read(stream, CLASS, END_CLASS)
    assert not stream.is_complete
    read(stream, END, event("testSuiteFinished", "x.xml"))
    assert stream.is_complete
    assert stream.begun == {"ATest.php"}


def test_class_of_no_unit_is_left_out() -> None:
    other = CLASS.replace("/p/ATest.php", "/p/Other.php")
    assert brief(other, event("testStarted", "testA"), event("testFinished", "testA")) == []
    assert brief("no message", "##teamcity[testStarted name='cut") == []


@pytest.mark.parametrize(
    "message",
    [
        "This test did not perform any assertions|n|n/p/ATest.php:26",
        "Test code or tested code did not close its own output buffers",
    ],
)
def test_risky_test_has_passed_unless_it_must_fail(message: str) -> None:
    lines = (CLASS, event("testFailed", "testA", message=message, details=" "), END_CLASS)
    assert brief(*lines)[1][0] == "passed"
    assert brief(*lines, risky="failed")[1][0] == "failed"
    failed = event("testFailed", "testA", message="This test is no good", details=" /p/ATest.php:8")
    assert brief(CLASS, failed, *lines[1:])[1][0] == "failed"


def test_failure_has_its_texts_and_place() -> None:
    details = " /p/lib.php:3|n /p/ATest.php:7|n "
    failed = event(
        "testFailed", "testA", message="not 2", details=details, actual="1", expected="2"
    )
    finished = event("testFinished", "testA", duration="16")
    line = read(TeamCityStream(UNITS, "all", "passed"), CLASS, failed, finished)[1]
    assert line["message"].splitlines() == [
        *("not 2", "expected: 2", "actual: 1", "/p/lib.php:3", "/p/ATest.php:7"),
    ]
    assert (line["file"], line["line"], line["wall_s"]) == ("ATest.php", 7, 0.016)


def test_options_that_select_files_are_left_out() -> None:
    words = [
        "tests/unit",
        "-c",
        "build",
        "--testsuite=a",
        "--testsuite",
        "b",
        "--filter",
        "nowhere",
    ]
    words += ["-d", "memory_limit=1G", "--stop-on-failure", "--colors=never", "tests/more"]
    kept = ["--filter", "nowhere", "-d", "memory_limit=1G", "--colors=never"]
    assert parse_options(words) == Options(kept, "build")
    assert parse_options(["--configuration=x.xml"]) == Options([], "x.xml")
    assert parse_options(["--no-configuration"]) == Options([], "", is_configured=False)
    with pytest.raises(ValueError, match=r"write --testdox=/ as one word, or the path / first"):
        parse_options(["--testdox", "/"])


def test_configuration_is_the_one_that_phpunit_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert find_configuration(Options([], "")) == ""
    Path("phpunit.xml.dist").touch()
    assert find_configuration(Options([], "")) == "./phpunit.xml.dist".replace("/", os.sep)
    Path("phpunit.xml").touch()
    assert find_configuration(Options([], "")) == "./phpunit.xml".replace("/", os.sep)
    assert find_configuration(Options([], str(tmp_path))) == str(tmp_path / "phpunit.xml")
    assert find_configuration(Options([], "other.xml")) == "other.xml"
    assert find_configuration(Options([], "", is_configured=False)) == ""


def test_copy_of_the_configuration_means_the_same_elsewhere(tmp_path: Path) -> None:
    path = tmp_path / "phpunit.xml"
    path.write_text(
        '<phpunit bootstrap="vendor/autoload.php" colors="true" stopOnFailure="true"'
        ' defaultTestSuite="unit" cacheDirectory="">'
        "<testsuites><testsuite name='unit'><directory>tests</directory></testsuite></testsuites>"
        "<source><include><directory suffix='.php'> src </directory><file>/a.php</file></include>"
        "</source><logging><log type='junit' target='php://stdout'/><junit outputFile='j.xml'/>"
        "</logging><php><ini name='target' value='x'/></php></phpunit>"
    )
    root = read_configuration(str(path))
    select_files(root, ["/p/BTest.php", "/p/ATest.php"])
    assert root.attrib == {
        "bootstrap": str(tmp_path / "vendor/autoload.php"),
        "colors": "true",
        "cacheDirectory": "",
    }
    texts = [one.text for one in root.iter() if one.tag in ("directory", "file")]
    assert texts == [str(tmp_path / "src"), "/a.php", "/p/BTest.php", "/p/ATest.php"]
    outputs = [one.attrib for one in root.iterfind("logging/*")]
    assert outputs == [
        {"type": "junit", "target": "php://stdout"},
        {"outputFile": str(tmp_path / "j.xml")},
    ]
    assert ET.tostring(read_configuration("")) == b"<phpunit />"


def test_files_of_listed_classes() -> None:
    old = (
        '<tests><testCaseClass name="N\\A"><testCaseMethod name="a" dataSet="&quot;&#1;&gt;"/>'
        '</testCaseClass><testCaseClass name="Lost"/><phptFile path="/p/b.phpt"/></tests>'
    )
    assert listed_files(old, {"N\\A": "/p/A&B.php"}) == {
        "/p/A&B.php": ["N\\A"],
        "": ["Lost"],
        "/p/b.phpt": [""],
    }
    new = '<testClass name="N\\A" file="/p/A&amp;B.php"><testMethod id="N\\A::a" name="a"/>'
    assert list(listed_files(f'{new}<phpt file="/p/b.phpt"/>', {})) == ["/p/A&B.php", "/p/b.phpt"]
    assert list(listed_files(new, {"N\\A": "/p/Own.php"})) == ["/p/Own.php"]


def test_program_ends_with_the_word_that_is_phpunit() -> None:
    command = ("php", "-d", "memory_limit=1G", "vendor/bin/phpunit", "-c", "phpunit.xml")
    suite = Suite(
        "phpunit", command, args=("--testdox",), variants={"v": Variant(("--group", "x"))}
    )
    invocation = PHPUNIT.execution(suite, "v", batch())
    assert invocation.argv[:2] == (sys.executable, "-I")
    assert invocation.argv[4:] == ("4", *command, "--testdox", "--group", "x")
    assert invocation.env["CIGUARD_UNITS_FILE"] == "/p/units.json"
    listing = PHPUNIT.listing(Suite("phpunit", ("./run", "x")), "", "/p/answer", "/p/inside")
    assert listing.argv[4:] == ("2", "./run", "x")
    assert listing.env["CIGUARD_COLLECT_FILE"] == "/p/answer"


def test_script_is_refused() -> None:
    with pytest.raises(UsageError, match="ciguard starts PHPUnit itself"):
        PHPUNIT.listing(Suite("phpunit", ("./run.sh",), is_script=True), "", "answer", "inside")
