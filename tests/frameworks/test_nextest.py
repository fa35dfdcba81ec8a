"""cargo-nextest through the whole loop: what dies, exits, hangs and vanishes is accounted for."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import clean_environment
from frameworks.loop import (
    NEXTEST,
    Loop,
    bad,
    holds_memory,
    is_whole,
    kill_at_random_moments,
    lay_out,
    needs_program,
)

from ciguard.run.plugins import ciguard_nextest as launcher

TOML = """[suite.rust]
framework = "nextest"
args = ["--workspace", "--offline"]
timeout = "5s"
"""
CI = TOML.replace("--offline", '--offline", "--profile=ci')
ENDS = ("shop::ends ends", "")
ODD = "a+b (x), [y] .*"
UNITS = sorted(
    [
        *(f"shop tests::{name}" for name in ("adds", "holds", "panics", "r#fn", "wrong")),
        "shop::bin/shop tests::adds",
        *(f"shop::ends {name}" for name in ("before", "ends", "f_behind")),
        *(f"shop::odd {name}" for name in ("/x/", ODD, "grüße 😀", "two: test", "~glob*")),
        "shop::odd quote \"te' n/slash\\",
        *("sums tests::adds", "sums tests::grüße"),
    ]
)


@pytest.fixture
def rust(tmp_path: Path) -> Loop:
    needs_program("cargo", "Rust")
    if not (NEXTEST / "cargo-nextest").is_file():
        pytest.skip("needs cargo-nextest: make tools")
    environ = {
        "PATH": f"{NEXTEST}{os.pathsep}{os.environ['PATH']}",
        "CARGO_TARGET_DIR": str(tmp_path.with_name(f"{tmp_path.name}-target")),
        "CARGO_INCREMENTAL": "0",
        "CARGO_PROFILE_TEST_DEBUG": "0",  # half of the time of a build
        "RUST_BACKTRACE": "0",
    }
    return lay_out(tmp_path, "nextest", TOML, **environ)


def set_config(rust: Loop, toml: str) -> None:
    (rust.folder / "ciguard.toml").write_text(toml)
    rust.plan()


@pytest.mark.soak
def test_every_test_of_every_binary_is_recorded(rust: Loop) -> None:
    assert rust.planned() == UNITS
    plan = json.loads((rust.folder / "plan.json").read_text())
    assert plan["inventory"]["files"] == {".": 15, "sums": 2}, "folders of packages"
    verdict = rust.run(WAY="exit0", FAIL="1", ODD=ODD, CARGO_TERM_COLOR="always")
    is_whole(verdict, rust)
    assert bad(verdict) == {
        ENDS: "crash",
        ("shop tests::wrong", ""): "failed",
        (f"shop::odd {ODD}", ""): "failed",
    }
    (failure,) = (one for one in verdict["failures"] if one["unit"] == "shop tests::wrong")
    assert (failure["file"], failure["line"]) == ("src/lib.rs", 26)
    assert 'quote " < & ü' in failure["message"]
    lines = rust.record_lines()
    assert rust.execution() == {"executed"}
    for kind in ("start", "result", "event"):
        units = [line["unit"] for line in lines if line["type"] == kind and "unit" in line]
        assert sorted(units) == UNITS, kind


@pytest.mark.soak
@pytest.mark.parametrize(
    ("way", "expected"),
    [
        ("leak", {}),
        ("exit101", {ENDS: "crash"}),
        ("panic", {ENDS: "failed"}),
        ("memory", {ENDS: "out_of_memory"}),
        ("hang", {ENDS: "timeout"}),
    ],
)
def test_report_names_the_culprit_and_no_other_test(
    rust: Loop, way: str, expected: dict[tuple[str, str], str]
) -> None:
    verdict = rust.run(WAY=way)
    is_whole(verdict, rust)
    assert bad(verdict) == expected, rust.printed
    assert verdict["verdict"] == ("failed" if expected else "passed")


@pytest.mark.soak
def test_limit_of_nextest_itself_is_a_timeout(rust: Loop) -> None:
    set_config(rust, CI.replace("5s", "60s"))
    verdict = rust.run(WAY="hang")
    is_whole(verdict, rust)
    assert bad(verdict) == {ENDS: "timeout"}


@pytest.mark.soak
def test_exit_code_without_an_execution_is_no_pass(rust: Loop) -> None:
    """Nor is what a wrapper ends with: the dry run of test_table.py."""
    (rust.folder / ".config" / "nextest.toml").write_text(
        '[profile.default]\nslow-timeout = { period = "1s", terminate-after = 1, '
        'on-timeout = "pass" }\n'
    )
    verdict = rust.run(WAY="hang")
    is_whole(verdict, rust)
    assert bad(verdict) == {ENDS: "timeout"}, rust.printed


@pytest.mark.soak
def test_failed_set_up_is_named(rust: Loop) -> None:
    config = rust.folder / ".config" / "nextest.toml"
    script = '[scripts.setup.fails]\ncommand = ["sh", "-c", "echo no database; exit $SET_UP"]\n'
    rules = '[[profile.default.scripts]]\nfilter = "binary_id(sums)"\nsetup = "fails"\n'
    config.write_text(f'experimental = ["setup-scripts"]\n{config.read_text()}{script}{rules}')
    assert rust.run(SET_UP="0")["verdict"] == "passed"
    verdict = rust.run(SET_UP="1")
    assert verdict["verdict"] == "incomplete"
    missing = {one["unit"] for one in verdict["missing"]}
    assert missing >= {"sums tests::adds", "sums tests::grüße"}
    assert "no database" in rust.printed


@pytest.mark.soak
def test_what_cannot_be_built_cannot_be_listed(rust: Loop) -> None:
    path = rust.folder / "tests" / "ends.rs"
    path.write_text(path.read_text() + "\nconst X: i32 = undefined;\n")
    with pytest.raises(AssertionError, match="cannot find value `undefined`"):
        rust.plan()


@pytest.mark.soak
def test_own_filter_selects_for_plan_and_run(rust: Loop) -> None:
    flags = '--offline", "-E", "binary_id(sums)", "-E=test(=before)", "--", "--skip", "gr'
    set_config(rust, TOML.replace("--offline", flags))
    assert rust.planned() == ["shop::ends before", "sums tests::adds"]
    verdict = rust.run()
    is_whole(verdict, rust)
    assert verdict["verdict"] == "passed"


@pytest.mark.soak
def test_stop_file_lets_the_running_test_end(rust: Loop, tmp_path: Path) -> None:
    files = {name: tmp_path / name for name in ("units", "record", "stop")}
    files["units"].write_text(json.dumps(UNITS))
    variables = {f"CIGUARD_{name.upper()}_FILE": str(path) for name, path in files.items()}
    program = Path(launcher.__file__)
    words = ("cargo", "nextest", "run", "--workspace", "--offline")
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", program, *words],
        cwd=rust.folder,
        env=clean_environment(**rust.environ, **variables),
        stdout=subprocess.DEVNULL,
    )
    deadline_s = time.monotonic() + 60
    start = '{"type": "start", "unit": "shop tests::holds"'
    while not (files["record"].exists() and start in files["record"].read_text()):
        assert time.monotonic() < deadline_s
        time.sleep(0.01)
    files["stop"].touch()
    assert process.wait(60) == 100
    lines = [json.loads(line) for line in files["record"].read_text().splitlines()]
    begun, closed = (
        [line["unit"] for line in lines if (line["type"], line.get("kind")) == one]
        for one in (("start", None), ("event", "closed"))
    )
    assert begun == closed == ["shop tests::adds", "shop tests::holds"]


@pytest.mark.soak
def test_memory_is_that_of_the_test_that_holds_it(rust: Loop) -> None:
    rust.run()
    holds_memory(rust, "shop tests::holds", least_mib=100, most_mib=200)


@pytest.mark.soak
def test_killed_leg_goes_on_where_it_was(rust: Loop) -> None:
    kill_at_random_moments(rust, longest_s=2.0)
