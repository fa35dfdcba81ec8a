"""What a test script adds to a call of its framework."""

from __future__ import annotations

import json

import pytest

from ciguard.errors import InputError
from ciguard.init.languages import ScriptCall, framework_call

MODULES = {"NODE_OPTIONS": "--experimental-vm-modules"}


@pytest.mark.parametrize(
    ("script", "program", "expected"),
    [
        ("jest", ("jest",), ScriptCall()),
        ("jest --color=true --watch", ("jest",), ScriptCall(("--color=true",))),
        (
            "NODE_OPTIONS=--experimental-vm-modules npx jest -c 'a b.json'",
            ("jest",),
            ScriptCall(("-c", "a b.json"), MODULES),
        ),
        (
            "cross-env TZ=UTC node --experimental-vm-modules node_modules/jest/bin/jest.js --ci",
            ("jest",),
            ScriptCall(("--ci",), {"TZ": "UTC", **MODULES}),
        ),
        ("pnpm lint && vitest run --typecheck", ("vitest", "run"), ScriptCall(("--typecheck",))),
        ("vitest --dir test", ("vitest", "run"), ScriptCall(("--dir", "test"))),
        ("playwright test -c e2e", ("playwright", "test"), ScriptCall(("-c", "e2e"))),
        # The same words mean other things to other programs.
        ("jest -w 2 -i", ("jest",), ScriptCall(("-w", "2", "-i"))),
        (
            "mocha -w -g slow -i --ui tdd",
            ("mocha",),
            ScriptCall(("-g", "slow", "-i", "--ui", "tdd")),
        ),
        ("vitest -w --ui", ("vitest", "run"), ScriptCall()),
        (
            "c8 mocha --enable-source-maps ./test/*.cjs --require ./test/before.cjs",
            ("mocha",),
            ScriptCall(("--enable-source-maps", "./test/*.cjs", "--require", "./test/before.cjs")),
        ),
        (
            "nyc --reporter text cross-env TZ=UTC node --expose-gc node_modules/.bin/_mocha -b",
            ("mocha",),
            ScriptCall(("-b",), {"TZ": "UTC", "NODE_OPTIONS": "--expose-gc"}),
        ),
        ("c8 npm run unit", ("mocha",), ScriptCall()),
        ("node test.js", ("jest",), ScriptCall()),
        ("eslint .", ("jest",), ScriptCall()),
        ("node", ("jest",), ScriptCall()),
    ],
)
def test_call_of_the_test_script_is_kept(
    script: str, program: tuple[str, ...], expected: ScriptCall
) -> None:
    assert framework_call(json.dumps({"scripts": {"test": script}}), program) == expected


@pytest.mark.parametrize(
    "script", ["jest --config $CONFIG", "jest 'not closed", "dotenv -e .env -- jest --ci"]
)
def test_call_that_cannot_be_read_is_refused(script: str) -> None:
    with pytest.raises(
        InputError, match=r"its arguments of jest cannot be read from scripts\.test:"
    ):
        framework_call(json.dumps({"scripts": {"test": script}}), ("jest",))
    readable = {"test": script, "test:unit": "jest --ci"}
    assert framework_call(json.dumps({"scripts": readable}), ("jest",)).args == ("--ci",)


def test_script_called_test_comes_first() -> None:
    scripts = {"test:unit": "jest -c unit.json", "test": "jest -c all.json", "dev": "jest --dev"}
    assert framework_call(json.dumps({"scripts": scripts}), ("jest",)).args == ("-c", "all.json")
    del scripts["test"]
    assert framework_call(json.dumps({"scripts": scripts}), ("jest",)).args == ("-c", "unit.json")


@pytest.mark.parametrize("text", ["", "[]", "{", '{"scripts": []}', '{"scripts": null}'])
def test_file_without_scripts_adds_nothing(text: str) -> None:
    assert framework_call(text, ("jest",)) == ScriptCall()
