"""`/OWNER/NAME/tests?unit=...`: outcomes, time and peak of a test over its last 1,000 runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from ciguard.errors import UsageError
from ciguard.model import UnitKey
from ciguard.serve.pages.result_lines import UnitRunLine, damage_notices, run_names, unit_run_line
from ciguard.serve.pages.run_chart import RunChart, draw_runs

if TYPE_CHECKING:
    from ciguard.serve.pages.visit import Visit

MAX_NAME: Final = 20_000  # characters
SHOWN: Final = 100  # lines of the table in HTML; JSON has all


@dataclass(frozen=True, slots=True)
class UnitPage:
    """A test's runs, the newest first; `case` is None for all its cases together."""

    TEMPLATE: ClassVar[str] = "unit"

    repository: str
    suite: str
    variant: str
    unit: str
    case: str | None
    missing_runs: tuple[str, ...]
    runs: tuple[UnitRunLine, ...]

    @property
    def notices(self) -> tuple[str, ...]:
        """What the numbers are not of."""
        return damage_notices(self.missing_runs)

    @property
    def shown(self) -> tuple[UnitRunLine, ...]:
        """What the table has room for."""
        return self.runs[:SHOWN]

    @property
    def bad(self) -> int:
        """Runs in which it went wrong."""
        return sum(one.status == "bad" for one in self.runs)

    @property
    def flaky(self) -> int:
        """Runs in which it passed after it had failed."""
        return sum(one.is_flaky for one in self.runs)

    @property
    def wall_chart(self) -> RunChart | None:
        """Seconds by run."""
        return draw_runs([(one.wall_s, one.status) for one in reversed(self.runs)])

    @property
    def peak_chart(self) -> RunChart | None:
        """Bytes by run."""
        return draw_runs([(one.peak_bytes, one.status) for one in reversed(self.runs)])


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
    if not names["unit"]:
        fix = "follow a link of a run, or add unit=NAME to the address"
        raise UsageError("expected the name of a test", where="unit", fix=fix)
    for name, value in names.items():
        if len(value) > MAX_NAME:
            raise UsageError(f"expected at most {MAX_NAME:,} characters", where=name)
    key = UnitKey(names["suite"], names["variant"], names["unit"])
    case = names["case"] or None
    answer = visit.read_model.unit_runs(repository.id, key, case)
    return UnitPage(
        repository.full_name,
        *key,
        case,
        run_names(answer.missing_runs),
        tuple(map(unit_run_line, answer.found)),
    )
