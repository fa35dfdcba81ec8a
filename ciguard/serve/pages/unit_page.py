"""`/OWNER/NAME/tests?unit=...`: outcomes of a test, and SVG charts of its time and peak, by run."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from ciguard.errors import UsageError
from ciguard.model import UnitKey
from ciguard.serve.state import run_rows
from ciguard.text import whole_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ciguard.serve.pages.visit import Visit
    from ciguard.serve.results.read_model import UnitRun

MAX_NAME: Final = 20_000  # characters
SHOWN: Final = 100  # lines of the table in HTML; JSON has all
WIDTH: Final = 1000.0
HEIGHT: Final = 100.0
HEADROOM: Final = 1.05


@dataclass(frozen=True, slots=True)
class RunChart:
    """A chart of a measure over the runs of a test, the oldest run at the left.

    Attributes:
        most: value at the top.
        lines: points of each line; a run without a value ends a line.
        bad: x of each run in which the test failed.
    """

    most: float
    lines: tuple[str, ...]
    bad: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class UnitPage:
    """A test's runs, the newest first; `case` is None for all its cases, `owners` if unknown."""

    TEMPLATE: ClassVar[str] = "unit"

    repository: str
    suite: str
    variant: str
    unit: str
    case: str | None
    owners: list[str] | None
    missing_runs: tuple[str, ...]
    runs: tuple[UnitRun, ...]

    def shown(self) -> tuple[UnitRun, ...]:
        return self.runs[:SHOWN]

    def wall_chart(self) -> RunChart | None:
        return draw_runs([(run.wall_s, run.status) for run in reversed(self.runs)])

    def peak_chart(self) -> RunChart | None:
        return draw_runs([(run.peak_bytes, run.status) for run in reversed(self.runs)])


def unit_page(visit: Visit) -> UnitPage:
    """Find a test's runs.

    Raises:
        PageNotFound: as `Visit.find_repository`.
        UsageError: no test is named.
        RemoteError: results cannot be read.
    """
    names = {name: visit.query.get(name, "") for name in ("suite", "variant", "unit", "case")}
    with visit.service.database.read() as connection:
        repository = visit.find_repository(connection)
        owners = run_rows.owners_of(connection, repository.id)
    if not names["unit"]:
        fix = "follow a link of a run, or add unit=NAME to the address"
        raise UsageError("expected the name of a test", where="unit", fix=fix)
    for name, value in names.items():
        if len(value) > MAX_NAME:
            raise UsageError(f"expected at most {MAX_NAME:,} characters", where=name)
    key = UnitKey(names["suite"], names["variant"], names["unit"])
    case = names["case"] or None
    answer = visit.read_model.unit_runs(repository.id, key, case)
    named = owners.get(whole_name(key))
    return UnitPage(repository.full_name, *key, case, named, answer.missing_names, answer.value)


def draw_runs(runs: Sequence[tuple[float | None, str]]) -> RunChart | None:
    """Draw value and status of each run; None where no run has a value."""
    known = [value for value, _ in runs if value is not None]
    if not known:
        return None
    most = max(known) * HEADROOM or 1.0
    step = WIDTH / max(1, len(runs) - 1)
    points = [
        None if value is None else f"{index * step:.1f},{HEIGHT * (1 - value / most):.1f}"
        for index, (value, _) in enumerate(runs)
    ]
    groups = itertools.groupby(points, key=lambda point: point is not None)
    lines = tuple(
        _line([point for point in group if point]) for is_known, group in groups if is_known
    )
    bad = tuple(round(i * step, 1) for i, (_, status) in enumerate(runs) if status == "bad")
    return RunChart(most, lines, bad)


def _line(points: list[str]) -> str:
    """Return the points of a line; a single point twice, which SVG draws as a dot."""
    return " ".join(points if len(points) > 1 else points * 2)
