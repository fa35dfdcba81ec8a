"""What `ciguard compare --format json` wrote, read again as the value that it was. Pure."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from datetime import datetime
from functools import cache
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError

from ciguard.compare import comparison, run_changes, run_info, statistics, test_changes
from ciguard.compare.comparison import Comparison
from ciguard.compare.json import SCHEMA
from ciguard.errors import InputError
from ciguard.model import CaseKey, Ending, UnitKey

PARTS: Final = (statistics, test_changes, run_changes, run_info, comparison)
FIX: Final = "make it with `ciguard compare BASE HEAD --format json -o FILE`"


def read_comparison(content: bytes, source: str) -> Comparison:
    """The comparison in a file.

    Raises:
        InputError: it is none, or one of a newer schema.
    """
    try:
        found = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise InputError(f"no JSON: {error}", where=source, fix=FIX) from None
    if not isinstance(found, dict) or not isinstance(found.get("schema"), int):
        raise InputError("no comparison", where=source, fix=FIX)
    if found["schema"] > SCHEMA:
        what = f"schema {found['schema']} is newer than {SCHEMA}"
        raise InputError(what, where=source, fix="update ciguard")
    try:
        return _adapter().validate_python(_with_infinite_ratios(found))
    except ValidationError as error:
        detail = error.errors()[0]
        place = ".".join(map(str, detail["loc"]))
        raise InputError(f"{place}: {detail['msg']}", where=source, fix=FIX) from None


@cache
def _adapter() -> TypeAdapter[Comparison]:
    adapter: TypeAdapter[Comparison] = TypeAdapter(Comparison)
    # What only type checkers import there.
    names: dict[str, Any] = {
        **{name: kind for part in PARTS for name, kind in vars(part).items()},
        "CaseKey": CaseKey,
        "Ending": Ending,
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
