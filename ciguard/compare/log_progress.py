"""How far the candidate's log came: what it does not say may only stand after its end. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ciguard.logs.values import Place

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ciguard.logs.values import KeyField, LogValue

    Identity = tuple[str, str, str, str, tuple[KeyField, ...]]


@dataclass(frozen=True, slots=True)
class LoggedJob:
    """A job of a log.

    Attributes:
        name: "" where the log does not say.
        steps: names of the steps that began; () where the log does not say.
        is_whole: from the first lines of GitHub's runner to its last ones.
    """

    name: str = ""
    steps: tuple[str, ...] = ()
    is_whole: bool = False


class Progress:
    """What of the base's log is also in the candidate's.

    Args:
        jobs, values: of the base and of the candidate, values in the order of their log.
    """

    def __init__(
        self,
        jobs: tuple[Sequence[LoggedJob], Sequence[LoggedJob]],
        values: tuple[Sequence[LogValue], Sequence[LogValue]],
    ) -> None:
        self._base, self._candidate = ({one.name: one for one in side} for side in jobs)
        self._shared = {
            name: {*job.steps} & {*self._candidate[name].steps}
            for name, job in self._base.items()
            if name in self._candidate
        }
        self._places: dict[tuple[object, ...], list[Place]] = {}
        for one in values[0]:
            self._places.setdefault((*self.where(one.place), one.name, one.key), []).append(
                one.place
            )
        self.missing = tuple(self._missing({(one.place.job, one.place.step) for one in values[0]}))
        self._furthest = self._find_furthest(*values)

    def where(self, place: Place) -> tuple[str, str]:
        """Job and step, each "" where only one of the logs knows it."""
        steps = self._shared.get(place.job)
        if steps is None:
            return "", ""
        return place.job, place.step if place.step in steps else ""

    def is_past(self, example: LogValue, *, ignore_missing: bool = False) -> bool:
        """Say whether the candidate came past all places where the base has a value.

        Its job's log is whole, or a value or failure that the base has after the place recurs.

        Args:
            ignore_missing: leave out places in jobs and steps that the candidate has no log of.
        """
        last: dict[str, Place] = {}
        for place in self._places.get((*self.where(example.place), example.name, example.key), ()):
            if not (ignore_missing and self.is_missing(place)):
                last[place.job] = max(last.get(place.job, place), place, key=_position)
        return all(self._is_past(place) for place in last.values())

    def is_missing(self, place: Place) -> bool:
        """Say whether the candidate has no log of the place's job or step."""
        return any(one.job == place.job and one.step in ("", place.step) for one in self.missing)

    def _is_past(self, place: Place) -> bool:
        if self.is_missing(place):
            return False
        own = self._candidate.get(place.job)
        jobs = [own] if own is not None else [*self._candidate.values()]
        if jobs and all(one.is_whole for one in jobs):
            return True
        return self._furthest.get(place.job, (0, 0)) > _position(place)

    def _missing(self, used: set[tuple[str, str]]) -> Iterator[Place]:
        """Jobs that only the base has, and steps with values or failures that only it has."""
        for job in self._base.values():
            other = self._candidate.get(job.name)
            if other is None:
                if job.name and self._candidate and "" not in self._candidate:
                    yield Place(job.name)
            elif other.steps:
                absent = [one for one in dict.fromkeys(job.steps) if one not in other.steps]
                yield from (Place(job.name, one) for one in absent if (job.name, one) in used)

    def _find_furthest(
        self, base: Sequence[LogValue], candidate: Sequence[LogValue]
    ) -> dict[str, tuple[int, int]]:
        """By job of the base: the last position whose value or failure recurs."""
        left: dict[Identity, int] = {}
        for one in candidate:
            identity = self._identity(one)
            left[identity] = left.get(identity, 0) + 1
        furthest: dict[str, tuple[int, int]] = {}
        for one in base:
            identity = self._identity(one)
            left[identity] = left.get(identity, 0) - 1
            if left[identity] >= 0:
                job = one.place.job
                furthest[job] = max(furthest.get(job, (0, 0)), _position(one.place))
        return furthest

    def _identity(self, value: LogValue) -> Identity:
        return (*self.where(value.place), value.name, value.unit, value.key)


def _position(place: Place) -> tuple[int, int]:
    return place.step_number, place.line
