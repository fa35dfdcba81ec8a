"""The adapter of JUnit 5 through Maven: command lines, listings, and its listener's jar."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from frameworks.listener_jar import JAR, RELEASE, build
from run.frameworks.test_registry import batch

from ciguard.model import Suite
from ciguard.model.failure_texts import ending_of_failure, memory_failure
from ciguard.run.frameworks.base import ListedUnit
from ciguard.run.frameworks.maven import MAVEN

SUITE = Suite("maven", ("mvn", "-B", "test"), args=("-Dgroups=fast",))
ANSWER = b'{"unit": "p.ATest", "file": "src/test/java/p/ATest.java"}\n'
PLATFORM = "org/junit/platform/junit-platform-"


def test_orders_are_properties_of_the_command() -> None:
    found = MAVEN.execution(SUITE, "", batch())
    assert found.argv[:4] == ("mvn", "-B", "test", "-Dgroups=fast")
    jar = os.path.join("/p/inside", "ciguard_junit.jar")  # noqa: PTH118
    assert {
        f"-Dmaven.test.additionalClasspath={jar}",
        "-Dsurefire.includesFile=/p/units.txt",
        "-Dciguard.units=/p/units.txt",
        "-Dciguard.record=/r/process-001.jsonl",
        "-Dciguard.stop=/p/stop",
    } <= set(found.argv)
    assert found.env == {}, "what a test starts inherits no order"


def test_script_gets_the_properties_by_the_environment() -> None:
    script = Suite("maven", ("sh", "test.sh"), is_script=True)
    found = MAVEN.listing(script, "", "/p/answer", "/p/inside")
    assert found.argv == ("sh", "test.sh")
    assert "-Dciguard.list=/p/answer" in found.options["MAVEN_ARGS"][1].split()


def test_listing_is_whole_where_maven_ended_well() -> None:
    found = MAVEN.read_listing(SUITE, ANSWER, b"[INFO] Tests run: 0, Failures: 0", 0)
    assert found.units == (ListedUnit("p.ATest", "src/test/java/p/ATest.java"),)
    assert found.errors == ()


def test_failed_listing_quotes_the_compiler() -> None:
    printed = (
        "[ERROR] COMPILATION ERROR : \n[ERROR] /r/ATest.java:[4,30] cannot find symbol\n[ERROR] \n"
        "[ERROR] Re-run Maven using the -X switch to enable full debug logging.\n"
    )
    (error,) = MAVEN.read_listing(SUITE, ANSWER, printed.encode(), 1).errors
    assert error.splitlines() == [
        "collecting ended with exit code 1 and no inventory:",
        "COMPILATION ERROR :",
        "/r/ATest.java:[4,30] cannot find symbol",
    ]


@pytest.mark.parametrize(
    ("answer", "printed", "expected"),
    [
        (b"", "", "no test class was found on the JUnit Platform"),
        (ANSWER, "Tests run: 3, Failures: 0", "tests that do not run on the JUnit Platform"),
        (ANSWER + ANSWER, "", "p.ATest is in 2 modules"),
    ],
)
def test_listing_with_fewer_classes_than_run_is_an_error(
    answer: bytes, printed: str, expected: str
) -> None:
    (error,) = MAVEN.read_listing(SUITE, answer, printed.encode(), 0).errors
    assert error.startswith(expected)


def test_ends_that_java_tells() -> None:
    printed = "[ERROR] There was an error in the forked process\n[ERROR] Java heap space\n"
    assert memory_failure(printed) == "[ERROR] Java heap space"
    assert memory_failure("[ERROR] Java heap space is too small, said a test\n") == ""
    limit = "java.util.concurrent.TimeoutException: limited() timed out after 1 second\n\tat p"
    assert ending_of_failure("", limit) == "timeout"
    assert ending_of_failure("", "java.lang.OutOfMemoryError: Java heap space") == "out_of_memory"


def test_jar_is_what_its_source_makes(tmp_path: Path) -> None:
    version = (
        shutil.which("javac")
        and subprocess.run(["javac", "-version"], capture_output=True, text=True, check=True).stdout
    )
    if not version or not version.startswith(f"javac {RELEASE}."):
        pytest.skip(f"needs javac {RELEASE}")
    jars = [
        next(
            iter(sorted((Path.home() / ".m2/repository").glob(f"{PLATFORM}{name}/1.*/*.jar"))), None
        )
        for name in ("launcher", "engine", "commons")
    ]
    if None in jars:
        pytest.skip("needs the JUnit Platform in Maven's local repository")
    build(tmp_path / "new.jar", ":".join(map(str, jars)))
    assert (tmp_path / "new.jar").read_bytes() == JAR.read_bytes(), "run `make listener`"


@pytest.mark.parametrize(("parallel", "value"), [(None, None), (True, "true"), (False, "false")])
def test_methods_run_in_parallel_as_the_suite_says(
    parallel: bool | None, value: str | None
) -> None:
    argv = MAVEN.execution(replace(SUITE, parallel=parallel), "", batch()).argv
    found = [word.partition("=")[2] for word in argv if "parallel.enabled" in word]
    assert found == ([] if value is None else [value])
