"""Of a system that has nothing to measure with but sizes of trees: nothing, by the same names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Mapping, Optional, Sequence

if TYPE_CHECKING:
    from ciguard.run.platforms.base import Group, Tree, Windows


class NoInstruments:
    """Measures nothing more."""

    lacks = ""  # what else a system has is said by its LACKS

    def group(self, process: int) -> Optional[Group]:  # noqa: ARG002
        """None."""
        return None

    def settled(self, group: Optional[Group]) -> Optional[Group]:
        """What it is given."""
        return group

    def windows(self, tree: Tree) -> Optional[Windows]:  # noqa: ARG002
        """None."""
        return None

    def look(self, now_s: float, trees: Sequence[Tree], size: int) -> Mapping[str, Any]:  # noqa: ARG002
        """Nothing."""
        return {}

    def pressure(self) -> Mapping[str, float]:
        """Nothing."""
        return {}

    def close(self) -> None:
        """Nothing is held."""
