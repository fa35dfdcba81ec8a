"""`quarantine.toml`: what holds, and a clear text for each thing that can be wrong with it."""

from __future__ import annotations

from datetime import date

import pytest

from ciguard.codec.quarantine import Entry, decode
from ciguard.errors import InputError

TODAY = date(2026, 11, 21)
GOOD = {
    "unit": '"tests/test_mail.py::*"',
    "reason": '"answers late"',
    "issue": "4711",
    "until": "2026-12-01",
}


def entry(**changes: str | None) -> bytes:
    lines = [f"{key} = {value}" for key, value in {**GOOD, **changes}.items() if value is not None]
    return "\n".join(["[[quarantine]]", *lines, ""]).encode()


def test_valid_entry_is_read() -> None:
    found = decode(entry(suite='"unit"'), TODAY, is_base=True)
    (one,) = found.entries
    assert one == Entry(
        unit="tests/test_mail.py::*",
        reason="answers late",
        issue="#4711",
        until=date(2026, 12, 1),
        suite="unit",
    )
    assert one.reason_text == "answers late (#4711, until 2026-12-01)"
    assert one.name == "tests/test_mail.py::* of unit"
    assert found.problems == ()


@pytest.mark.parametrize(
    "until",
    ["2026-11-21", "2026-11-14", "2026-12-21", '"2026-12-21"'],
    ids=["last day", "warned", "latest", "text"],
)
def test_entry_is_valid_a_week_beyond_its_last_day_and_at_most_30_days(until: str) -> None:
    assert decode(entry(until=until), TODAY, is_base=True).problems == ()


@pytest.mark.parametrize("issue", ["4711", '"#4711"', '"https://example.org/o/r/issues/4711"'])
def test_issue_may_be_a_number_or_a_url(issue: str) -> None:
    assert decode(entry(issue=issue), TODAY, is_base=True).problems == ()


PROBLEMS = [
    ({"until": "2026-11-13"}, "until: expired on 2026-11-13: fix its tests, or renew the entry"),
    ({"until": "2026-12-22"}, "until: 2026-12-22 is more than 30 days ahead: 2026-12-21 is the"),
    ({"until": None}, "until: Field required"),
    ({"until": "2026-11-30T10:00:00Z"}, "until: Input should be a valid date"),
    ({"until": '"soon"'}, "until: Invalid isoformat string: 'soon'"),
    ({"reason": None}, "reason: Field required"),
    ({"reason": '"  "'}, "reason: String should match pattern"),
    ({"issue": None}, "issue: Field required"),
    ({"issue": '"later"'}, "issue: expected the number of an issue, or its address"),
    ({"issue": "true"}, "issue: expected the number"),
    ({"unit": '"*"'}, "unit: would quarantine all tests: name those that fail"),
    ({"suite": "3"}, "suite: Input should be a valid string"),
    ({"untill": "1"}, "untill: Extra inputs are not permitted"),
]


@pytest.mark.parametrize(("changes", "output"), PROBLEMS)
def test_invalid_entry_is_reported_and_has_no_effect(
    changes: dict[str, str | None], output: str
) -> None:
    found = decode(entry(**changes) + entry(unit='"other"'), TODAY, is_base=True)
    assert [one.unit for one in found.entries] == ["other"]
    (problem,) = found.problems
    assert problem.startswith("quarantine.toml: ")
    assert output in problem


def test_all_mistakes_of_an_entry_are_reported() -> None:
    found = decode(b"[[quarantine]]\n", TODAY, is_base=True)
    prefix = "quarantine.toml: an entry without `unit`: "
    assert [one.removeprefix(prefix) for one in found.problems] == [
        f"{key}: Field required" for key in ("unit", "reason", "issue", "until")
    ]


@pytest.mark.parametrize(
    ("content", "output"),
    [
        (b"[[quarantine]", "no TOML: "),
        (b"\xff", "no TOML: "),
        (b"x = 1" + b"0" * 5000, "no TOML: "),
        (b"x = " + b"[" * 5000, "no TOML: "),
        (b"quarantine = 3", "`quarantine` is no list of tables"),
        (b"quarantine = [3]", "`quarantine` is no list of tables"),
        (b"[[quarantined]]", "unknown key 'quarantined'"),
    ],
)
def test_invalid_quarantine_file_is_an_input_error(content: bytes, output: str) -> None:
    with pytest.raises(InputError) as raised:
        decode(content, TODAY, is_base=True)
    assert raised.value.where == "quarantine.toml"
    assert raised.value.what.startswith(output)
