"""What GitHub reads in a workflow and PyYAML by itself does not."""

from __future__ import annotations

import pytest

from ciguard.errors import InputError
from ciguard.workflow.positions import SourceText
from ciguard.workflow.yaml_values import load, run_defaults_of

TABS = "a: ''\t\r\nb: 1 \t # one\nc: |\n  x\ty\n"


def test_tabs_at_the_end_of_a_line_are_read() -> None:
    assert load(TABS, "ci.yml") == {"a": "", "b": 1, "c": "x\ty\n"}
    source = SourceText(TABS)
    assert (source.line_number("c"), source.text) == (3, TABS)


def test_tabs_that_indent_are_refused() -> None:
    with pytest.raises(InputError, match="not YAML"):
        load("a:\n\tb: 1", "ci.yml")


def test_a_million_tabs_take_no_time() -> None:
    with pytest.raises(InputError):
        load("\t " * 500_000 + "x", "ci.yml")


@pytest.mark.parametrize(
    ("path", "text", "line"),
    [
        (("jobs", "test", "steps", 2), "", 5),
        (("jobs", "test", "steps", 2, "run"), "pytest b", 7),
        (("jobs", "test", "steps", 2, "run"), "absent", 5),
        (("jobs", "test", "steps", 9), "", 3),
        (("jobs", "absent", "if"), "", 1),
        ((), "", 1),
    ],
)
def test_line_number_is_of_the_text_or_of_the_last_key(
    path: tuple[str | int, ...], text: str, line: int
) -> None:
    written = (
        "jobs:\n  test:\n    steps:\n      - uses: a\n      - run: |\n          pytest a\n"
        "          pytest b\n"
    )
    assert SourceText(written).line_number(*path, text=text) == line


def test_default_without_a_value_leaves_that_of_the_workflow() -> None:
    workflow = {"defaults": {"run": {"shell": "bash", "working-directory": "src"}}}
    job = {"defaults": {"run": {"shell": "pwsh", "working-directory": None}}}
    assert run_defaults_of(workflow, job) == {"shell": "pwsh", "working-directory": "src"}
