"""JUnit 5 through Maven in the whole loop: what passes, fails, dies and vanishes is accounted for.

Maven is offline here: its plugins lie in its local repository.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from frameworks.loop import Loop, bad, is_whole
from frameworks.situations import pom_with

NAMES = (
    *("Adds", "Disabled", "Ends", "Flaky", "Imports", "Launcher", "Memory", "OddNames", "Setup"),
)
UNITS = [*(f"p.{name}Test" for name in NAMES), "q.p.AddsTest"]


@pytest.mark.soak
def test_every_case_of_every_class_is_recorded(maven: Loop) -> None:
    assert maven.planned() == UNITS
    verdict = maven.run(FAIL="1")
    is_whole(verdict, maven)
    assert bad(verdict) == {("p.OddNamesTest", "größe()"): "failed"}
    (failure,) = verdict["failures"]
    assert failure["message"].startswith('org.opentest4j.AssertionFailedError: the odd one: "ä\\"')
    results = [line for line in maven.record_lines() if line.get("type") == "result"]
    assert {line["unit"] for line in results} == set(UNITS)
    cases = {
        line["case"]: line["outcome"]
        for line in results
        if line["unit"] in ("p.OddNamesTest", "p.AddsTest")
    }
    assert cases == {
        'says "it\'s" so': "passed",
        "a line\nfeed": "passed",
        "grüße 😀 日本": "passed",
        "twice": "passed",
        "twice #2": "passed",
        "größe()": "failed",
        "adds()": "passed",
        "plusOne(int, int) > [1] 1, 2": "passed",
        "plusOne(int, int) > [2] 2, 3": "passed",
        "repeats() > repetition 1 of 2": "passed",
        "repeats() > repetition 2 of 2": "passed",
        "made() > a": "passed",
        "made() > a #2": "passed",
        "divides()": "skipped",
        "needsWindows()": "skipped",
        "Inner > deep()": "passed",
    }
    assert maven.execution() == {"executed"}
    begun = [case for unit, case in maven.cases_begun() if unit in ("p.OddNamesTest", "p.AddsTest")]
    assert sorted(begun) == sorted(set(cases) - {"divides()"})
    (disabled,) = (line for line in results if line["unit"] == "p.DisabledTest")
    assert (disabled["outcome"], disabled["message"]) == ("skipped", "all of it")


BESIDE = """package p;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.*;
class BesideTest {
    static AtomicInteger running = new AtomicInteger(), most = new AtomicInteger();
    @RepeatedTest(4) void holds() throws Exception {
        most.accumulateAndGet(running.incrementAndGet(), Math::max);
        Thread.sleep(300);
        running.decrementAndGet();
    }
    @AfterAll static void tell() { System.err.println("most at once: " + most); }
}
"""
PARALLEL = """junit.jupiter.execution.parallel.enabled = true
junit.jupiter.execution.parallel.mode.default = concurrent
"""
MEMORY = """exclude = ["*.[!B]*"]
needs = [{{ units = "p.BesideTest", memory = "{}GiB" }}]
[pool]
small = {{ runs_on = "ubuntu-latest", memory = "4GiB" }}
"""


@pytest.mark.soak
@pytest.mark.parametrize("memory", [2, 4])
def test_methods_of_a_class_that_does_not_fit_run_one_at_a_time(maven: Loop, memory: int) -> None:
    (maven.folder / "src/test/java/p/BesideTest.java").write_text(BESIDE)
    (maven.folder / "src/test/resources").mkdir()
    (maven.folder / "src/test/resources/junit-platform.properties").write_text(PARALLEL)
    maven.configure(maven.toml + MEMORY.format(memory))
    maven.shards = ("01",)
    is_whole(maven.run(), maven)
    assert ("most at once: 1" in maven.printed) == (memory == 4)


@pytest.mark.soak
def test_own_reports_go_on(maven: Loop) -> None:
    assert maven.run(MORE="-Dsurefire.useFile=false")["verdict"] == "passed"
    written = {path.name for path in (maven.folder / "target/surefire-reports").glob("*.xml")}
    assert {f"TEST-{unit}.xml" for unit in UNITS} <= written


@pytest.mark.soak
def test_what_does_not_compile_cannot_be_listed(maven: Loop) -> None:
    (maven.folder / "src/test/java/p/BrokenTest.java").write_text(
        "package p; class BrokenTest { X x; }"
    )
    with pytest.raises(AssertionError, match=r"BrokenTest\.java:\[1,31\] cannot find symbol"):
        maven.plan()


@pytest.mark.soak
def test_modules_and_tags_are_kept(maven: Loop, tmp_path: Path) -> None:
    """A failure in one module keeps none of the next from running."""
    pom = (maven.folder / "pom.xml").read_text()
    top = pom.replace("<version>1</version>", "<version>1</version><packaging>pom</packaging>", 1)
    modules = "<modules><module>one</module><module>two</module></modules>"
    (maven.folder / "pom.xml").write_text(top.replace("<properties>", modules + "<properties>", 1))
    parent = "<parent><groupId>p</groupId><artifactId>p</artifactId><version>1</version></parent>"
    for name, fails in (("one", "true"), ("two", "false")):
        folder = maven.folder / name / "src/test/java/m"
        folder.mkdir(parents=True)
        (maven.folder / name / "pom.xml").write_text(
            f"<project><modelVersion>4.0.0</modelVersion>{parent}"
            f"<artifactId>{name}</artifactId></project>"
        )
        for kind, tag in (("Fast", "fast"), ("Slow", "slow")):
            (folder / f"{name.title()}{kind}Test.java").write_text(
                "package m; import org.junit.jupiter.api.*;"
                f'@Tag("{tag}") class {name.title()}{kind}Test'
                f" {{ @Test void a() {{ Assertions.assertFalse({fails}); }} }}"
            )
    maven.configure(maven.toml + 'args = ["-Dgroups=fast"]\n')
    assert maven.planned() == ["m.OneFastTest", "m.TwoFastTest"]
    verdict = maven.run()
    is_whole(verdict, maven)
    assert bad(verdict) == {("m.OneFastTest", "a()"): "failed"}


@pytest.mark.soak
@pytest.mark.parametrize(
    ("pom", "option", "expected"),
    [
        (pom_with(""), "-Dgroups=fast|slow", "-Dgroups=fast|slow"),
        (pom_with("<groups>\n fast |\n slow</groups>"), "-q", "pom.xml: groups=fast | slow"),
        (pom_with("<groups>fast</groups>"), "-Dgroups=slow", "pom.xml: groups=fast"),
        (pom_with("<test>AddsTest#made</test>"), "-q", "pom.xml: test=AddsTest#made"),
    ],
)
def test_filter_is_named_with_its_place(maven: Loop, pom: str, option: str, expected: str) -> None:
    (maven.folder / "pom.xml").write_text(pom)
    (maven.folder / ".mvn").mkdir()
    (maven.folder / ".mvn/maven.config").write_text(f"{option}\n")
    java = maven.folder / "src/test/java/p/AddsTest.java"
    java.write_text(java.read_text().replace("class AddsTest", '@Tag("fast") class AddsTest'))
    assert maven.listed_filters() == [expected]
