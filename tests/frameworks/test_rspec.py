"""RSpec through the whole loop: what passes, fails, dies, hangs and vanishes is accounted for."""

from __future__ import annotations

import json

import pytest
from frameworks.loop import Loop, bad, is_whole

SOAK = pytest.mark.soak
ENDS = ("spec/ends_spec.rb", "ends ends")
SETUP = "spec/setup_spec.rb"
FILES = [
    *("spec/deep/sums_spec.rb", "spec/ends_spec.rb", "spec/imports_spec.rb"),
    *("spec/memory_spec.rb", "spec/odd names_spec.rb", "spec/setup_spec.rb", "spec/sums_spec.rb"),
]


def test_every_example_of_every_file_is_recorded(rspec: Loop) -> None:
    assert rspec.planned() == FILES
    verdict = rspec.run(WAY="exit0", FAIL="1")
    is_whole(verdict, rspec)
    odd = "spec/odd names_spec.rb"
    results = [line for line in rspec.record_lines() if line.get("type") == "result"]
    cases = {line["case"]: line["outcome"] for line in results if line["unit"] == odd}
    assert bad(verdict) == {ENDS: "crash", (odd, "odd [x] (y) twice #2"): "failed"}
    (message,) = (line["message"] for line in results if line["outcome"] == "failed")
    assert message.splitlines() == [
        "RuntimeError: no UTF-8: \ufffd",
        "./spec/odd names_spec.rb:6:in `block (2 levels) in <top (required)>'",
    ]
    assert cases == {
        'odd [x] (y) says "it\'s" so': "passed",
        "odd [x] (y) a line\nfeed": "passed",
        "odd [x] (y) grüße 😀 日本": "passed",
        "odd [x] (y) twice": "passed",
        "odd [x] (y) twice #2": "failed",
        "odd [x] (y) ": "passed",
        "odd [x] (y) is expected to eq 1": "passed",
    }
    skipped = {line["case"]: line["message"] for line in results if line["outcome"] == "skipped"}
    assert skipped == {
        "sums divides": "Temporarily skipped with xit",
        "sums multiplies": "Not yet implemented",
        "sums rounds": "xfail: not yet",
    }
    assert rspec.execution() == {"executed"}
    nameless = ("odd [x] (y) ", "odd [x] (y) is expected to eq 1")  # until they have run
    begun = [case for unit, case in rspec.cases_begun() if unit == odd]
    assert sorted(begun) == sorted(set(cases) - set(nameless))


@pytest.mark.soak
def test_own_formatters_and_filters_go_on(rspec: Loop) -> None:
    options = "--require spec_helper\n--format doc\n--format json --out own.json\n--tag ~slow\n"
    (rspec.folder / ".rspec").write_text(options)
    (rspec.folder / SETUP).write_text('RSpec.describe("x") { it("two", :slow) { raise "no" } }')
    verdict = rspec.run()
    assert (verdict["verdict"], ".rspec: --tag ~slow" in verdict["headline"]) == (
        "incomplete",
        True,
    )
    rspec.plan()
    verdict = rspec.run()
    assert verdict["verdict"] == "passed"
    results = [line for line in rspec.record_lines() if line["type"] == "result"]
    (line,) = (line for line in results if line["unit"] == SETUP)
    assert (line["outcome"], line["message"]) == ("skipped", "no example of it is selected")
    assert rspec.printed.count("more sums\n  is shared") == 1
    assert json.loads((rspec.folder / "own.json").read_text())["summary"]["failure_count"] == 0


@pytest.mark.parametrize(
    ("files", "environ", "expected"),
    [
        pytest.param(
            {SETUP: "RSpec.configure { |config| config.dry_run = true }"},
            {},
            "not_executed RSpec.configure: dry_run = true",
            marks=SOAK,
        ),
        ({}, {"SPEC_OPTS": "--seed 7 -e more"}, "filter SPEC_OPTS: -e more"),
        pytest.param(
            {
                ".rspec": "-r spec_helper\n-r ./filters.rb",
                "filters.rb": "RSpec.configure { |config| config.filter_run_excluding :slow }",
            },
            {},
            "filter RSpec.configure: filter {:slow=>true}",
            marks=SOAK,
        ),
    ],
)
def test_what_does_not_execute_or_leaves_examples_out_is_named(
    rspec: Loop, files: dict[str, str], environ: dict[str, str], expected: str
) -> None:
    for name, text in files.items():
        (rspec.folder / name).write_text(text)
    verdict = rspec.run(**environ)
    reason, _, setting = expected.partition(" ")
    assert expected in rspec.execution()
    assert (verdict["verdict"], setting in verdict["headline"]) == ("incomplete", True)
    assert rspec.seeds() == {"--seed 7"} or "--seed" not in str(environ)
    assert rspec.listed_filters(**environ) == ([setting] if reason == "filter" else [])


@pytest.mark.parametrize(
    ("call", "verdict", "kind", "setting"),
    [
        ("filter_run_when_matching :wip", "incomplete", "tests_focused", f"{SETUP}: wip"),
        (
            *("filter_run_excluding :wip", "passed", "filter_planned"),
            "RSpec.configure in a test file: exclude wip",
        ),
    ],
)
def test_filter_that_a_test_file_sets_is_focus_or_stated(
    rspec: Loop, call: str, verdict: str, kind: str, setting: str
) -> None:
    """No listing can know it, as listing reads no test file."""
    examples = 'RSpec.describe("x") { it("a", :wip) {}; it("b") {}; it("c", if: false) {} }'
    (rspec.folder / SETUP).write_text(f"RSpec.configure {{ |c| c.{call} }}\n{examples}\n")
    rspec.plan()
    judged = rspec.run()
    (facts,) = (found["facts"] for found in judged["findings"] if found["kind"] == kind)
    assert (judged["verdict"], facts["settings"]) == (verdict, [setting])
    assert facts["left_out"] == (1 if verdict == "passed" else None)


@pytest.mark.soak
def test_error_after_the_suite_is_one_of_no_file(rspec: Loop) -> None:
    """No example failed, and RSpec ends with 1."""
    verdict = rspec.run(WAY="after suite")
    assert (verdict["verdict"], verdict["failures"]) == ("failed", [])
    assert "no failed test explains it" in verdict["headline"]


def test_example_that_closes_every_file_hides_no_result(rspec: Loop) -> None:
    (rspec.folder / "spec/sums_spec.rb").write_text("""describe("Closing") do
  it("closes") do
    ObjectSpace.each_object(File) { |file| file.close if !file.closed? && file.fileno > 2 }
  end
  it("follows") {}
end
""")
    verdict = rspec.run()
    assert verdict["verdict"] == "passed", bad(verdict)


@pytest.mark.soak
def test_fail_fast_names_what_it_left_out(rspec: Loop) -> None:
    (rspec.folder / ".rspec").write_text("--require spec_helper\n--fail-fast\n")
    first = rspec.folder / "spec" / "deep" / "sums_spec.rb"
    first.write_text('RSpec.describe("sums") { it("fails") { raise "no" } }')
    verdict = rspec.run()
    assert verdict["verdict"] == "incomplete"
    assert bad(verdict) == {("spec/deep/sums_spec.rb", "sums fails"): "failed"}
    assert "fail_fast is set; --no-fail-fast runs all" in " ".join(rspec.printed.split())
