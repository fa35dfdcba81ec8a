"""Mocha through the whole loop, where it differs from other frameworks of Node."""

from __future__ import annotations

import json

import pytest
from frameworks.loop import Loop, bad, is_whole

CASES, ENDS, LOCAL = "test/cases.js", ("test/ends.js", "ends"), "test/local.js"
ODD = "test/more/odd [x] $(y) 'z' grüße.js"
FILES = sorted(
    [
        *(CASES, ENDS[0], LOCAL, ODD, "test/broken.js", "test/first.js", "test/many.js"),
        *("test/module.mjs", "test/zero.js"),
    ]
)


def results(loop: Loop, unit: str) -> dict[str, str]:
    """Outcomes of a file's tests, by name; of the file itself by ""."""
    lines = [line for line in loop.record_lines() if line.get("type") == "result"]
    return {line.get("case", ""): line["outcome"] for line in lines if line["unit"] == unit}


@pytest.mark.soak
def test_each_test_of_a_file_has_its_outcome(mocha: Loop) -> None:
    assert mocha.planned() == FILES
    verdict = mocha.run()
    is_whole(verdict, mocha)
    assert verdict["verdict"] == "passed", bad(verdict)
    names = ("twice", "twice #2", "", "ends twice", "throws no error", "calls no callback")
    assert results(mocha, CASES) == {
        "is outside of describe": "passed",
        "is outside, and behind": "passed",
        "cases passes at the second try": "passed",
        "cases skips itself": "skipped",
        **{f"cases {name}": "passed" for name in names},
    }
    reruns = [line["case"] for line in mocha.record_lines() if line.get("reruns")]
    assert reruns == ["cases passes at the second try"]
    assert results(mocha, "test/zero.js") == results(mocha, "test/first.js") == {"": "skipped"}


@pytest.mark.soak
def test_tests_that_a_failed_hook_left_out_are_named(mocha: Loop) -> None:
    verdict = mocha.run(WAY="each")
    left = ("twice", "twice #2", "", "ends twice", "throws no error", "calls no callback")
    found = results(mocha, CASES)
    assert [name for name in left if found[f"cases {name}"] != "skipped"] == []
    assert found["is outside, and behind"] == "passed"
    (failure,) = verdict["failures"]
    assert failure["message"].splitlines()[0] == (
        'Error: fails before each, in cases "before each" hook for "twice"'
    )


@pytest.mark.soak
def test_what_fails_after_its_end_is_an_error_of_its_file(mocha: Loop) -> None:
    verdict = mocha.run(WAY="late")
    assert bad(verdict) == {(CASES, ""): "errored"}
    is_whole(verdict, mocha)
    assert results(mocha, CASES)["cases ends twice"] == "passed"


@pytest.mark.soak
def test_files_after_mocha_gave_up_are_named(mocha: Loop) -> None:
    verdict = mocha.run(WAY="tick")
    assert bad(verdict) == {(ENDS[0], ""): "errored"}
    assert verdict["verdict"] == "incomplete"
    assert "Mocha gave up: Error: fails after its end" in " ".join(mocha.printed.split())


@pytest.mark.soak
def test_failure_after_all_files_is_one_of_the_last(mocha: Loop) -> None:
    verdict = mocha.run(WAY="after")
    assert verdict["verdict"] == "failed"
    assert [one["outcome"] for one in verdict["failures"]] == ["errored", "errored"]


@pytest.mark.soak
def test_failure_in_require_is_shown(mocha: Loop) -> None:
    verdict = mocha.run(WAY="require")
    assert verdict["verdict"] == "incomplete"
    assert len(verdict["missing"]) == len(FILES)
    assert "fails in --require" in mocha.printed


@pytest.mark.soak
@pytest.mark.parametrize(
    "options",
    [
        {"parallel": True, "jobs": 2},
        {"grep": "has its hooks", "fail-zero": True},
        {"max-old-space-size": "200"},  # in a process of its own
        {"bail": True, "retries": 1, "exit": True, "reporter": "dot"},
    ],
    ids=lambda options: next(iter(options)),
)
def test_options_of_the_project_go_on(mocha: Loop, options: dict[str, object]) -> None:
    if "parallel" in options:  # which Mocha allows no --file with
        (mocha.folder / "test/first.js").write_text("globalThis.prepared = true;")
        source = (mocha.folder / CASES).read_text()
        (mocha.folder / CASES).write_text(f'require("./first.js");\n{source}')
    verdict = mocha.run(OPTIONS=json.dumps(options))
    is_whole(verdict, mocha)
    if "grep" in options:  # newer than the plan, and then part of it
        assert (verdict["verdict"], bad(verdict)) == ("incomplete", {})
        mocha = Loop(mocha.folder, {"OPTIONS": json.dumps(options)})
        mocha.plan()
        verdict = mocha.run()
    assert verdict["verdict"] == "passed", (bad(verdict), mocha.printed)
    assert results(mocha, LOCAL) == {"has its hooks": "passed"}
    other = results(mocha, "test/module.mjs")
    assert other == ({"": "skipped"} if "grep" in options else {"module is imported": "passed"})


@pytest.mark.soak
def test_heap_limit_of_mocha_is_that_of_its_child(mocha: Loop) -> None:
    verdict = mocha.run(WAY="heap", OPTIONS='{"max-old-space-size": "200"}')
    is_whole(verdict, mocha)
    assert bad(verdict) == {ENDS: "out_of_memory"}


@pytest.mark.soak
def test_bail_names_what_it_left_out(mocha: Loop) -> None:
    verdict = mocha.run(WAY="null", OPTIONS='{"bail": true}')
    assert verdict["verdict"] == "incomplete"
    assert bad(verdict) == {(CASES, "cases throws no error"): "failed"}
    assert "bail is set; --no-bail runs all" in " ".join(mocha.printed.split())


@pytest.mark.soak
def test_file_with_hooks_and_no_test_is_named(mocha: Loop) -> None:
    verdict = mocha.run(OPTIONS='{"file": "./hooks.cjs"}')
    wanted = {("test/first.js", ""): "errored", (CASES, "is outside of describe"): "failed"}
    assert bad(verdict) == wanted
    assert "name it in Mocha's --file" in verdict["failures"][1]["message"]


@pytest.mark.soak
def test_watching_is_refused(mocha: Loop) -> None:
    verdict = mocha.run(OPTIONS='{"watch": true}')
    assert verdict["verdict"] == "incomplete"
    assert "ciguard runs no Mocha with the option watch" in mocha.printed
