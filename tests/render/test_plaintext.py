"""A document in a terminal."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from render.samples import HOSTILE, sample

from ciguard.document import (
    Bullets,
    Cell,
    Code,
    Column,
    Facts,
    Headline,
    Item,
    Section,
    Table,
    identifier,
)
from ciguard.render.plaintext import as_text

TABLE = Table(
    (Column("test"), Column("wall", "right", drop=1), Column("shard", drop=2)),
    ((Code("a" * 30), Cell("12 s", 12), "01"), (Code("b"), "3 min 05 s", "02")),
)


def test_columns_are_aligned_and_numbers_right_justified() -> None:
    """Without trailing blanks."""
    assert as_text([TABLE]) == (
        "test                                  wall  shard\n"
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa        12 s  01\n"
        "b                               3 min 05 s  02\n"
    )


@pytest.mark.parametrize(
    ("columns", "first"),
    [
        (49, "test                                  wall  shard"),
        (48, "test                                  wall"),
        (41, "test"),
    ],
)
def test_columns_are_dropped_if_a_line_is_too_long(columns: int, first: str) -> None:
    """Those of the largest `drop` first."""
    assert as_text([TABLE], columns=columns).splitlines()[0] == first


def test_table_still_too_wide_becomes_a_list() -> None:
    """The first cell on its line, the others below."""
    table = Table((Column("test"), Column("change")), ((Code("t" * 70), "1 s -> 2 s"),))
    assert as_text([table]) == f"  {'t' * 70}\n    change 1 s -> 2 s\n"


def test_long_values_wrap_in_their_column() -> None:
    """The term stands alone."""
    text = as_text([Facts((("plan", "word " * 12), ("baseline", "x")))], columns=50)
    assert text == (
        "plan      word word word word word word word word\n"
        "          word word word word\n"
        "baseline  x\n"
    )


def test_omitted_rows_are_counted() -> None:
    table = Table((Column("n"),), tuple((str(n),) for n in range(1234)), noun="failure")
    assert as_text([table], rows=2).splitlines() == ["n", "0", "1", "and 1,232 more failures"]


def test_an_empty_section_has_no_title() -> None:
    """Nor does a section of another format."""
    empty = Section("a", (Table((Column("n"),), ()),), "Empty")
    page = Section("b", (TABLE,), "Page", formats=("html",))
    assert as_text([Headline("PASSED"), empty, page]) == "PASSED\n"


@given(st.text())
def test_no_foreign_text_breaks_a_line(foreign: str) -> None:
    """What cannot be printed is spelled out, and lines of words fit the width."""
    text = as_text(sample(foreign[:30]))
    assert all(character.isprintable() or character == "\n" for character in text)


def test_hostile_text_is_printed_verbatim() -> None:
    """A terminal knows no markup; the line feed is spelled out."""
    assert "FAILED: <b>x</b> | @team #1 `y` www.example.com\\n# z" in as_text(sample(HOSTILE))


def test_an_id_is_never_broken() -> None:
    name = f"tests/test_{'a' * 90}.py::test[with a space]"
    blocks = (
        Headline(("1 test has no result: ", identifier(name))),
        Bullets((Item(("because: ", identifier(name), ", and more words after it " * 3)),)),
        Table((Column("test"), Column("why")), ((identifier(name), "it is so " * 9),)),
        Facts((("longest", ("1 s, ", identifier(name))),)),
    )
    text = as_text(blocks)
    assert text.count(name) == 4
    assert all(len(line) <= 80 or name in line for line in text.splitlines())
