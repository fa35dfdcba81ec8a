"""What a run may be called."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ciguard.errors import CiguardError, InputError, UsageError
from ciguard.sources.references import (
    Base,
    Branch,
    CurrentRun,
    PathReference,
    Reference,
    RunId,
    parse,
)

GITHUB = "https://github.com"
GOOD: list[tuple[str, Reference]] = [
    ("123456", RunId(123456)),
    ("123456/2", RunId(123456, 2)),
    (f"{GITHUB}/o/r/actions/runs/7", RunId(7, None, "o/r", GITHUB)),
    (f"{GITHUB}/o/r/actions/runs/7/", RunId(7, None, "o/r", GITHUB)),
    (f"{GITHUB}/o/r/actions/runs/7/attempts/3", RunId(7, 3, "o/r", GITHUB)),
    (f"{GITHUB}/o/r/actions/runs/7/job/88?pr=5#step:3:1", RunId(7, None, "o/r", GITHUB)),
    ("https://git.example/o/r/actions/runs/7", RunId(7, None, "o/r", "https://git.example")),
    ("branch:main", Branch("main")),
    ("branch:release/1.x", Branch("release/1.x")),
    ("base", Base()),
    ("this", CurrentRun()),
    ("out/*.xml", PathReference("out/*.xml", wild=True)),
    ("artifacts/{shard}/r.trx", PathReference("artifacts/{shard}/r.trx", wild=True)),
]
INVALID_REFERENCES: list[tuple[str, type[CiguardError], str]] = [
    ("", InputError, "a run id (123456, 123456/2)"),
    ("nowhere", InputError, "branch:NAME, base, or this"),
    ("0", InputError, "not found"),
    ("12/0", InputError, "not found"),
    ("branch:", UsageError, "write branch:main"),
    (f"{GITHUB}/o/r/pull/7", UsageError, "no run's address"),
    (f"{GITHUB}/o/../actions/runs/7", UsageError, "OWNER/NAME"),
    ("https://", UsageError, "no run's address"),
    ("https://[/o/r/actions/runs/7", UsageError, "no address"),
]


@pytest.mark.parametrize(("text", "reference"), GOOD)
def test_valid_references(text: str, reference: Reference) -> None:
    assert parse(text, "HEAD", lambda _: False) == reference


@pytest.mark.parametrize("text", ["123", "base", "this", "branch:main", "x", "out/*.xml"])
def test_existing_path_takes_precedence(text: str) -> None:
    assert parse(text, "HEAD", lambda _: True) == PathReference(text)


@pytest.mark.parametrize(("text", "kind", "output"), INVALID_REFERENCES)
def test_invalid_references(text: str, kind: type[CiguardError], output: str) -> None:
    with pytest.raises(kind) as caught:
        parse(text, "BASE", lambda _: False)
    assert output in str(caught.value)
    assert str(caught.value).startswith("BASE")


@given(st.text() | st.from_regex(r"https?://.{0,40}"))
def test_any_text_is_parsed_or_rejected(text: str) -> None:
    with contextlib.suppress(CiguardError):
        parse(text, "BASE", lambda _: False)
