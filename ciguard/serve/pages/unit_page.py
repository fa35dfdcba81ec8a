"""`/OWNER/NAME/tests?unit=...`: outcomes of a test, and SVG charts of its time and peak, by run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from ciguard.errors import UsageError
from ciguard.model import UnitKey
from ciguard.serve.pages.charts import RunChart, draw_runs
from ciguard.serve.state import run_rows
from ciguard.text import whole_name

if TYPE_CHECKING:
    from ciguard.serve.pages.visit import Visit
    from ciguard.serve.results.read_model import UnitRun

MAX_NAME: Final = 20_000  # characters
SHOWN: Final = 100  # lines of the table in HTML; JSON has all


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
        owners = run_rows.facts_of_tests(connection, repository.id, "owners_of")
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
