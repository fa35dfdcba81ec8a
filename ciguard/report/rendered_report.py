"""What a report comes to: its blocks in each format, and how the process ends. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from ciguard.render.markdown import as_markdown
from ciguard.report import view

if TYPE_CHECKING:
    from ciguard.model import Record
    from ciguard.render.markdown import SizeLimit
    from ciguard.report.data import ReportData

NO_PLAN: Final = "this run has no plan"
NOT_EVALUATED: Final = "this run could not be judged"


@dataclass(frozen=True, slots=True)
class Report:
    """What there is to show, and how the process ends.

    `contents` is None where nothing could be judged: then `problem` names that, and `why` why.
    """

    contents: ReportData | None
    exit_code: int
    why: str = ""
    problem: str = NO_PLAN
    records: tuple[Record, ...] = ()

    @property
    def headline(self) -> str:
        """The verdict in a sentence."""
        return self.headlines[0]

    @property
    def headlines(self) -> tuple[str, ...]:
        """The sentences of guard and comparison."""
        return view.headlines(self.contents) if self.contents else (f"INCOMPLETE: {self.problem}",)

    @property
    def needs_attention(self) -> bool:
        """Say whether somebody should look: also where the policy lets it pass."""
        compared = self.contents.comparison if self.contents is not None else None
        regressed = compared is not None and compared.state in {"worse", "mixed"}
        return bool(self.exit_code) or regressed

    def text(self, limit: SizeLimit) -> str:
        """Markdown as long as it may be, with the footer of the policy where that fits."""
        if self.contents is None:
            return as_markdown(view.not_evaluated(self.problem, self.why), limit=limit)
        footer = self.contents.policy_info.footer
        size = limit.length(footer) + 1
        footer = f"\n{footer.rstrip()}\n" if footer and size < limit.amount // 2 else ""
        limit = replace(limit, amount=limit.amount - size) if footer else limit
        place = view.full_text_location(self.contents)
        return (
            as_markdown(view.document(self.contents), limit=limit, full_text_location=place)
            + footer
        )

    def page(self) -> str:
        """The HTML page."""
        # Imported here: Markdown need not pay for Jinja.
        from ciguard.render.html import as_html  # noqa: PLC0415

        if self.contents is None:
            return as_html(view.not_evaluated(self.problem, self.why))
        return as_html(view.document(self.contents, self.records))
