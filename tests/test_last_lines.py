"""Numbers in sentences, and what of a program's output is worth a line."""

from __future__ import annotations

import pytest

from ciguard.text import both_ends, count_of, last_error_line, last_line


@pytest.mark.parametrize(
    ("number", "word", "expected"),
    [
        (0, "unit", "0 units"),
        (1, "unit", "1 unit"),
        (2, "unit", "2 units"),
        (1, "process", "1 process"),
        (2, "process", "2 processes"),
    ],
)
def test_count_of_uses_singular_or_plural(number: int, word: str, expected: str) -> None:
    assert count_of(number, word) == expected


@pytest.mark.parametrize(
    ("text", "last", "words"),
    [
        ("", "", "nothing"),
        ("=====\n   \n", "", "nothing"),
        ("one\ntwo\n\n", "two", "two"),
        ("=== 2 passed in 0.12s ===\n", "2 passed in 0.12s", "2 passed in 0.12s"),
        ("1 error\n=== 2 passed ===", "2 passed", "1 error / 2 passed"),
        ("\x1b[31mno\x1b[0m\n\x1b[0m\x1b[0m\n", "no", "no"),
        ("a\nE   ValueError: no", "ValueError: no", "ValueError: no"),
    ],
)
def test_last_line_and_last_error_line(text: str, last: str, words: str) -> None:
    assert last_line(text) == last
    assert last_error_line(text) == words


@pytest.mark.parametrize(("lines", "left_out"), [(20, []), (21, ["[1 line left out]"])])
def test_long_output_has_both_ends(lines: int, left_out: list[str]) -> None:
    """A stack of Node ends with its own loader; the message and the file are above it."""
    text = [f"line {number}" for number in range(lines)]
    assert both_ends("\n".join(text)) == "\n".join([*text[:10], *left_out, *text[-10:]])
