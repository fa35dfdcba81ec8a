"""A comparison as JSON, written and read: schema 2 of `ciguard compare --format json`. Pure.

compare.schema.json describes the keys; later versions may add some.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime
from functools import cache
from typing import Any, Final, TypeVar

from pydantic import TypeAdapter, ValidationError

from ciguard import model
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
    whose,
)
from ciguard.compare.comparison import Comparison
from ciguard.compare.jobs import JobsComparison
from ciguard.compare.log_comparison import LogComparison
from ciguard.compare.log_view import logs_headline
from ciguard.compare.wording import headline, jobs_headline
from ciguard.errors import InputError
from ciguard.logs import pattern_table, values
from ciguard.model import CaseKey, UnitKey, machine_use

T = TypeVar("T")

SCHEMA: Final = 2

# The modules whose classes a comparison is made of.
PARTS: Final = (
    *(baseline_matrix, baseline_selection, comparison, jobs, leaks, legs),
    *(log_comparison, machine_use, measure_changes, metric_changes, run_columns, series),
    *(pattern_table, statistics, steps_and_artifacts, suite_speed, transitions, values, whose),
)
FIX: Final = "make it with `ciguard compare BASE HEAD --format json -o FILE`"


def as_json(comparison: Comparison) -> dict[str, Any]:
    """Return the comparison with all keys and all changes; the value of an unknown fact is null."""
    return {"schema": SCHEMA, "headline": headline(comparison), **_plain(comparison)}


def answers_json(comparison: Comparison) -> dict[CaseKey, Any]:
    """Return whose each failure is, as the transitions of the comparison have it."""
    return {case.key: _plain(case.answer) for case in comparison.transitions if case.answer}


def json_text(comparison: Comparison) -> str:
    return json.dumps(as_json(comparison), indent=2, allow_nan=False) + "\n"


def jobs_json_text(comparison: JobsComparison) -> str:
    """Return a comparison of jobs as the text of a file, with `records` false."""
    head = {"schema": SCHEMA, "records": False, "headline": jobs_headline(comparison)}
    return json.dumps({**head, **_plain(comparison)}, indent=2) + "\n"


def logs_json_text(comparison: LogComparison) -> str:
    """Return a comparison of logs as the text of a file, with `logs` true."""
    content = _plain(comparison)
    compared = zip(content["pairs"], comparison.pairs, strict=True)
    pairs = [(row, value.pair) for row, value in compared]
    for name in ("nearest", "refused"):
        pairs += zip(content["pairing"][name], getattr(comparison.pairing, name), strict=True)
    for row, pair in pairs:
        row |= {"difference": pair.difference, "ratio": pair.ratio}
    head = {"schema": SCHEMA, "logs": True, "headline": logs_headline(comparison)}
    return json.dumps({**head, **content}, indent=2, allow_nan=False) + "\n"


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
    """Read the comparison in a file.

    Raises:
        InputError: the content is no comparison, or of a newer schema.
    """
    return read_document(
        content,
        source,
        lambda document: _adapter().validate_python(_with_infinite_ratios(document)),
        noun="comparison",
        fix=FIX,
    )


def read_document(
    content: bytes, source: str, validate: Callable[[dict[str, Any]], T], *, noun: str, fix: str
) -> T:
    """Read a JSON object of this schema; `validate` makes the value of it.

    Raises:
        InputError: the content is no such object, or of a newer schema.
    """
    try:
        document = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise InputError(f"no {noun}: {error}", where=source, fix=fix) from None
    if not isinstance(document, dict) or not isinstance(document.get("schema"), int):
        raise InputError(f"no {noun}", where=source, fix=fix)
    if document["schema"] > SCHEMA:
        what = f"schema {document['schema']} is newer than {SCHEMA}"
        raise InputError(what, where=source, fix="update ciguard")
    try:
        return validate(document)
    except ValidationError as error:
        detail = error.errors()[0]
        what = f"no {noun}: {'.'.join(map(str, detail['loc']))}: {detail['msg']}"
        raise InputError(what, where=source, fix=fix) from None


@cache
def _adapter() -> TypeAdapter[Comparison]:
    adapter: TypeAdapter[Comparison] = TypeAdapter(Comparison)
    # Names that these modules import for type checkers only.
    names: dict[str, Any] = {
        **{name: kind for part in (model, *PARTS) for name, kind in vars(part).items()},
        "Mapping": Mapping,
        "datetime": datetime,
    }
    adapter.rebuild(force=True, _types_namespace=names)
    return adapter


def _with_infinite_ratios(content: dict[str, Any]) -> dict[str, Any]:
    """Replace null ratios by infinity, which JSON lacks: the value before was 0."""
    for measure in ("durations", "memory", "gpu_memory"):
        verdict = content.get(measure)
        for side in ("losses", "gains"):
            changes = verdict.get(side) if isinstance(verdict, dict) else None
            for change in changes if isinstance(changes, list) else ():
                if isinstance(change, dict) and change.get("ratio", 0) is None:
                    change["ratio"] = math.inf
    return content
