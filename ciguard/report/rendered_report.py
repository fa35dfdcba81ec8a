"""What a report comes to: its contents, the text of it, and how the process ends. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ciguard.report.fitted_markdown import markdown, not_evaluated

if TYPE_CHECKING:
    from ciguard.model import Record
    from ciguard.report.data import ReportData
    from ciguard.report.fitted_markdown import SizeLimit

NO_PLAN: Final = "this run has no plan"
NOT_EVALUATED: Final = "this run could not be judged"


@dataclass(frozen=True, slots=True)
class Report:
    """What there is to tell, and how the process ends.

    `contents` is None where nothing could be judged: then `lacking` says it, and `why` why.
    """

    contents: ReportData | None
    exit_code: int
    why: str = ""
    problem: str = NO_PLAN
    records: tuple[Record, ...] = ()

    @property
    def headline(self) -> str:
        """The verdict in a sentence."""
        return self.contents.verdict.headline if self.contents else f"INCOMPLETE: {self.problem}"

    @property
    def headlines(self) -> str:
        """The verdicts of guard and comparison, a line each."""
        compared = self.contents.comparison if self.contents is not None else None
        return "\n".join([self.headline, *([compared.headline] if compared is not None else [])])

    @property
    def needs_attention(self) -> bool:
        """Say whether somebody should look: also where the policy lets it pass."""
        compared = self.contents.comparison if self.contents is not None else None
        regressed = compared is not None and compared.state in {"worse", "mixed"}
        return bool(self.exit_code) or regressed

    def text(self, limit: SizeLimit) -> str:
        """Markdown as long as it may be."""
        if self.contents is None:
            return not_evaluated(self.headline, self.why)
        return markdown(self.contents, limit)
