"""Log patterns of users, from [metrics.NAME] of the configuration, and their mistakes."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from ciguard.logs.pattern import VALUE, LogPattern, literal_triggers
from ciguard.logs.values import SCALES, SPANS

if TYPE_CHECKING:
    from collections.abc import Iterator


UNITS: Final = (*filter(None, SCALES), *SPANS)


def user_patterns(
    name: str, pattern: str, *, unit: str, within: str,
    at_least: float | None, at_most: float | None, **facts: Any,  # key, better, exact
) -> Iterator[LogPattern]:  # fmt: skip
    """Yield the row of values without mistakes, see `find_mistakes`; before it that of `within`."""
    fields = {VALUE: unit} if VALUE in re.compile(pattern).groupindex else {}
    scale = SCALES.get(unit, (1, ""))[0]
    low, high = (bound and bound * scale for bound in (at_least, at_most))
    row = LogPattern(name, pattern, fields=fields, at_least=low, at_most=high, **facts)
    if within:  # the first row: one line may name the object and hold its value
        groups = tuple(re.compile(within).groupindex)
        yield (context := LogPattern(f"{name}.within", within, kind="context", key=groups))
        row = replace(row, contexts=(context.name,))
    yield row


def find_mistakes(
    pattern: str, unit: str, key: tuple[str, ...] | None
) -> Iterator[tuple[str, str, str]]:
    """Yield each mistake of a row: the key of the configuration, the mistake, and a fix.

    A `key` of None is that of the pattern of `within`: every group identifies values.
    """
    if not pattern:
        return
    # Imported here: a configuration without such patterns needs no RE2.
    from ciguard.logs.log_reader import compile_pattern  # noqa: PLC0415

    try:
        compile_pattern(pattern)
        groups = re.compile(pattern).groupindex
    except ValueError as error:
        yield "pattern", str(error), "no lookaround, no backreference"
        return
    except re.error as error:
        yield "pattern", f"no regular expression: {error}", "use what RE2 and Python share"
        return
    if key is None and not groups:
        yield "pattern", f"no named group in {pattern!r}", "name what differs: (?P<kernel>...)"
    elif key is not None and VALUE not in groups:
        known = {*key, *(f"{name}_text" for name in key)}
        for name in groups:
            if name not in known:
                what = f"the group {name!r} has no use, as there is no group {VALUE!r}"
                fix = f"name the number {VALUE}, add {name} to key, or write (?:...)"
                yield "pattern", what, fix
    if not literal_triggers(pattern):
        fix = "write three plain characters in a row that each line has, outside of any group"
        yield "pattern", f"no plain text in {pattern!r}, which would be slow", fix
    for name in key or ():
        if name not in groups:
            yield "key", f"no group (?P<{name}>...) in the pattern", "name groups of the pattern"
    if unit and unit not in UNITS:
        yield "unit", f"no unit {unit!r}", f"there are {', '.join(UNITS)}"
