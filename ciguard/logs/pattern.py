"""A log pattern: a regular expression for a line, and the meanings of its groups.

A pattern is written in the syntax that RE2 and `re` share. Its groups have these meanings:

- a group in `fields` is a number; its unit is in the group `NAME_unit`, otherwise in `fields`;
- a group in `key` identifies the object of the numbers; `NAME_text` is its rounded form;
- any other group is a fact, which no comparison uses.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Final, Literal

from ciguard.logs.values import KeyField, Kind, LogValue, NotANumber, Place, parse_quantity
from ciguard.model import Ending

Better = Literal["lower", "higher", ""]
VALUE: Final = "value"  # the group of a number that has the name of its pattern


@dataclass(frozen=True, slots=True)
class LogPattern:
    """One row of the table of patterns.

    Attributes:
        name: name of its values; the value of another group than `value` appends the group.
        pattern: regular expression for a line without its time, colours and line end.
        stated_triggers: as `triggers`, if the pattern has alternatives or only common words.
        kind: a metric or a failure, which gives one value for a line, or a context.
        fields: groups that are numbers, each with its unit; () if a line is an occurrence.
        key: groups that identify a value.
        better: the direction in which its numbers are better; "" if neither is.
        exact: equal programs print equal numbers, so that each difference is significant.
        at_least, at_most: absolute bounds, in bytes, seconds or as a count.
        ending: ending of the process that prints the failure.
        inconclusive: programs also print this text without the failure: alone, it proves nothing.
        contexts: names of the contexts whose keys identify its values too: those of the nearest
            line of each before the value.
        needs_context: the pattern matches only within one of its contexts.
        lines: of a context, for how many lines after it its keys hold; 0 for all, up to the next.
    """

    name: str
    pattern: str
    stated_triggers: tuple[str, ...] = ()
    kind: Kind | Literal["context"] = "metric"
    fields: Mapping[str, str] = field(default_factory=dict)
    key: tuple[str, ...] = ()
    better: Better = ""
    exact: bool = False
    at_least: float | None = None
    at_most: float | None = None
    ending: Ending | None = None
    inconclusive: bool = False
    contexts: tuple[str, ...] = ()
    needs_context: bool = False
    lines: int = 0

    @property
    def triggers(self) -> tuple[str, ...]:
        """Return plain texts, for speed: each matching line contains one of them.

        A pattern without triggers is tried only on lines of its context.
        """
        return self.stated_triggers or literal_triggers(self.pattern)

    def value_names(self) -> dict[str, str]:
        """Map each group that is a number to the name of its value; a failure has the row's."""
        own = self.fields if self.kind == "failure" else (VALUE,)
        return {
            group: self.name if group in own else f"{self.name}.{group}" for group in self.fields
        }

    def values(
        self, groups: Mapping[str, str | None], place: Place, context: tuple[KeyField, ...] = ()
    ) -> Iterator[LogValue | NotANumber]:
        """Yield the values of a matching line.

        Args:
            groups: groups of the match, by name.
            context: keys of the contexts.
        """
        key = (*context, *self.key_fields(groups))
        kind: Kind = "failure" if self.kind == "failure" else "metric"
        used = {*self.fields, *self.key, *(f"{name}_unit" for name in self.fields)}
        facts = tuple(
            (name, text)
            for name, text in sorted(groups.items())
            if text is not None and name not in used
        )
        names, any_group = self.value_names(), False
        for group, name in names.items():
            text = groups.get(group)
            if text is None:
                continue
            any_group = True
            unit = groups.get(f"{group}_unit") or self.fields[group]
            if (quantity := parse_quantity(text, unit)) is None:
                yield NotANumber(name, text, place)
                continue
            value, resolution, scaled = quantity
            yield LogValue(name, value, scaled, key, place, kind, resolution, facts)
            if kind == "failure":
                return
        if not any_group:
            yield LogValue(self.name, 1.0, "", key, place, kind, 1.0, facts)

    def key_fields(self, groups: Mapping[str, str | None]) -> tuple[KeyField, ...]:
        """Return the key groups that matched."""
        return tuple(
            KeyField(name, text, groups.get(f"{name}_text") or "")
            for name in self.key
            if (text := groups.get(name)) is not None
        )


@lru_cache(maxsize=1024)
def literal_triggers(pattern: str) -> tuple[str, ...]:
    """Find the longest plain text that each match of a pattern contains.

    Returns:
        Letters, digits, blanks and `_:=/-`, outside of any group, class and repetition; () if the
        text is shorter than three characters, or the pattern has flags or alternatives.
    """
    if re.search(r"\(\?(?!:|P<)", pattern):
        return ()
    flat = re.sub(r"\\.", "\0", pattern)
    flat = re.sub(r"\[\^?\]?[^\]]*\]", "\0", flat)
    while (inner := re.sub(r"\([^()]*\)", "\0", flat)) != flat:
        flat = inner
    if "|" in flat:
        return ()
    flat = re.sub(r".[*?+{]", "\0", flat)
    runs = re.findall(r"[\w :=/-]{3,}", re.sub(r"\0[^}\0]*\}", "\0", flat))
    return (max(runs, key=len),) if runs else ()


# Rows of failures, by ending; programs print texts of the last kind also without a lack of memory.
failure: Final = partial(LogPattern, kind="failure")
crash: Final = partial(failure, ending="crash")
timeout: Final = partial(failure, ending="timeout")
out_of_memory: Final = partial(failure, ending="out_of_memory")
suspected_oom: Final = partial(out_of_memory, inconclusive=True)
