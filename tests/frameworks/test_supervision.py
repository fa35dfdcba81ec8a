"""Supervision of each framework: the report names what fails, dies or hangs, and nothing else.

A suite is a fixture of conftest.py. `WAY` chooses what happens in one of its tests.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Mapping
from typing import Any, Final

import pytest
from frameworks.loop import Loop, bad, is_whole

pytestmark = pytest.mark.soak

# By unit and case, as `bad` has them; the ending follows where a test failed and is not complete.
Failures = dict[tuple[str, str], str]

CTEST_ENDS: Final = ("ends.ends", "")
GO_ENDS: Final = ("example.org/shop/ends.TestEnds", "")
GTEST_ENDS: Final = ("[shop] Ends.Ends", "")
GTEST_SHARED: Final = (("[shop] Shared.One", ""), ("[shop] Shared.Two", ""))
MAVEN_ENDS: Final = ("p.EndsTest", "ends()")
MINITEST_ENDS: Final = ("test/ends_test.rb", "EndsTest#test_ends")
MINITEST_SETUP: Final = ("test/setup_test.rb", "SetupTest#test_one")
MOCHA_CASES: Final = "test/cases.js"
NEXTEST_ENDS: Final = ("shop::ends ends", "")
NODE_ENDS: Final = ("test/ends.test.js", "ends")
NODE_SETUP: Final = "test/setup.test.js"
PHPUNIT_ENDS: Final = ("tests/EndsTest.php", "EndsTest::testEnds")
PHPUNIT_SETUP: Final = "tests/SetupTest.php"
PLAYWRIGHT_ENDS: Final = ("tests/ends.spec.js", "ends")
PLAYWRIGHT_SERIAL: Final = ("tests/serial.spec.js", "one after the other › second")
RSPEC_ENDS: Final = ("spec/ends_spec.rb", "ends ends")
RSPEC_SETUP: Final = "spec/setup_spec.rb"
EVERY_FILE: Final = ("every file", "")  # of the plan

NODE_WAYS: Final[Mapping[str, Failures]] = {
    "hang": {NODE_ENDS: "timeout"},
    "heap": {NODE_ENDS: "out_of_memory"},
    "slow": {NODE_ENDS: "failed timeout"},
    "close": {(NODE_ENDS[0], ""): "crash"},
    "empty": {("test/imports.test.js", ""): "errored"},
    "setup": {(NODE_SETUP, ""): "errored"},
}
WAYS: Final[Mapping[str, Mapping[str, Failures]]] = {
    "ctest": {"hang": {CTEST_ENDS: "timeout"}, "memory": {CTEST_ENDS: "out_of_memory"}},
    "go": {
        "panic": {GO_ENDS: "failed"},
        "goroutine": {GO_ENDS: "crash"},
        "sysexit0": {GO_ENDS: "crash"},
        "hang": {GO_ENDS: "timeout"},
        "memory": {GO_ENDS: "out_of_memory"},
    },
    "gtest": {
        "leave": {GTEST_ENDS: "crash"},
        "hang": {GTEST_ENDS: "timeout"},
        "memory": {GTEST_ENDS: "failed out_of_memory"},  # caught by GoogleTest
        "memory_thread": {GTEST_ENDS: "out_of_memory"},
        "setup": dict.fromkeys(GTEST_SHARED, "errored"),
        "setup_kill": dict.fromkeys(GTEST_SHARED, "crash"),
        "setup_hang": dict.fromkeys(GTEST_SHARED, "timeout"),
    },
    "maven": {
        "halt": {MAVEN_ENDS: "crash"},
        "hang": {MAVEN_ENDS: "timeout"},
        "heap": {MAVEN_ENDS: "out_of_memory"},
        "slow": {("p.EndsTest", "limited()"): "failed timeout"},
        "import": {("p.ImportsTest", "needsItsClass()"): "failed"},
        "setup": {("p.SetupTest", ""): "errored"},
    },
    "minitest": {
        "exit!0": {MINITEST_ENDS: "crash"},
        "hang": {MINITEST_ENDS: "timeout"},
        "heap": {MINITEST_ENDS: "out_of_memory"},
        "fork": {},
        "fork exit": {},
        "import exit": {("test/imports_test.rb", ""): "errored"},
        "import library": {("test/imports_test.rb", ""): "errored"},
        "setup": {MINITEST_SETUP: "errored"},
        "teardown": {MINITEST_SETUP: "errored"},
        "helper": {EVERY_FILE: "errored"},
    },
    "mocha": {
        "module": {("test/module.mjs", ""): "errored"},
        "each": {(MOCHA_CASES, ""): "errored"},
        "local": {("test/local.js", ""): "errored"},
        "null": {(MOCHA_CASES, "cases throws no error"): "failed"},
        "slow": {(MOCHA_CASES, "cases calls no callback"): "failed timeout"},
        "many": {("test/many.js", f"is number {number}"): "failed" for number in range(134)},
        "root": {EVERY_FILE: "errored"},
    },
    "nextest": {
        "leak": {},
        "exit101": {NEXTEST_ENDS: "crash"},
        "panic": {NEXTEST_ENDS: "failed"},
        "memory": {NEXTEST_ENDS: "out_of_memory"},
        "hang": {NEXTEST_ENDS: "timeout"},
    },
    "node_jest": {
        **NODE_WAYS,
        "setup": {(NODE_SETUP, "one"): "failed", (NODE_SETUP, "two"): "failed"},
    },
    "node_mocha": {**NODE_WAYS, "empty": {}},  # Mocha passes over a file without tests
    "node_vitest": {**NODE_WAYS, "close": {}},  # the test closes those of its worker
    "phpunit": {
        "fatal": {PHPUNIT_ENDS: "crash"},
        "hang": {PHPUNIT_ENDS: "timeout"},
        "memory": {PHPUNIT_ENDS: "out_of_memory"},
        "fork": {},
        "setup": {(PHPUNIT_SETUP, f"SetupTest::test{name}"): "failed" for name in ("One", "Two")},
    },
    "playwright": {
        "hang": {PLAYWRIGHT_ENDS: "timeout"},
        "slow": {PLAYWRIGHT_ENDS: "failed timeout"},
        "heap": {PLAYWRIGHT_ENDS: "failed out_of_memory"},
        "runner": {PLAYWRIGHT_ENDS: "crash"},
        "setup": {("tests/setup.spec.js", "one"): "failed"},
        "serial": {PLAYWRIGHT_SERIAL: "failed"},
    },
    "rspec": {
        "exit!0": {RSPEC_ENDS: "crash"},
        "hang": {RSPEC_ENDS: "timeout"},
        "heap": {RSPEC_ENDS: "out_of_memory"},
        "fork": {},
        "import exit": {("spec/imports_spec.rb", ""): "errored"},
        "setup": {(RSPEC_SETUP, "setup one"): "failed", (RSPEC_SETUP, "setup two"): "failed"},
        "teardown": {(RSPEC_SETUP, ""): "errored"},
        "suite": {EVERY_FILE: "errored"},
        "helper": {EVERY_FILE: "errored"},
    },
}
SMALL_HEAP: Final = {"NODE_OPTIONS": "--max-old-space-size=300"}
ENVIRONMENTS: Final[Mapping[str, tuple[Mapping[str, str], ...]]] = {  # each way in each of them
    **dict.fromkeys(("node_jest", "node_mocha", "node_vitest"), (SMALL_HEAP,)),
    "playwright": ({**SMALL_HEAP, "PARALLEL": ""}, {**SMALL_HEAP, "PARALLEL": "1"}),
}


def failures(verdict: Mapping[str, Any]) -> Failures:
    endings = [failure["ending"] for failure in verdict["failures"]]
    return {
        key: outcome if ending in (outcome, "completed") else f"{outcome} {ending}"
        for (key, outcome), ending in zip(bad(verdict).items(), endings, strict=True)
    }


@pytest.mark.parametrize(
    ("loop", "way", "expected", "environ"),
    [
        pytest.param(suite, way, expected, environ, id=f"{suite}-{way}")
        for suite, ways in WAYS.items()
        for way, expected in ways.items()
        for environ in ENVIRONMENTS.get(suite, ({},))
    ],
    indirect=["loop"],
)
def test_report_names_the_culprit_and_no_other_test(
    loop: Loop, way: str, expected: Failures, environ: Mapping[str, str]
) -> None:
    verdict = loop.run(WAY=way, **environ)
    is_whole(verdict, loop)
    if EVERY_FILE in expected:
        expected = {(unit, ""): expected[EVERY_FILE] for unit in loop.planned()}
    assert failures(verdict) == expected, loop.printed
    assert verdict["verdict"] == ("failed" if expected else "passed")


@pytest.mark.parametrize(
    ("loop", "way", "unit"),
    [
        ("minitest", "import kill", "test/imports_test.rb"),
        ("mocha", "broken exit", "test/broken.js"),
        ("mocha", "broken kill", "test/broken.js"),
        ("phpunit", "import", "tests/ImportsTest.php"),
        ("phpunit", "import exit", "tests/ImportsTest.php"),
        ("phpunit", "import kill", "tests/ImportsTest.php"),
        ("playwright", "import exit", "tests/imports.spec.js"),
        ("rspec", "import kill", "spec/imports_spec.rb"),
        ("rspec", "import exit!", "spec/imports_spec.rb"),
    ],
    indirect=["loop"],
)
def test_file_that_ends_the_process_at_import_is_found(loop: Loop, way: str, unit: str) -> None:
    """All files are loaded before the first test: the leg finds it by bisection."""
    verdict = loop.run(WAY=way)
    assert verdict["verdict"] == "incomplete", loop.printed
    assert bad(verdict) == {}
    assert [lost["unit"] for lost in verdict["missing"]] == [unit], loop.printed


# A worker of Node counts what an earlier file freed as in use before its own.
NODE_MEMORY: Final[tuple[str, int, int, Mapping[str, str]]] = ("test/memory.test.js", 60, 260, {})
# Rake has memory of its own before, and in none of the marks.
WITHOUT_RAKE: Final = {"RUN": "ruby -Itest all.rb"}


@pytest.mark.parametrize(
    ("loop", "unit", "least_mib", "most_mib", "environ"),
    [
        ("ctest", "memory.holds", 100, 200, {}),
        ("go", "example.org/shop/sums.TestHolds", 100, 200, {}),
        ("gtest", "[shop] Memory.Holds", 100, 200, {}),
        ("maven", "p.MemoryTest", 140, 190, {}),
        ("minitest", "test/memory_test.rb", 140, 190, WITHOUT_RAKE),
        ("nextest", "shop tests::holds", 100, 200, {}),
        ("node_jest", *NODE_MEMORY),
        ("node_mocha", *NODE_MEMORY),
        ("node_vitest", *NODE_MEMORY),
        ("phpunit", "tests/MemoryTest.php", 75, 130, {}),
        ("rspec", "spec/memory_spec.rb", 140, 190, {}),
    ],
    indirect=["loop"],
)
def test_memory_is_that_of_the_unit_that_holds_it(
    loop: Loop, unit: str, least_mib: int, most_mib: int, environ: Mapping[str, str]
) -> None:
    loop.run(**environ)
    files = sorted(loop.folder.glob("records/*/supervisor.jsonl"))
    lines = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    needed_mib = {
        line["unit"]: (line["peak_lower_bytes"] - line["rss_before_bytes"]) / (1 << 20)
        for line in lines
        if line["type"] == "peak" and line.get("peak_lower_bytes")
    }
    assert max(needed_mib, key=lambda name: needed_mib[name]) == unit
    assert least_mib < needed_mib[unit] < most_mib


@pytest.mark.parametrize(
    ("loop", "longest_s"),
    [
        ("ctest", 3.0),
        ("go", 2.0),
        ("gtest", 2.0),
        ("maven", 4.0),
        ("minitest", 2.0),
        ("nextest", 2.0),
        ("node_jest", 3.0),
        ("node_mocha", 3.0),
        ("node_vitest", 3.0),
        ("phpunit", 2.0),
        ("playwright", 3.0),
        ("rspec", 2.0),
    ],
    indirect=["loop"],
)
def test_killed_leg_goes_on_where_it_was(loop: Loop, longest_s: float) -> None:
    """Killed at any moment and resumed, a leg leaves no unit without a result."""
    moments = random.Random(0)
    for _ in range(6):
        after_s = moments.uniform(0.05, longest_s)
        began_s = time.monotonic()
        loop.kill_and_resume("01", after_s)
        verdict = loop.guard()
        where = f"killed after {after_s:.3f} s, whole in {time.monotonic() - began_s:.1f} s"
        assert verdict["missing"] == [], where
        assert verdict["verdict"] == "passed", (where, verdict["headline"], bad(verdict))
