"""A plan file: JSON <-> `model.Plan`. Only this module reads and writes it; plan.schema.json.

The units (tests) of a shard are a list of objects. In a large plan they are one object of lists,
one list for each key: this form has a fifth of the size and is read ten times faster. Both forms
are read. Pure; standard library only, Python 3.8+, because the program that runs a shard contains
this module.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import MISSING, fields, is_dataclass
from itertools import repeat
from operator import attrgetter
from typing import Any, Callable, Final, Iterable, Mapping, cast

from ciguard.codec.record.lines import (
    CHECKS,
    MAX_INTEGER,
    Field,
    LineError,
    LineSchema,
    by_name,
    each,
    expect_object,
    one_of,
)
from ciguard.errors import InputError
from ciguard.model import (
    DRILL_KINDS,
    GUARD_RAILS,
    SCHEMA,
    Block,
    CoverageFiles,
    CulpritCandidate,
    DeclaredPeak,
    Exclusion,
    InventorySummary,
    LegPolicy,
    Orphan,
    Plan,
    PlannedUnit,
    PlanNote,
    Pool,
    Prediction,
    Shard,
    ShardCountOption,
    Suite,
    UnitCount,
    Variant,
)
from ciguard.model.types import DRILL_PREFIX

COLUMNS_FROM: Final = 20_000  # units; a plan with fewer units is easy to read as objects
ID_DIGITS: Final = 12
_UNIT_KEYS: Final = tuple(field.name for field in fields(PlannedUnit))
# Values that are not written, so that plans of earlier versions keep their ids.
_UNWRITTEN: Final = {
    **{"fails_on_base": False, "probe_s": None, "workers": "auto", "untried": (), "serial": False},
    **{"change": "", "repeat_until_s": None, "repeat_unplanned": 0, "repeat_files": ()},
    "coverage": None,
}


def _plain(value: Any) -> Any:
    """Return a value of the model as JSON; nearly every key is written, as null if unknown."""
    if is_dataclass(value):
        named = {field.name: getattr(value, field.name) for field in fields(value)}
        return {
            key: _plain(item) for key, item in named.items() if _UNWRITTEN.get(key, ...) != item
        }
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [_plain(item) for item in value]
    return value


def _without_id(plan: Plan) -> dict[str, Any]:
    columns = sum(len(shard.units) for shard in plan.shards) >= COLUMNS_FROM
    shards = []
    for shard in plan.shards:
        content = {
            field.name: _plain(getattr(shard, field.name))
            for field in fields(Shard)
            if field.name not in ("units", *(() if shard.serial else ("serial",)))
        }
        if columns:
            named = {key: list(map(attrgetter(key), shard.units)) for key in _UNIT_KEYS}
            content["units"] = {
                key: column for key, column in named.items() if key not in _UNWRITTEN or any(column)
            }
        else:
            content["units"] = list(map(_plain, shard.units))
        shards.append(content)
    other_keys = {
        field.name: _plain(getattr(plan, field.name))
        for field in fields(Plan)
        if field.name not in ("id", "shards", *(() if plan.drill else ("drill",)))
    }
    return {**other_keys, "shards": shards}


def _dump(content: Mapping[str, Any]) -> str:
    # ASCII: a test id may hold a lone surrogate, which UTF-8 cannot carry.
    return json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _id(plan: Plan, dumped: str) -> str:
    digits = hashlib.sha256(dumped.encode("ascii")).hexdigest()[:ID_DIGITS]
    return f"{DRILL_PREFIX}{plan.drill}-{digits}" if plan.drill else digits


def encode(plan: Plan) -> bytes:
    """Return the bytes of the plan file; equal plans have equal bytes.

    `plan.id` is ignored. The written id is the first 12 hex digits of the SHA-256 of all other
    keys, dumped sorted, with separators "," and ":", in ASCII. The id of a drill has a prefix.
    """
    content = _dump(_without_id(plan))
    return f'{{"id":"{_id(plan, content)}",{content[1:]}\n'.encode("ascii")


def _units_of_columns(columns: dict[str, Any]) -> Any:
    """Return the units of columns; for 100,000 units, rows would take five times as long."""
    if not all(isinstance(column, list) for column in columns.values()):
        raise LineError("expected a list a column")
    if len({len(column) for column in columns.values()}) > 1:
        raise LineError("columns of different lengths")
    checked = [_check_column(field, columns.get(field.json_name)) for field in _UNIT.fields]
    if "unit" not in columns or any(column is None for column in checked):
        # A value is wrong or needs a conversion, and an error by rows contains its position.
        return _UNITS([dict(zip(columns, row)) for row in zip(*columns.values())])
    return tuple(map(PlannedUnit, *cast("list[Iterable[Any]]", checked)))


def _check_column(field: Field, column: list[Any] | None) -> Iterable[Any] | None:
    """Return a column if its values need no conversion by `LineSchema.build`; otherwise None."""
    if column is None:
        return None if field.default is MISSING else repeat(field.default)
    types = set(map(type, column))
    values = column
    if type(None) in types and field.default is not MISSING:
        types.discard(type(None))
        values = [value for value in column if value is not None]
        if field.default is not None:
            column = [field.default if value is None else value for value in column]
    low = 0 if field.not_negative else -MAX_INTEGER
    if not types <= {field.exact}:
        return None
    if field.exact is not str and not all(low <= value <= MAX_INTEGER for value in values):
        return None
    return column


_CHECKS: Final[dict[str, Callable[[Any], Any]]] = {
    **CHECKS,
    "Any": lambda value: value,
    "Mapping[str, Any]": expect_object,
    "GuardRail": one_of(GUARD_RAILS),
    "DrillKind": one_of(DRILL_KINDS),
}
_UNIT: Final = LineSchema(PlannedUnit, _CHECKS)
_UNITS: Final = each(_UNIT.build)


def _units(value: Any) -> Any:
    return _units_of_columns(value) if isinstance(value, dict) else _UNITS(value)


_CHECKS["PlannedUnit"] = _UNIT.build
_CHECKS["tuple[PlannedUnit, ...]"] = _units
_CHECKS["PlanNoteKind"] = _CHECKS["str"]
_CHECKS["OrphanReason"] = _CHECKS["str"]
_CHECKS["Mapping[str, Mapping[str, int]]"] = by_name(_CHECKS["Mapping[str, int]"])
_kind: Any
for _kind in (  # a class follows the classes of its fields
    *(Variant, DeclaredPeak, CoverageFiles, Suite, Pool, LegPolicy, Prediction, Block, Exclusion),
    *(ShardCountOption, CulpritCandidate, PlanNote, UnitCount, Orphan, InventorySummary, Shard),
):
    _build = LineSchema(_kind, _CHECKS).build
    _CHECKS[_kind.__name__] = _build
    _CHECKS[f"tuple[{_kind.__name__}, ...]"] = each(_build)
    _CHECKS[f"Mapping[str, {_kind.__name__}]"] = by_name(_build)
_PLAN: Final = LineSchema(Plan, _CHECKS)


def _check_references(plan: Plan) -> None:
    keys = [shard.key for shard in plan.shards]
    if len(set(keys)) != len(keys):
        raise LineError("shards: two shards have the same key")
    for shard in plan.shards:
        if shard.pool not in plan.pools:
            raise LineError(f"shards: {shard.key}: no pool {shard.pool!r} in the plan")
        for name in {unit.suite for unit in shard.units}:
            if name not in plan.suites:
                raise LineError(f"shards: {shard.key}: no suite {name!r} in the plan")
        if shard.own_count < 0 or any(block.units < 1 for block in shard.blocks):
            raise LineError(f"shards: {shard.key}: its blocks do not match its tests")


def decode(content: bytes, source: str) -> Plan:
    """Read a plan file.

    Raises:
        InputError: the file is no JSON, has a newer schema, has a missing or wrong key (named), or
            was changed after it was written (its id is not the hash of its other keys).
    """
    remake = "make it again with `ciguard plan`, and hand the file on unchanged"
    try:
        plan_values = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise InputError(f"no JSON: {error}", where=source, fix=remake) from None
    if not isinstance(plan_values, dict):
        raise InputError("no plan: expected a JSON object", where=source, fix=remake)
    schema = plan_values.get("schema")
    if isinstance(schema, int) and schema > SCHEMA:
        fix = "use the version of ciguard that wrote it, or a newer one"
        raise InputError(f"schema {schema} is newer than {SCHEMA}", where=source, fix=fix)
    try:
        plan: Plan = _PLAN.build(plan_values)
        _check_references(plan)
        other_keys = {key: value for key, value in plan_values.items() if key != "id"}
        if _id(plan, _dump(other_keys)) != plan.id:
            raise LineError(f"id: {plan.id!r} is not the hash of the rest: the file was changed")
    except (LineError, ValueError, RecursionError) as error:
        raise InputError(f"no plan: {error}", where=source, fix=remake) from None
    return plan
