"""The tests that exist, indexed so that filters select sets of them. Pure."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from ciguard.audit.filters.expression import Selection, TextIndex, set_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ciguard.codec.inventory_file import InventoryUnit


class TestSet:
    """Tests by position; a set of tests is an integer (`filters/expression.py`).

    Attributes:
        units: as listed, each once.
        has_categories, has_traits: the list gives them, if only as an empty list. Otherwise, no
            filter by a category, or by another trait, can be evaluated.
        has_files: the list gives files. Otherwise, the tests below a folder are not known.
    """

    __test__ = False  # no class of tests

    def __init__(self, units: Sequence[InventoryUnit]) -> None:
        self.units = units
        self.has_traits = any(unit.traits is not None for unit in units)
        self.has_files = any(unit.file for unit in units)
        is_listed = any(unit.categories is not None for unit in units)
        self.has_categories = is_listed or "category" in self.traits
        self._indices: dict[Callable[[InventoryUnit], str], TextIndex] = {}
        self.everything = (1 << len(units)) - 1

    def index(self, text_of: Callable[[InventoryUnit], str]) -> TextIndex:
        """Return the index of a text of each test; it is built once."""
        if text_of not in self._indices:
            self._indices[text_of] = TextIndex([text_of(unit) for unit in self.units])
        return self._indices[text_of]

    @cached_property
    def traits(self) -> Mapping[str, Mapping[str, int]]:
        """Names and values of traits, lower case, each with its tests."""
        positions: dict[str, dict[str, list[int]]] = {}
        for position, unit in enumerate(self.units):
            pairs = [("category", value) for value in unit.categories or ()]
            for name, value in (*pairs, *(unit.traits or {}).items()):
                values = positions.setdefault(name.lower(), {})
                values.setdefault(value.lower(), []).append(position)
        size = len(self.units)
        return {
            name: {value: set_of(members, size) for value, members in values.items()}
            for name, values in positions.items()
        }

    def below(self, folder: str) -> int:
        """Return the tests whose file is, or may be, below a folder (`tests/Unit/`); all for ""."""
        if not (folder and self.has_files):
            return self.everything
        prefix = folder.rstrip("/") + "/"
        return self.where(lambda unit: (unit.file or "").startswith(prefix)).sure

    def where(self, matches: Callable[[InventoryUnit], bool]) -> Selection:
        """Return the tests that match, as surely selected."""
        positions = (position for position, unit in enumerate(self.units) if matches(unit))
        members = set_of(positions, len(self.units))
        return Selection(members, members)


def class_of(name: str) -> str:
    """Return the part of a name before its last dot; dots in arguments do not count."""
    return name.partition("(")[0].rpartition(".")[0]
