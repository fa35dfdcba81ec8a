"""The adapter of programs without a framework: placeholders, lists, exit codes."""

from __future__ import annotations

import pytest
from run.frameworks.test_registry import batch

from ciguard.model import Suite, Variant
from ciguard.run.frameworks.base import ListedUnit
from ciguard.run.frameworks.command import COMMAND

SUITE = Suite(
    "command",
    ("run", "{units_file}", "--out={record_file}", "{results_file}", "{print $1}", "{}"),
    args=("--as", "{variant}"),
    variants={"v": Variant(("-{variant}",))},
    list_command=("list", "{variant}"),
)


def test_placeholders_are_replaced_and_other_braces_unchanged() -> None:
    invocation = COMMAND.execution(SUITE, "v", batch())
    record = "/r/process-001.jsonl"
    assert invocation.argv == (
        *("run", "/p/units.txt", f"--out={record}", record, "{print $1}", "{}"),
        *("--as", "v", "-v"),
    )
    assert invocation.env["CIGUARD_UNITS_FILE"] == "/p/units.txt"
    assert invocation.env["CIGUARD_RECORD_FILE"] == record
    assert invocation.env["CIGUARD_STOP_FILE"] == "/p/stop"
    assert invocation.paths == {}
    assert COMMAND.listing(SUITE, "v", "", "").argv == ("list", "v")


def read(printed: str, code: int = 0) -> tuple[tuple[ListedUnit, ...], tuple[str, ...]]:
    listing = COMMAND.read_listing(SUITE, b"", printed.encode(), code)
    return listing.units, listing.errors


def test_list_has_one_id_or_json_object_per_line() -> None:
    three = '{"unit":"three","file":"t","group":"g","timeout_ms":1500,"categories":5}'
    units, errors = read(f"one\r\n\n  two words \n{three}\n")
    assert errors == ()
    assert units == (
        ListedUnit("one"),
        ListedUnit("  two words "),
        ListedUnit("three", "t", "g", 1500),
    )


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"unit":', "Expecting value"),
        ('{"unit":3}', "unit: expected text, found 3"),
        ('{"unit":""}', "unit: expected text, found ''"),
        ('{"unit":"a\\nb"}', r"the id a\nb has a line feed"),
        ("{}", "unit is missing"),
        ('{"unit":"a","group":["g"]}', "group: expected text, found ['g']"),
        ('{"unit":"a","file":{"a":1}}', "file: expected text, found {'a': 1}"),
        ('{"unit":"a","timeout_ms":"2s"}', "timeout_ms: expected an integer, found '2s'"),
        ('{"unit":"a","timeout_ms":-1}', "timeout_ms: expected a number >= 0, found -1"),
        ('{"unit":"a","timeout_ms":1' + "0" * 5000 + "}", "integer string conversion"),
        ('{"unit":' + '{"a":' * 100_000, "nested too deeply"),
    ],
)
def test_invalid_list_line_is_an_error_and_no_unit(line: str, reason: str) -> None:
    units, errors = read(f"good\n{line}\n")
    assert units == (ListedUnit("good"),)
    assert len(errors) == 1
    assert errors[0].startswith("line 2 of the list: ")
    assert reason in errors[0]


def test_failed_list_command_is_an_error() -> None:
    units, errors = read("sh: list: not found\n", 127)
    assert errors == ("the list command ended with exit code 127:\nsh: list: not found",)
    assert [unit.unit for unit in units] == ["sh: list: not found"], "no unit is planned from it"
