"""A plan that is kept in the repository against the configuration that is there now. Pure.

New units of its suites run all the same; a new suite or variant, or another command, needs the plan
made again, and nobody but the report would notice.
"""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Final

from ciguard.guard.verdict import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ciguard.model import Plan, Suite

# From records, and no business of the file.
OBSERVED_KEYS: Final = frozenset({"base_bytes", "setup_s", "teardown_s"})
FIX: Final = "run `ciguard plan --static` and commit what it writes"


def check_stale_plan(plan: Plan, suites: Mapping[str, Suite]) -> Iterator[Finding]:
    """What the plan does not know, or knows otherwise.

    Args:
        suites: as configured now.
    """
    for name, suite in sorted(suites.items()):
        known = plan.suites.get(name)
        if known is None:
            what = f"{_suite_name(name)} is newer than the kept plan: no shard runs it"
            yield Finding("incomplete", "stale_plan", what, fix=FIX)
            continue
        for variant in sorted(suite.variants.keys() - known.variants.keys()):
            what = f"{_suite_name(name, variant)} is newer than the kept plan: no shard runs it"
            yield Finding("incomplete", "stale_plan", what, fix=FIX)
        changed = [
            field.name
            for field in fields(suite)
            if field.name not in OBSERVED_KEYS | {"variants"}
            and getattr(suite, field.name) != getattr(known, field.name)
        ]
        both = suite.variants.keys() & known.variants.keys()
        if any(suite.variants[one] != known.variants[one] for one in both):
            changed.append("variant")
        if changed:
            what = f"{_suite_name(name)} ran as the kept plan has it, not as configured: "
            yield Finding("warning", "stale_plan", what + ", ".join(changed), fix=FIX)
    for name in sorted(plan.suites.keys() - suites.keys()):
        what = f"{_suite_name(name)} is in the kept plan and no longer configured"
        yield Finding("warning", "stale_plan", what, fix=FIX)


def _suite_name(suite: str, variant: str = "") -> str:
    named = f'suite "{suite}"' if suite else "the suite"
    return f'{named}, variant "{variant}",' if variant else named
