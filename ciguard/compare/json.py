"""A comparison for programs: schema 1 of `ciguard compare --format json`. Pure.

docs/compare.schema.json describes it; keys may be added.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from ciguard.compare.wording import headline
from ciguard.model import CaseKey, UnitKey

if TYPE_CHECKING:
    from ciguard.compare.comparison import Comparison

SCHEMA: Final = 1


def as_json(comparison: Comparison) -> dict[str, Any]:
    """Every key is there; null is what is not known, or cannot be told.

    All numbers of a single run are here, also those that the text only counts.
    """
    return {"schema": SCHEMA, "headline": headline(comparison).text, **_plain(comparison)}


def _plain(value: Any) -> Any:
    if isinstance(value, CaseKey | UnitKey):
        return value._asdict()
    if is_dataclass(value):
        return {
            field.name: _plain(getattr(value, field.name))
            for field in fields(value)
            if field.metadata.get("json", True)
        }
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
