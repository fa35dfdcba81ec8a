from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ciguard.text import annotation, step_outputs


def read_outputs(text: str) -> dict[str, str]:
    """Read `$GITHUB_OUTPUT` as the runner does: up to a line that is the delimiter."""
    outputs, lines = {}, iter(text.split("\n"))
    for line in lines:
        if not line:
            continue
        name, delimiter = line.split("<<", 1)
        value = []
        for part in lines:
            if part == delimiter:
                break
            value.append(part)
        else:
            raise AssertionError(f"{name} is never ended")
        outputs[name] = "\n".join(value)
    return outputs


def test_output_uses_the_delimiter_syntax() -> None:
    assert step_outputs({"matrix": '{"a":\n1}'}) == (
        'matrix<<ciguard_end\n{"a":\n1}\nciguard_end\n'
    )


@given(st.text(), st.text())
@example("ciguard_end\nplan_id<<x\nstolen\nx", "")
@example("ciguard_end ciguard_end_2 ciguard_end_3", "\n\n")
def test_no_value_can_set_another_output(first: str, second: str) -> None:
    written = step_outputs({"first": first, "second": second})
    assert read_outputs(written) == {"first": first, "second": second}


def test_outputs_are_in_order() -> None:
    written = step_outputs({"b": "1", "a": "2\n3"})
    assert list(read_outputs(written).items()) == [("b", "1"), ("a", "2\n3")]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (annotation("error", "no records"), "::error::no records"),
        (annotation("warning", "slow", title="ciguard"), "::warning title=ciguard::slow"),
        (
            annotation("error", "3 % off:\r\nsee", file="a,b:c.py", line=4, title="50%: x"),
            "::error file=a%2Cb%3Ac.py,line=4,title=50%25%3A x::3 %25 off:%0D%0Asee",
        ),
        (
            annotation("error", "no \x1b[31m\nnext \u202e", file="a\x07.py", title="t\u2066"),
            "::error file=a\\x07.py,title=t\\u2066::no \\x1b[31m%0Anext \\u202e",
        ),
    ],
)
def test_annotation(text: str, expected: str) -> None:
    assert text == expected


@given(st.text(), st.text(), st.text())
def test_an_annotation_is_one_line_and_one_command(message: str, file: str, title: str) -> None:
    text = annotation("error", message, file=file, title=title)
    assert "\n" not in text
    assert "\r" not in text
    properties = text.removeprefix("::error").partition("::")[0]
    assert properties.count("=") >= bool(file) + bool(title)
    assert properties.count(",") == (1 if file and title else 0)
