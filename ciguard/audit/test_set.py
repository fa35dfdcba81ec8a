"""The tests that exist, indexed for filters. Pure."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from ciguard.audit.filters.expression import TextIndex, set_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ciguard.codec.inventory_file import InventoryUnit


class TestSet:
    """Tests by position; sets of them are integers (`filters/expression.py`).

    Attributes:
        units: as listed, each once.
        has_categories, has_traits: the list gives them at all, if only as an empty list: without,
            no filter by a category, or by another trait, can be judged.
        has_files: without, it is not known which tests lie below a folder.
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
        """An index of a text of each test, made once."""
        if text_of not in self._indices:
            self._indices[text_of] = TextIndex([text_of(unit) for unit in self.units])
        return self._indices[text_of]

    @cached_property
    def traits(self) -> Mapping[str, Mapping[str, int]]:
        """Names and values of traits, lower case, each with its tests."""
        places: dict[str, dict[str, list[int]]] = {}
        for place, unit in enumerate(self.units):
            pairs = [("category", value) for value in unit.categories or ()]
            for name, value in (*pairs, *(unit.traits or {}).items()):
                values = places.setdefault(name.lower(), {})
                values.setdefault(value.lower(), []).append(place)
        size = len(self.units)
        return {
            name: {value: set_of(found, size) for value, found in values.items()}
            for name, values in places.items()
        }

    def below(self, folder: str) -> int:
        """The tests whose file lies, or may lie, below a folder as `tests/Unit/`; all for ""."""
        if not (folder and self.has_files):
            return self.everything
        prefix = folder.rstrip("/") + "/"
        found = (
            place for place, unit in enumerate(self.units) if (unit.file or "").startswith(prefix)
        )
        return set_of(found, len(self.units))


def class_of(name: str) -> str:
    """The part of a name before its last dot; brackets of arguments do not count."""
    return name.partition("(")[0].rpartition(".")[0]
