"""Rows of the configuration: what each line must hold, and what is refused."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ciguard.config.file import find_mistakes, user_patterns
from ciguard.logs.pattern import literal_triggers


@pytest.mark.parametrize(
    ("pattern", "trigger"),
    [
        (r"pool (?P<pool>\w+): hit rate (?P<value>\S+) %", ": hit rate "),
        (r"took (?P<value>\d+) ms", "took "),
        (r"^abcd?e", "abc"),
        (r"abc{2,3}defg", "defg"),
        (r"a(b|c)defg", "defg"),
        (r"a((b|c)xyzw)?defg", "defg"),
        (r"[abc]]?def", "def"),
        (r"[]abc]def", "def"),
        (r"a\.bcd\(efgh\)", "efgh"),
        (r"größe: \d+", "größe: "),
    ],
)
def test_each_line_holds_the_longest_plain_text(pattern: str, trigger: str) -> None:
    assert literal_triggers(pattern) == (trigger,)


@pytest.mark.parametrize(
    "pattern",
    [r"\d+ \w+", r"abc|def", r"(?i)abcdef", r"(?i:abc)def", r"(abcdef)", r"a.b.c", r"ab+"],
)
def test_no_plain_text_is_none(pattern: str) -> None:
    assert literal_triggers(pattern) == ()


PARTS = [
    "abc",
    "d",
    "(x|y)",
    "(?:uvw)?",
    "(?P<value>12)",
    "[mn]",
    "e?",
    "f+",
    "g*",
    "h{2}",
    r"\.",
    ".",
]


@given(st.lists(st.sampled_from(PARTS), max_size=8).map("".join))
def test_what_matches_holds_the_trigger(pattern: str) -> None:
    if pattern.count("?P<") > 1:
        return
    for text in texts_of(pattern):
        if re.search(pattern, text):
            assert all(trigger in text for trigger in literal_triggers(pattern))


def texts_of(pattern: str) -> list[str]:
    """Texts that match: each part with the least and with more of it."""
    choices = {
        "(x|y)": "xy", "(?:uvw)?": ["", "uvw"], "(?P<value>12)": ["12"], "[mn]": "mn",
        "e?": ["", "e"], "f+": ["f", "ff"], "g*": ["", "gg"], "h{2}": ["hh"], r"\.": ["."],
        ".": "z",
    }  # fmt: skip
    found = [""]
    rest = pattern
    while rest:
        part = next((one for one in choices if rest.startswith(one)), rest[0])
        rest = rest[len(part) :]
        found = [text + more for text in found for more in choices.get(part, [part])][:64]
    return found


def test_a_row_is_of_the_whole_table() -> None:
    facts: Any = {"unit": "%", "at_least": None, "at_most": None}
    context, row = user_patterns("hits", r"rate (?P<value>\S+)", within="pool (?P<p>x)", **facts)
    assert (row.fields, row.triggers) == ({"value": "%"}, ("rate ",))
    assert (context.kind, context.key, row.contexts) == ("context", ("p",), (context.name,))
    (counted,) = user_patterns("x", "retrying", within="", **facts)
    assert counted.fields == {}


def test_every_mistake_is_named() -> None:
    assert [key for key, _, _ in find_mistakes(r"(?P<value>\d", "", ())] == ["pattern"]
    found = list(find_mistakes(r"(?P<value>\d+)", "parsec", ("pool",)))
    assert [key for key, _, _ in found] == ["pattern", "key", "unit"]
    assert not list(find_mistakes(r"took (?P<value>\d+) in (?P<pool>\w)", "ms", ("pool",)))


def test_a_line_that_names_what_values_are_of_has_a_group() -> None:
    (mistake,) = find_mistakes(r"kernel \w+", "", None)
    assert mistake[:2] == ("pattern", r"no named group in 'kernel \\w+'")
    assert not list(find_mistakes(r"kernel (?P<kernel>\w+)", "", None))


@pytest.mark.parametrize(
    ("pattern", "what"),
    [
        (r"took (?=x)(?P<value>\S+)", "RE2 has no lookaround: invalid perl operator: (?="),
        (r"took (?<!x)(?P<value>\S+)", "RE2 has no lookaround: invalid perl operator: (?<!"),
        (r"(\w)\1 took", r"RE2 does not know this pattern: invalid escape sequence: \1"),
        (r"abc\z", r"no regular expression: bad escape \z at position 3"),
    ],
)
def test_what_re2_and_python_do_not_share_is_refused(pattern: str, what: str) -> None:
    assert [(key, text) for key, text, _ in find_mistakes(pattern, "", ())] == [("pattern", what)]


@pytest.mark.parametrize(
    ("pattern", "groups"),
    [
        (r"pool (?P<pool>\w+) took (?P<vlaue>\d+)(?P<value_unit>\w+)", ["vlaue", "value_unit"]),
        (r"limit (?P<pool>\d+) (?P<pool_text>\S+): retrying", []),
        (r"pool (?P<pool>\w+) took (?P<value>\d+) on (?P<host>\w+)", []),
    ],
)
def test_a_group_without_use_is_no_silent_count_of_lines(pattern: str, groups: list[str]) -> None:
    found = [(key, text) for key, text, _ in find_mistakes(pattern, "", ("pool",))]
    expected = [f"the group {name!r} has no use, as there is no group 'value'" for name in groups]
    assert found == [("pattern", text) for text in expected]
