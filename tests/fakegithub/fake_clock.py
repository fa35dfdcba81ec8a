"""Time for a client under test: what it would have waited is noted, and nobody waits."""

from __future__ import annotations

from collections.abc import Awaitable, Callable


def noting(waits: list[float]) -> Callable[[float], Awaitable[None]]:
    """Stands for `asyncio.sleep`; appends each wait."""

    async def note(seconds: float) -> None:
        waits.append(seconds)

    return note
