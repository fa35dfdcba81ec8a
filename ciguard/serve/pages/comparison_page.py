"""`/OWNER/NAME/runs/ID/ATTEMPT/comparison`: a run beside its baseline, as `ciguard compare`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from ciguard.compare import view as compare_view
from ciguard.compare.json import read_comparison
from ciguard.document import visible
from ciguard.render.links import Links
from ciguard.serve.pages.run_page import read_answer
from ciguard.serve.pages.visit import PageNotFound

if TYPE_CHECKING:
    from ciguard.document import Block
    from ciguard.serve.pages.visit import Visit


@dataclass(frozen=True, slots=True)
class ComparisonPage:
    """A comparison: `comparison` is the JSON of `ciguard compare`; `address` of the repository."""

    TEMPLATE: ClassVar[str] = "comparison"

    repository: str
    run_id: int
    run_attempt: int
    headline: str
    address: str
    comparison: dict[str, Any]

    def blocks(self) -> tuple[Block, ...]:
        """Return the comparison as a document, without its headline."""
        comparison = read_comparison(json.dumps(self.comparison).encode(), "comparison")
        links = Links(self.address, self.run_id, self.run_attempt, comparison.candidate.sha)
        return visible(compare_view.sections(comparison, links), "html")


def comparison_page(visit: Visit) -> ComparisonPage:
    """Find the comparison of a run.

    Raises:
        PageNotFound: as `Visit.find_run`, or the run was compared with none.
    """
    with visit.service.database.read() as connection:
        repository, run = visit.find_run(connection)
    answer, _ = read_answer(visit.service, run.answer)
    if answer is None or answer.comparison is None:
        raise PageNotFound
    return ComparisonPage(
        repository.full_name,
        run.key.run_id,
        run.key.run_attempt,
        answer.comparison["headline"],
        f"{visit.service.settings.server_url}/{repository.full_name}",
        answer.comparison,
    )
