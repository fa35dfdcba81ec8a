"""An audit for programs: JSON, schema 1. Pure."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from ciguard.audit.filters.expression import positions_in
from ciguard.audit.findings import REASONS
from ciguard.audit.view import headline

if TYPE_CHECKING:
    from ciguard.audit.findings import Audit
    from ciguard.audit.proposal import Outlook

SCHEMA: Final = 1


def as_json(found: Audit, outlook: Outlook) -> dict[str, Any]:
    """Every key is there; null is what is not known. Tests are named, in the order of the list."""
    names = [one.shard.name for one in found.shards]

    def tests(members: int) -> list[str]:
        return [found.tests.units[place].unit for place in positions_in(members)]

    change = outlook.change
    return {
        "schema": SCHEMA,
        "headline": headline(found),
        "tests": len(found.tests.units),
        "executions": found.executions,
        "redundant_executions": found.redundant,
        "in_several_shards": tests(found.in_several),
        "in_no_shard": {reason: tests(found.missing[reason]) for reason in REASONS},
        "orphans": found.orphans.bit_count(),
        "undecided": tests(found.undecided),
        "terms": found.term_count,
        "shards": [
            {
                "name": one.shard.name,
                "line": one.shard.line,
                "filter": one.shard.text,
                "tests": one.selected.sure.bit_count(),
                "tests_at_most": one.selected.possible.bit_count(),
                "only_here": one.own.bit_count(),
                "wall_s": one.wall_s,
                "timeout_s": one.shard.timeout_s,
                "unknown": one.shard.unknown or None,
            }
            for one in found.shards
        ],
        "overlaps": [
            {
                "shards": [names[one.first], names[one.second]],
                "kind": one.kind,
                "tests": one.tests.bit_count(),
            }
            for one in found.overlaps
        ],
        "empty_terms": [
            {"term": one.text, "shards": [names[place] for place in one.shards]}
            for one in found.empty_terms
        ],
        "corrections": [
            {
                "shard": names[one.shard],
                "vacuous": list(one.vacuous),
                "corrected": one.corrected or None,
                "tests": one.tests[0].bit_count(),
                "tests_corrected": one.tests[1].bit_count() if one.corrected else None,
            }
            for one in found.corrections
        ],
        "cut_classes": [
            {"class": one.name, "shards": {names[at]: n for at, n in one.shards.items()}}
            for one in found.cut_classes
        ],
        "proposal": asdict(outlook.proposal) if outlook.proposal is not None else None,
        "next_step": asdict(change) if change is not None else None,
    }
