"""Reads JUnit XML, TRX and JSON; target for JUnit: >= 200,000 cases/s in < 60 MB whatever the size.

JSON is held in memory: its own size and little more.

    python benchmarks/junit_read.py [CASES]

The files are written to a temporary place as a run writes them, one case in a hundred failing; each
is read in a process of its own, for its memory.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from typing import IO, TYPE_CHECKING

from ciguard.codec.results.formats import FORMATS

if TYPE_CHECKING:
    from collections.abc import Iterator


def junit(cases: int) -> Iterator[str]:
    yield '<?xml version="1.0" encoding="utf-8"?><testsuites><testsuite name="s">'
    for i in range(cases):
        case = f'classname="tests.unit.test_{i % 997}.TestThing" name="test_{i}[a-b]"'
        inside = '<failure message="assert 1 == 2">trace</failure>' if i % 100 == 0 else ""
        yield f'<testcase {case} time="0.{i % 997}">{inside}</testcase>\n'
    yield "</testsuite></testsuites>"


def properties(cases: int) -> Iterator[str]:
    """JUnit with two properties and an output in each case, as pytest and Gradle write them."""
    for line in junit(cases):
        more = '<properties><property name="issue" value="4711"/><property name="owner" value="a"/>'
        more += "</properties><system-out>ready</system-out></testcase>"
        yield line.replace("</testcase>", more)


def trx(cases: int) -> Iterator[str]:
    """As `dotnet test` writes it: definitions behind the results, an id for each row."""
    yield '<?xml version="1.0" encoding="utf-8"?><TestRun xmlns="http://microsoft.com/x"><Results>'
    for i in range(cases):
        name = f"Shop.Tests.Part{i % 997}.CartTests.Adds{i // 7}(count: {i % 7})"
        one = f'<UnitTestResult executionId="{i:036}" testId="{i:036}" testName="{name}" '
        one += f'computerName="runner" duration="00:00:00.{i % 997:07}" testListId="{0:036}" '
        one += 'startTime="2026-11-21T10:00:00.0000000+00:00" testType="13cdc9d9" outcome='
        info = "<Message>Assert.Equal() Failure</Message><StackTrace>at x</StackTrace>"
        bad = f'"Failed"><Output><ErrorInfo>{info}</ErrorInfo></Output></UnitTestResult>\n'
        yield one + (bad if i % 100 == 0 else '"Passed" />\n')
    yield "</Results><TestDefinitions>"
    for i in range(cases):
        where = f'className="Shop.Tests.Part{i % 997}.CartTests" name="Adds{i // 7}"'
        method = f'<TestMethod codeBase="/build/Shop.Tests.dll" adapterTypeName="xunit" {where} />'
        yield f'<UnitTest name="x" storage="shop.tests.dll" id="{i:036}">{method}</UnitTest>\n'
    yield "</TestDefinitions><TestEntries>"
    for i in range(cases):
        yield f'<TestEntry testId="{i:036}" executionId="{i:036}" testListId="{0:036}" />\n'
    yield f'</TestEntries><ResultSummary outcome="Failed"><Counters total="{cases}" />'
    yield "</ResultSummary></TestRun>"


def jest(cases: int) -> Iterator[str]:
    """As `jest --json` writes it: 50 tests a file, a failure three times with its trace."""
    message = "Error: expect(received).toBe(expected)\n" + "    at x (/build/test/a.js:1:2)\n" * 20
    yield f'{{"numTotalTests": {cases}, "numRuntimeErrorTestSuites": 0, "testResults": ['
    for first in range(0, cases, 50):
        tests = [
            {
                "ancestorTitles": ["Cart", "items"],
                "duration": i % 997,
                "failureDetails": [{"message": message}] if i % 100 == 0 else [],
                "failureMessages": [message] if i % 100 == 0 else [],
                "fullName": f"Cart items adds {i}",
                "invocations": 1,
                "location": None,
                "retryReasons": [],
                "status": "failed" if i % 100 == 0 else "passed",
                "title": f"adds {i}",
            }
            for i in range(first, min(first + 50, cases))
        ]
        name, status = f"/build/test/{first}.test.js", "failed"
        file = {"assertionResults": tests, "message": message, "name": name, "status": status}
        yield ("," if first else "") + json.dumps(file)
    yield "]}"


WRITERS = {"jest-json": jest, "junit": junit, "properties": properties, "trx": trx}
# A JSON report above 256 MiB is refused; 500,000 cases are 200 MB.
MOST_JSON_CASES = 500_000


def measure(name: str, cases: int, stream: IO[bytes]) -> None:
    stream.writelines(line.encode() for line in WRITERS[name](cases))
    size = stream.tell()
    stream.seek(0)
    began, busy = time.perf_counter(), time.process_time()
    found = sum(1 for _ in FORMATS.get(name, FORMATS["junit"]).read(stream, "benchmark"))
    took, busy = time.perf_counter() - began, time.process_time() - busy
    memory_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{name}: {found} cases, {size / 1e6:.0f} MB: {found / took:,.0f} cases/s, "
        f"{found / busy:,.0f} a CPU second, {memory_mib:.0f} MiB"
    )


if __name__ == "__main__":
    if len(sys.argv) > 2:  # our own call
        with tempfile.TemporaryFile() as file:
            measure(sys.argv[2], int(sys.argv[1]), file)
    else:
        cases = int([*sys.argv[1:], "1000000"][0])
        for name in WRITERS:
            fitting = min(cases, MOST_JSON_CASES) if name == "jest-json" else cases
            subprocess.run([sys.executable, __file__, str(fitting), name], check=True)
