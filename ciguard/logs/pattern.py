"""A row of the table of log patterns: what a line looks like, and which of its groups are numbers.

A pattern is written in the syntax that RE2 and `re` share. Its groups have these meanings:

- a group in `fields` is a number; its unit is in the group `NAME_unit`, else in `fields`;
- a group in `key` says what the numbers belong to; `NAME_text` is how the line rounds it;
- any other group is a fact, which no comparison uses.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

from ciguard.logs.values import KeyField, Kind, LogValue, NotANumber, Place, parse_quantity

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ciguard.model import Ending

Better = Literal["lower", "higher", ""]
VALUE: Final = "value"  # a number without a name of its own: it has the row's


@dataclass(frozen=True, slots=True)
class LogPattern:
    """One row.

    Attributes:
        name: of its values; those of other groups than `value` add the group.
        pattern: of a line, without its time, its colours and its end.
        triggers: texts of which each line that matches holds one; plain, for speed. Without any, a
            row is tried on the lines of its context alone.
        kind: a failure gives one value a line, however many numbers the line has.
        fields: groups that are numbers, each with its unit; without any, a line is an occurrence.
        key: groups that a value is identified by.
        better: the direction in which its numbers are better; "" if neither is.
        exact: equal programs print equal numbers: a difference needs no history to be one.
        ending: what a failure makes of the process that prints it.
        weak: as likely a program's own text: it proves nothing alone.
        context: name of the row whose keys also hold for this one, for some lines after it.
        needs_context: outside of it, a line is nothing.
    """

    name: str
    pattern: str
    triggers: tuple[str, ...]
    kind: Kind | Literal["context"] = "metric"
    fields: Mapping[str, str] = field(default_factory=dict)
    key: tuple[str, ...] = ()
    better: Better = ""
    exact: bool = False
    ending: Ending | None = None
    weak: bool = False
    context: str = ""
    needs_context: bool = False

    def value_names(self) -> dict[str, str]:
        """The name of the value of each number, by group."""
        return {
            group: self.name if group == VALUE else f"{self.name}.{group}" for group in self.fields
        }

    def values(
        self, groups: Mapping[str, str | None], place: Place, context: tuple[KeyField, ...] = ()
    ) -> Iterator[LogValue | NotANumber]:
        """The values of a line that matched.

        Args:
            groups: of the match, by name.
            context: keys from the lines before.
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
            if (found := parse_quantity(text, unit)) is None:
                yield NotANumber(name, text, place)
                continue
            value, resolution, scaled = found
            yield LogValue(name, value, scaled, key, place, kind, resolution, facts)
            if kind == "failure":
                return
        if not any_group:
            yield LogValue(self.name, 1.0, "", key, place, kind, 1.0, facts)

    def key_fields(self, groups: Mapping[str, str | None]) -> tuple[KeyField, ...]:
        """The key groups that matched."""
        return tuple(
            KeyField(name, text, groups.get(f"{name}_text") or "")
            for name in self.key
            if (text := groups.get(name)) is not None
        )
