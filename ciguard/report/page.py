"""The report as one HTML file that opens offline. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from ciguard.compare.scatter import scatter
from ciguard.report import charts
from ciguard.report.data import without_gaps
from ciguard.template_loader import MAX_ROWS_WITHOUT_SCRIPT, page_script, render

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ciguard.model import Record
    from ciguard.report.data import ReportData

TEMPLATE: Final = "report.html.j2"


def html(
    contents: ReportData | None,
    records: Sequence[Record] = (),
    *,
    headline: str = "",
    why: str = "",
) -> str:
    """The whole page.

    Args:
        contents: None for a run that could not be judged; then `headline` and `why` say so.
        records: of this run; the memory of its legs over time is drawn from them.
    """
    if contents is None:
        return render("notjudged.html.j2", headline=headline, why=why, **page_script())
    compared = contents.comparison
    if compared is not None:
        compared = without_gaps(compared, contents.verdict)
    contents = replace(contents, comparison=compared)
    return render(
        TEMPLATE,
        report=contents,
        verdict=contents.verdict,
        comparison=compared,
        walls=charts.wall_chart(contents.verdict.legs),
        curves=charts.memory_chart(contents.plan, records),
        stacks=charts.hotspot_chart(contents.verdict.hotspots),
        scatter=scatter(compared.scatter_sample) if compared else None,
        rows=MAX_ROWS_WITHOUT_SCRIPT,
        **page_script(),
    )
