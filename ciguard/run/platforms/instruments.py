"""Of a system that has nothing to measure with but sizes of trees: nothing, by the same names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Mapping, Optional, Sequence

if TYPE_CHECKING:
    from ciguard.run.platforms.base import Tree, Windows


class NoInstruments:
    """Measures nothing more."""

    def windows(self, tree: Tree) -> Optional[Windows]:  # noqa: ARG002
        """None."""
        return None

    def look(self, now_s: float, trees: Sequence[Tree]) -> Mapping[str, Any]:  # noqa: ARG002
        """Nothing."""
        return {}

    def pressure(self) -> Mapping[str, float]:
        """Nothing."""
        return {}

    def close(self) -> None:
        """Nothing is held."""
