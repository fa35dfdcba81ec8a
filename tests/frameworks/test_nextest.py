"""cargo-nextest through the whole loop: what dies, exits, hangs and vanishes is accounted for."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import clean_environment
from frameworks.loop import Loop, bad, is_whole

from ciguard.run.plugins import ciguard_nextest as launcher

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


@pytest.mark.soak
def test_every_test_of_every_binary_is_recorded(nextest: Loop) -> None:
    assert nextest.planned() == UNITS
    plan = json.loads((nextest.folder / "plan.json").read_text())
    assert plan["inventory"]["files"] == {".": 15, "sums": 2}, "folders of packages"
    verdict = nextest.run(WAY="exit0", FAIL="1", ODD=ODD, CARGO_TERM_COLOR="always")
    is_whole(verdict, nextest)
    assert bad(verdict) == {
        ENDS: "crash",
        ("shop tests::wrong", ""): "failed",
        (f"shop::odd {ODD}", ""): "failed",
    }
    (failure,) = (one for one in verdict["failures"] if one["unit"] == "shop tests::wrong")
    assert (failure["file"], failure["line"]) == ("src/lib.rs", 26)
    assert 'quote " < & ü' in failure["message"]
    lines = nextest.record_lines()
    assert nextest.execution() == {"executed"}
    for kind in ("start", "result", "event"):
        units = [line["unit"] for line in lines if line["type"] == kind and "unit" in line]
        assert sorted(units) == UNITS, kind


@pytest.mark.soak
def test_limit_of_nextest_itself_is_a_timeout(nextest: Loop) -> None:
    profile = '--offline", "--profile=ci'
    nextest.configure(nextest.toml.replace("--offline", profile).replace("5s", "60s"))
    verdict = nextest.run(WAY="hang")
    is_whole(verdict, nextest)
    assert bad(verdict) == {ENDS: "timeout"}


@pytest.mark.soak
def test_exit_code_without_an_execution_is_no_pass(nextest: Loop) -> None:
    """Nor is what a wrapper ends with: the dry run of test_table.py."""
    (nextest.folder / ".config" / "nextest.toml").write_text(
        '[profile.default]\nslow-timeout = { period = "1s", terminate-after = 1, '
        'on-timeout = "pass" }\n'
    )
    verdict = nextest.run(WAY="hang")
    is_whole(verdict, nextest)
    assert bad(verdict) == {ENDS: "timeout"}, nextest.printed


@pytest.mark.soak
def test_failed_set_up_is_named(nextest: Loop) -> None:
    config = nextest.folder / ".config" / "nextest.toml"
    script = '[scripts.setup.fails]\ncommand = ["sh", "-c", "echo no database; exit $SET_UP"]\n'
    rules = '[[profile.default.scripts]]\nfilter = "binary_id(sums)"\nsetup = "fails"\n'
    config.write_text(f'experimental = ["setup-scripts"]\n{config.read_text()}{script}{rules}')
    assert nextest.run(SET_UP="0")["verdict"] == "passed"
    verdict = nextest.run(SET_UP="1")
    assert verdict["verdict"] == "incomplete"
    missing = {one["unit"] for one in verdict["missing"]}
    assert missing >= {"sums tests::adds", "sums tests::grüße"}
    assert "no database" in nextest.printed


@pytest.mark.soak
def test_what_cannot_be_built_cannot_be_listed(nextest: Loop) -> None:
    path = nextest.folder / "tests" / "ends.rs"
    path.write_text(path.read_text() + "\nconst X: i32 = undefined;\n")
    with pytest.raises(AssertionError, match="cannot find value `undefined`"):
        nextest.plan()


@pytest.mark.soak
def test_own_filter_selects_for_plan_and_run(nextest: Loop) -> None:
    flags = '--offline", "-E", "binary_id(sums)", "-E=test(=before)", "--", "--skip", "gr'
    nextest.configure(nextest.toml.replace("--offline", flags))
    assert nextest.planned() == ["shop::ends before", "sums tests::adds"]
    verdict = nextest.run()
    is_whole(verdict, nextest)
    assert verdict["verdict"] == "passed"


@pytest.mark.soak
def test_stop_file_lets_the_running_test_end(nextest: Loop, tmp_path: Path) -> None:
    files = {name: tmp_path / name for name in ("units", "record", "stop")}
    files["units"].write_text(json.dumps(UNITS))
    variables = {f"CIGUARD_{name.upper()}_FILE": str(path) for name, path in files.items()}
    program = Path(launcher.__file__)
    words = ("cargo", "nextest", "run", "--workspace", "--offline")
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", program, *words],
        cwd=nextest.folder,
        env=clean_environment(**nextest.environ, **variables),
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
