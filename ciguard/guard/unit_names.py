"""A few units by name, and how many more there are. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ciguard.text import unit_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ciguard.model import UnitKey

MAX_NAMED: Final = 5  # units in a list; the rest is counted


def name_units(keys: Sequence[UnitKey], width: int = 72) -> list[str]:
    """The first few, and how many more."""
    shown = [unit_name(key, width) for key in keys[:MAX_NAMED]]
    more = len(keys) - len(shown)
    return [*shown, f"and {more:,} more"] if more else shown
