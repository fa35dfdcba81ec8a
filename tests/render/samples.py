"""Documents for the tests of the renderers."""

from __future__ import annotations

from ciguard.document import (
    Block,
    Bullets,
    Cell,
    Code,
    Column,
    Details,
    Facts,
    Folded,
    Headline,
    Item,
    Link,
    Paragraph,
    Section,
    Strong,
    Table,
)

HOSTILE = "<b>x</b> | @team #1 `y` www.example.com\n# z"


def sample(foreign: str = "tests/test_a.py::test_b") -> tuple[Block, ...]:
    """One of each block, with a foreign text wherever a view may put one."""
    table = Table(
        (Column("test"), Column("wall", "right", drop=1), Column("message", drop=2)),
        tuple(
            (Code(f"{foreign}[{number}]"), Cell(f"{number} s", number), Folded(f"{foreign}\nmore"))
            for number in range(30)
        ),
        noun="failure",
        total=("all", Cell("435 s", 435), ""),
    )
    return (
        Headline(f"FAILED: {foreign}", "failed"),
        Paragraph(("before -> after of ", Code(foreign), ", ", Strong("now"))),
        Facts((("plan", foreign), ("run", Link("101", "https://example.com/runs/101")))),
        Section("failures", (table,), "Failures", (30, "failure"), drop=1),
        Section("empty", (Table(table.columns, ()),), "Nothing", drop=2),
        Details(
            ("2 shards, ", foreign),
            (Bullets((Item(foreign, (Item(Link(foreign, foreign)),)), Item("second"))),),
        ),
        Bullets((Item(Code(f"ciguard run --only '{foreign}'", 400)),), "command"),
        Paragraph(foreign, is_note=True),
    )
