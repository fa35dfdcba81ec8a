"""Mistakes in a configuration: which key, what stands there, what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from ciguard.config.file import (
    FILE,
    load,
    log_patterns,
    metric_directions,
    parse,
    process_log_reader,
)
from ciguard.errors import CiguardError
from ciguard.logs.pattern_table import Direction


@pytest.mark.parametrize(
    ("suite", "output"),
    [
        (
            'results = ["r/*.xml"]',
            "suite.a.results: framework pytest tells its results by itself\n  fix: leave the key",
        ),
        (
            'framework = "command"\nresults = ["/r/*.xml", "ok/**", "../r"]',
            "suite.a.results: no pattern of files: '/r/*.xml'",
        ),
        ("[coverage]\nminimum = 90", "coverage.format: no format\n  fix: name that of"),
        (
            '[coverage]\nformat = "go"\nsuites = ["b"]',
            "coverage.suites: no suite 'b'\n  fix: there are a",
        ),
        (
            '[coverage]\nformat = "go"\npaths = ["../r"]',
            "coverage.paths: no pattern of files: '../r'",
        ),
    ],
)
def test_invalid_results_option_is_rejected(tmp_path: Path, suite: str, output: str) -> None:
    (tmp_path / "ciguard.toml").write_text(f"[suite.a]\n{suite}\n")
    with pytest.raises(CiguardError) as caught:
        load(tmp_path, {})
    assert output in str(caught.value)
    assert ("'../r'" in str(caught.value)) == ("../r" in suite), "all mistakes at once"


def test_guard_policy_is_read_and_its_mistakes_are_reported() -> None:
    law = b"[guard]\nmax_drop = 0.05\nmin_units = 7700\nignore_base_failures = true\n"
    guard = parse({"ciguard.toml": law, "pyproject.toml": b"["}, {}).guard
    assert (guard.max_drop, guard.min_units, guard.ignore_base_failures) == (0.05, 7700, True)
    assert parse({}, {}).guard.max_drop == 0.01
    shares = [
        parse({"ciguard.toml": f"[guard]\nmin_executed = {text}\n".encode()}, {})
        for text in ('"95%"', "0.95", "1")
    ]
    assert [config.guard.min_executed for config in shares] == [0.95, 0.95, 1.0]
    with pytest.raises(CiguardError) as caught:
        parse(
            {"pyproject.toml": b"[tool.ciguard.guard]\nmax_drop = 5\nignore_base_failures = 3\n"},
            {},
        )
    output = str(caught.value)
    assert "pyproject.toml: tool.ciguard: guard.max_drop: expected at most 1, found 5" in output
    assert "guard.ignore_base_failures: " in output


@pytest.mark.parametrize(
    ("name", "text", "output"),
    [
        (FILE, "x = 1" + "0" * 5000, "ciguard.toml: Exceeds the limit"),
        (FILE, "x = " + "[" * 5000, "ciguard.toml: maximum recursion depth"),
        (FILE, "plan = 5", "ciguard.toml: plan: "),
        (FILE, f'[pool.a]\nmemory = "{"9" * 5000}GB"', "pool.a.memory: expected a size like"),
        (FILE, "[pool.a]\nruns_on = [-inf]", "pool.a.runs_on: expected a label, a list of labels"),
        ("pyproject.toml", "tool = {ciguard = 5}", "pyproject.toml: tool.ciguard: "),
    ],
)
def test_file_that_no_program_wrote_is_refused(name: str, text: str, output: str) -> None:
    with pytest.raises(CiguardError) as caught:
        parse({name: text.encode()}, {"CIGUARD_PLAN_SHARDS": "2"})
    assert output in str(caught.value)
    assert parse({"pyproject.toml": b"tool = 5"}, {}) == parse({}, {})


@pytest.mark.parametrize(
    ("written", "read"),
    [("[8]", ("8",)), ('["1-255"]', ("1-255",)), ('[8, "10-20"]', ("8", "10-20")), ("[]", ())],
)
def test_exit_codes_are_numbers_or_ranges(written: str, read: tuple[str, ...]) -> None:
    text = f'[suite.a]\nframework = "command"\nfailed_exit_codes = {written}\n'
    assert parse({FILE: text.encode()}, {}).suite["a"].failed_exit_codes == read


@pytest.mark.parametrize("written", ["[0]", "[256]", '["5-1"]', '["a"]', "[true]", "[1.5]", "8"])
def test_exit_codes_that_cannot_be_meant_are_refused(written: str) -> None:
    text = f'[suite.a]\nframework = "command"\nfailed_exit_codes = {written}\n'
    with pytest.raises(CiguardError, match="failed_exit_codes"):
        parse({FILE: text.encode()}, {})


METRICS = """
[metrics]
keep = ["step", "xla.*"]
conditions = ["XLA_COMMIT"]
[metrics.hits]
pattern = "pool hits (?P<value>.*)"
better = "higher"
"""


def test_section_of_metrics_holds_its_keys_and_patterns() -> None:
    found = parse({FILE: METRICS.encode()}, {}).metrics
    assert (found.keep, found.conditions) == (("step", "xla.*"), ("XLA_COMMIT",))
    assert {name: one.better for name, one in found.patterns.items()} == {"hits": "higher"}
    assert parse({}, {}).metrics.patterns == {}


def test_metric_of_a_record_needs_no_pattern_for_its_direction() -> None:
    text = '[metrics.hits]\nbetter = "higher"\n[metrics.heap]\nexact = true\n'
    config = parse({FILE: text.encode()}, {})
    assert len(log_patterns(config)) == len(log_patterns(parse({}, {})))
    found = metric_directions(config)
    assert found["hits"] == Direction("higher")
    assert found["heap"] == Direction(None, exact=True)
    assert found["allocator.bytes_in_use"].better == "lower"


def test_bounds_are_in_the_unit_and_keep_the_direction() -> None:
    heap = (
        "[metrics.heap]\npattern = 'heap (?P<value>.)'\nunit = 'MiB'\nat_least = 0\nat_most = 2\n"
    )
    text = f"{heap}[metrics.'allocator.bytes_in_use']\nat_most = 5"
    config = parse({FILE: text.encode()}, {})
    found = metric_directions(config)
    assert found["heap"] == Direction("", at_least=0, at_most=2 << 20)
    assert found["allocator.bytes_in_use"].at_most == 5
    assert process_log_reader(config) is not None
    assert process_log_reader(parse({}, {})) is None


@pytest.mark.parametrize(
    ("text", "output"),
    [
        (
            '[metrics.keep]\npattern = "abc"',
            "metrics.keep: expected a list, found {'pattern': 'abc'}",
        ),
        ('[metrics]\nkeep = "step"', "metrics.keep: expected a list, found 'step'"),
        ('[metrics]\nkept = ["step"]', "metrics.kept: expected a table, found ['step']"),
        (
            '[metrics]\nconditions = ["A=1"]',
            "metrics.conditions.0: expected the name of an environment variable, found 'A=1'",
        ),
        (
            '[metrics.hits]\npatern = "abc"',
            "metrics.hits.patern: unknown key\n  fix: did you mean pat",
        ),
        ('[metrics.hits]\npattern = "a"', "metrics.hits.pattern: no plain text in 'a'"),
        ('[metrics.hits]\nunit = "s"', "metrics.hits.unit: of no pattern"),
        ('[metrics.hits]\nkey = ["size"]', "metrics.hits.key: of no pattern"),
        ('[metrics.hits]\nwithin = "a (?P<b>c)"', "metrics.hits.within: no plain text"),
        ('[metrics.hits]\nwithin = "kernel (?P<b>c)"', "metrics.hits.within: of no pattern"),
        ("[metrics.hits]\nat_most = inf", "metrics.hits.at_most: expected a finite number"),
        ("[metrics.hits]\nat_least = 2\nat_most = 1", "metrics.hits.at_least: above at_most"),
        ('[metrics]\nkeep = [""]', "metrics.keep: a name without a character"),
    ],
)
def test_mistakes_of_the_section_of_metrics(text: str, output: str) -> None:
    with pytest.raises(CiguardError) as caught:
        parse({FILE: text.encode()}, {})
    assert output in str(caught.value)
