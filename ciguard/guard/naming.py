"""Ids for people: in one line, however long or hostile they are. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ciguard.text import shortened, visible

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ciguard.model import UnitKey

NAMED: Final = 5  # units in a list; the rest is counted


def one_line(text: str, width: int = 72) -> str:
    """Unseen characters spelled out, and the middle of a long text left out."""
    return shortened(visible(text), width)


def unit_name(key: UnitKey, width: int = 72) -> str:
    """The unit, with its suite and variant where it has them."""
    way = "/".join(part for part in key[:2] if part)
    return one_line(f"[{way}] {key.unit}" if way else key.unit, width)


def some(keys: Sequence[UnitKey], width: int = 72) -> list[str]:
    """The first few, and how many more."""
    shown = [unit_name(key, width) for key in keys[:NAMED]]
    more = len(keys) - len(shown)
    return [*shown, f"and {more:,} more"] if more else shown


def counted(number: int, word: str) -> str:
    """ "1 unit", "1,040 units"."""
    return f"{number:,} {word}" if number == 1 else f"{number:,} {word}s"
