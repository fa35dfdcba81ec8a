"""An inventory file: the units (tests) that exist, one a line or as JSON -> values. Pure.

A line is a unit's id or a JSON object. A whole file may be a JSON list of ids or objects `{"unit",
"suite", "variant", "file", "categories", "traits", "timeout_ms", "group", "shard"}`, of which only
`unit` is required, and may be called `id`; or a JSON object of such lists, by shard:
`{"03": ["a.py::t", ...]}`. The file may be gzipped. An id with a line break requires JSON.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import IO, Any, Final

from ciguard.codec.record.lines import CHECKS, LineError, LineSchema
from ciguard.codec.unpack_limits import read_limited
from ciguard.errors import InputError
from ciguard.model import Suite, UnitKey

MAX_BYTES: Final = 1 << 30
MAX_NAME: Final = 100  # of a shard


# Not frozen, although never changed: a million frozen values take 0.7 s longer to make.
@dataclass(slots=True, unsafe_hash=True)
class InventoryUnit:
    """A unit that exists.

    Attributes:
        categories: None if the listing gives no list, not even an empty one.
        timeout_ms: limit of the unit in place of the suite's `timeout`; 0 for no limit.
        group: its units run in one shard.
        shard: to which the listing assigns the unit; None for no shard.
    """

    unit: str
    suite: str = ""
    variant: str = ""
    file: str | None = None
    categories: tuple[str, ...] | None = None
    traits: Mapping[str, str] | None = None
    timeout_ms: int | None = None
    group: str | None = None
    shard: str | None = None

    @property
    def key(self) -> UnitKey:
        """Suite, variant and id of the unit."""
        return UnitKey(self.suite, self.variant, self.unit)


@dataclass(frozen=True, slots=True)
class Inventory:
    """Units in the file's order, each once in a shard.

    Attributes:
        repeated: units that the file lists again.
        empty: shards without a unit.
    """

    units: tuple[InventoryUnit, ...]
    repeated: tuple[UnitKey, ...] = ()
    empty: tuple[str, ...] = ()


_UNIT: Final = LineSchema(InventoryUnit, CHECKS)


def read(stream: IO[bytes], source: str) -> Inventory:
    """Read an inventory, which may be empty; the first entry of a repeated unit counts.

    Raises:
        InputError: no UTF-8, malformed JSON in a file that begins like JSON, an entry without a
            unit.
    """
    content = read_limited(stream, source, MAX_BYTES)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"no UTF-8: {error}", where=source) from None
    begin = text.lstrip()[:1]
    if begin == "{" and (by_shard := _by_shard(text)) is not None:
        inventory = _deduplicate(_of_shards(by_shard, source))
        return replace(
            inventory, empty=tuple(shard for shard, units in by_shard.items() if not units)
        )
    return _deduplicate(_of_json(text, source) if begin == "[" else _of_lines(text, source))


def resolve_suites(
    units: Iterable[InventoryUnit], suites: Mapping[str, Suite], where: str
) -> tuple[InventoryUnit, ...]:
    """Complete the suite and variant of units, which may be absent if there is only one.

    Raises:
        InputError: a suite or variant that is not configured; lists the configured ones.
    """
    suite_keys: dict[tuple[str, str], tuple[str, str]] = {}
    resolved = []
    for unit in units:
        given_key = (unit.suite, unit.variant)
        suite_key = suite_keys.get(given_key)
        if suite_key is None:
            suite_key = suite_keys[given_key] = _suite_key(*given_key, suites, where)
        resolved.append(
            unit
            if suite_key == given_key
            else replace(unit, suite=suite_key[0], variant=suite_key[1])
        )
    return tuple(resolved)


def _suite_key(
    suite: str, variant: str, suites: Mapping[str, Suite], where: str
) -> tuple[str, str]:
    if not suite and len(suites) == 1:
        (suite,) = suites
    if suite not in suites:
        raise InputError(f"no suite {suite!r}", where=where, fix=_list_names(suites))
    variants = suites[suite].variants
    if not variant and len(variants) == 1:
        (variant,) = variants
    if variant not in variants:
        what = f"no variant {variant!r} of suite {suite!r}"
        raise InputError(what, where=where, fix=_list_names(variants))
    return suite, variant


def _list_names(names: Iterable[str]) -> str:
    return f"there are {', '.join(repr(name) for name in sorted(names))}"


def _by_shard(text: str) -> dict[str, list[Any]] | None:
    """Return the lists by shard; None if the text is not one JSON object of lists."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        return None
    lists = isinstance(content, dict) and all(isinstance(items, list) for items in content.values())
    return content if lists and content else None


def _of_shards(by_shard: dict[str, list[Any]], source: str) -> Iterator[InventoryUnit]:
    for shard, items in by_shard.items():
        for position, item in enumerate(items):
            where = f"{source}: {shard}: [{position}]"
            yield replace(_unit(item, where), shard=_shard(shard, where))


def _shard(name: str, where: str) -> str:
    """Check the name of a shard, which is shown in tables and used in names of folders."""
    if not name or len(name) > MAX_NAME or not name.isprintable() or "/" in name:
        fix = f"a shard's name is 1 to {MAX_NAME} characters that can be printed, and no slash"
        raise InputError(f"no name of a shard: {name!r:.120}", where=where, fix=fix)
    return name


def _of_json(text: str, source: str) -> Iterator[InventoryUnit]:
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"no JSON: {error}", where=source) from None
    for position, item in enumerate(content):
        yield _unit(item, f"{source}: [{position}]")


def _of_lines(text: str, source: str) -> Iterator[InventoryUnit]:
    # str.splitlines would also split at characters that may be part of an id.
    for number, line in enumerate(text.split("\n"), 1):
        if not line.startswith('{"'):
            if line and not line.isspace():
                yield InventoryUnit(line.removesuffix("\r"))
            continue
        where = f"{source}:{number}"
        try:
            yield _unit(json.loads(line.removesuffix("\r")), where)
        except (ValueError, RecursionError) as error:
            raise InputError(f"no JSON: {error}", where=where) from None


def _unit(item: Any, where: str) -> InventoryUnit:
    if isinstance(item, str):
        item = {"unit": item}
    elif isinstance(item, dict) and "unit" not in item and "id" in item:
        item = {**item, "unit": item["id"]}
    try:
        unit: InventoryUnit = _UNIT.build(item)
        if not unit.unit:
            raise LineError("`unit` is empty")
        if unit.shard is not None:
            _shard(unit.shard, where)
    except LineError as error:
        fix = 'an entry is an id, or an object like {"unit": "..."}'
        raise InputError(str(error), where=where, fix=fix) from None
    return unit


def _deduplicate(listed: Iterable[InventoryUnit]) -> Inventory:
    units = tuple(listed)
    if len({unit.unit for unit in units}) == len(units):  # the usual case, without keys
        return Inventory(units)
    first: dict[tuple[UnitKey, str | None], InventoryUnit] = {}
    repeated = [
        unit.key for unit in units if first.setdefault((unit.key, unit.shard), unit) is not unit
    ]
    return Inventory(tuple(first.values()), tuple(repeated))
