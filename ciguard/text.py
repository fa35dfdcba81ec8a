"""Numbers and foreign names as text for people: terminal, Markdown. Pure.

Names come from pull requests, so what goes into Markdown is written in character references inside
`<code>`: GitHub looks for mentions, issue numbers and markup everywhere else.
"""

from __future__ import annotations

import unicodedata
from typing import Final

_PLAIN: Final = frozenset(" /.,;-_:()=+%")  # no Markdown reader takes these for markup in a line
_CONTROLS: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def size(value_bytes: float | None) -> str:
    """Bytes for people, three digits: "512 MiB", "1.50 GiB"; "-" where nothing was measured."""
    if value_bytes is None:
        return "-"
    value, unit = float(value_bytes), "B"
    for larger in ("KiB", "MiB", "GiB"):
        if abs(value) < 1000:  # noqa: PLR2004  # four digits read worse than a larger unit
            break
        value, unit = value / 1024, larger
    digits = 0 if unit == "B" or abs(value) >= 99.95 else 1 if abs(value) >= 9.995 else 2  # noqa: PLR2004
    return f"{value:.{digits}f} {unit}"


def duration(value_s: float | None) -> str:
    """Seconds for people: "0.41 s", "12 s", "3 min 05 s", "1 h 02 min"; "-" where not measured."""
    if value_s is None:
        return "-"
    if abs(value_s) < 9.995:  # noqa: PLR2004  # would be rounded to 10.00
        return f"{value_s:.2f} s"
    if abs(value_s) < 59.5:  # noqa: PLR2004
        return f"{value_s:.0f} s"
    minutes, seconds = divmod(round(value_s), 60)
    if minutes < 60:  # noqa: PLR2004
        return f"{minutes} min {seconds:02d} s"
    hours, minutes = divmod(round(value_s / 60), 60)
    return f"{hours} h {minutes:02d} min"


def table(rows: list[tuple[str, ...]], *, right: frozenset[int] = frozenset()) -> str:
    """Columns aligned with two spaces between; `right` are the positions aligned to the right."""
    if not rows:
        return ""
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [
            cell.rjust(width) if index in right else cell.ljust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def shortened(text: str, width: int) -> str:
    """At most `width` characters; what is cut is in the middle, where ids differ least."""
    if len(text) <= width:
        return text
    kept = width - 1
    return f"{text[: kept - kept // 2]}\N{HORIZONTAL ELLIPSIS}{text[len(text) - kept // 2 :]}"


def visible(text: str) -> str:
    """One line: line ends, marks of direction and other unseen characters as `\\u....` escapes."""
    return "".join(
        character.encode("unicode_escape").decode("ascii")
        if unicodedata.category(character) in _CONTROLS
        else character
        for character in text
    )


def escaped(text: str, width: int = 2000) -> str:
    """A text that Markdown and HTML show as it is, in one line, in a table cell too."""
    return "".join(
        character if character.isalnum() or character in _PLAIN else f"&#{ord(character)};"
        for character in visible(shortened(text, width))
    )


def code(text: str, width: int = 200) -> str:
    """A foreign name or message: shown as it is, and nobody is mentioned by it."""
    return f"<code>{escaped(text, width)}</code>"
