"""The one place that prints, the leg aside: answers go to stdout, talk to stderr."""

from __future__ import annotations

import sys
from typing import TextIO


def out(text: str) -> None:
    """The answer: pipe-safe, the same bytes for the same input."""
    _write(sys.stdout, text)


def err(text: str) -> None:
    """Talk: what was read, what is odd, what went wrong."""
    _write(sys.stderr, text)


def _write(stream: TextIO, text: str) -> None:
    # A test id may hold what the terminal's encoding, or UTF-8 itself, cannot carry.
    encoding = stream.encoding or "utf-8"
    safe = text.encode(encoding, "backslashreplace").decode(encoding)
    stream.write(safe if safe.endswith("\n") else f"{safe}\n")


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
