"""What `ciguard doctor` shows: a line a check, what to do below it. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ciguard.document import Block, Facts, Paragraph
from ciguard.text import count_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ciguard.doctor.checks import Check
    from ciguard.document import Content


def document(checks: Sequence[Check]) -> tuple[Block, ...]:
    """All checks in their order, then how many of them are errors and warnings."""
    rows: list[tuple[str, Content]] = []
    width = max((len(check.name) for check in checks), default=0)
    for check in checks:
        rows.append((f"{check.level:<8} {check.name:<{width}}", check.what))
        if check.fix:
            rows.append(("", f"fix: {check.fix}"))
    levels = [check.level for check in checks]
    errors, warnings = levels.count("error"), levels.count("warning")
    counts = f"{count_of(errors, 'error')}, {count_of(warnings, 'warning')}"
    return (Facts(tuple(rows)), Paragraph(counts))
