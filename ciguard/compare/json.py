"""A comparison as JSON, written and read: schema 1 of `ciguard compare --format json`. Pure.

compare.schema.json describes it; keys may be added.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pydantic import TypeAdapter, ValidationError

from ciguard.compare import (
    baseline_matrix,
    baseline_selection,
    comparison,
    jobs,
    leaks,
    legs,
    log_comparison,
    measure_changes,
    metric_changes,
    run_columns,
    series,
    statistics,
    steps_and_artifacts,
    suite_speed,
    transitions,
)
from ciguard.compare.comparison import Comparison
from ciguard.compare.log_view import logs_headline
from ciguard.compare.wording import headline, jobs_headline
from ciguard.errors import InputError
from ciguard.logs import values
from ciguard.model import CaseKey, Ending, Outcome, UnitKey, machine_use

if TYPE_CHECKING:
    from ciguard.compare.jobs import JobsComparison
    from ciguard.compare.log_comparison import LogComparison

T = TypeVar("T")

SCHEMA: Final = 1

# The modules whose classes a comparison is made of.
PARTS: Final = (
    *(baseline_matrix, baseline_selection, comparison, jobs, leaks, legs, log_comparison),
    *(machine_use, measure_changes, metric_changes, run_columns, series, statistics),
    *(steps_and_artifacts, suite_speed, transitions, values),
)
FIX: Final = "make it with `ciguard compare BASE HEAD --format json -o FILE`"


def as_json(comparison: Comparison) -> dict[str, Any]:
    """Every key is there; null is what is not known, or cannot be told.

    All numbers of a single run are here, also those that the text only counts.
    """
    return {"schema": SCHEMA, "headline": headline(comparison).text, **_plain(comparison)}


def json_text(comparison: Comparison) -> str:
    """The same as the text of a file."""
    return json.dumps(as_json(comparison), indent=2, allow_nan=False) + "\n"


def jobs_json_text(comparison: JobsComparison) -> str:
    """Two runs without records, as the text of a file; `records` tells it from a comparison."""
    head = {"schema": SCHEMA, "records": False, "headline": jobs_headline(comparison)}
    return json.dumps({**head, **_plain(comparison)}, indent=2) + "\n"


def logs_json_text(comparison: LogComparison) -> str:
    """Two text logs, as the text of a file; `logs` tells it from the others."""
    found = _plain(comparison)
    pairs = [(one, made.pair) for one, made in zip(found["pairs"], comparison.pairs, strict=True)]
    for name in ("nearest", "refused"):
        made = getattr(comparison.pairing, name)
        pairs += zip(found["pairing"][name], made, strict=True)
    for one, pair in pairs:
        one |= {"difference": pair.difference, "ratio": pair.ratio}
    head = {"schema": SCHEMA, "logs": True, "headline": logs_headline(comparison)}
    return json.dumps({**head, **found}, indent=2, allow_nan=False) + "\n"


def _plain(value: Any) -> Any:
    if isinstance(value, CaseKey | UnitKey):
        return value._asdict()
    if is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def read_comparison(content: bytes, source: str) -> Comparison:
    """The comparison in a file.

    Raises:
        InputError: it is none, or one of a newer schema.
    """
    return read_document(
        content,
        source,
        lambda found: _adapter().validate_python(_with_infinite_ratios(found)),
        noun="comparison",
        fix=FIX,
    )


def read_document(
    content: bytes, source: str, validate: Callable[[dict[str, Any]], T], *, noun: str, fix: str
) -> T:
    """A JSON object of this schema, as the value that `validate` makes of it.

    Raises:
        InputError: it is none, or one of a newer schema.
    """
    try:
        found = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise InputError(f"no {noun}: {error}", where=source, fix=fix) from None
    if not isinstance(found, dict) or not isinstance(found.get("schema"), int):
        raise InputError(f"no {noun}", where=source, fix=fix)
    if found["schema"] > SCHEMA:
        what = f"schema {found['schema']} is newer than {SCHEMA}"
        raise InputError(what, where=source, fix="update ciguard")
    try:
        return validate(found)
    except ValidationError as error:
        detail = error.errors()[0]
        what = f"no {noun}: {'.'.join(map(str, detail['loc']))}: {detail['msg']}"
        raise InputError(what, where=source, fix=fix) from None


@cache
def _adapter() -> TypeAdapter[Comparison]:
    adapter: TypeAdapter[Comparison] = TypeAdapter(Comparison)
    # What only type checkers import there.
    names: dict[str, Any] = {
        **{name: kind for part in PARTS for name, kind in vars(part).items()},
        "CaseKey": CaseKey,
        "Ending": Ending,
        "Outcome": Outcome,
        "Mapping": Mapping,
        "UnitKey": UnitKey,
        "datetime": datetime,
    }
    adapter.rebuild(force=True, _types_namespace=names)
    return adapter


def _with_infinite_ratios(content: dict[str, Any]) -> dict[str, Any]:
    """JSON has no infinity: a change from nothing has null for its ratio."""
    for measure in ("durations", "memory"):
        verdict = content.get(measure)
        for side in ("losses", "gains"):
            changes = verdict.get(side) if isinstance(verdict, dict) else None
            for change in changes if isinstance(changes, list) else ():
                if isinstance(change, dict) and change.get("ratio", 0) is None:
                    change["ratio"] = math.inf
    return content
