"""Where the nodes of a YAML text stand, and edits of that text. Pure.

Positions are offsets of characters in the text. Nothing is written by a YAML library: what no edit
covers stays as it is, with comments, quotes, line ends and a byte order mark.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import yaml

from ciguard.errors import InputError
from ciguard.workflow.yaml_values import CoreLoader, spaced

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


@dataclass(frozen=True, slots=True)
class Edit:
    """Characters from `start` up to `end` become `text`; an insertion where both are equal."""

    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class Entry:
    """A key of a mapping with its value."""

    key: yaml.Node
    value: yaml.Node

    @property
    def start(self) -> int:
        return int(self.key.start_mark.index)

    @property
    def column(self) -> int:
        return int(self.key.start_mark.column)

    @property
    def name(self) -> str:
        return str(self.key.value)

    @property
    def is_alias(self) -> bool:
        """The value is written elsewhere: `key: *anchor`."""
        return bool(self.value.start_mark.index < self.key.end_mark.index)


class SourceText:
    """A YAML text with one document, and the lines of it."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.root: yaml.Node | None = yaml.compose(spaced(text), CoreLoader)
        self.line_break = "\r\n" if "\r\n" in text else "\n"

    def line_start(self, position: int) -> int:
        return self.text.rfind("\n", 0, position) + 1

    def line_end(self, position: int) -> int:
        """The end of the line, before its line break."""
        end = self.text.find("\n", position)
        end = len(self.text) if end < 0 else end
        return end - 1 if end > position and self.text[end - 1] == "\r" else end

    def next_line(self, position: int) -> int:
        """The start of the following line; the end of the text where there is none."""
        end = self.text.find("\n", position)
        return len(self.text) if end < 0 else end + 1

    def line_number(self, *path: str | int, text: str = "") -> int:
        """The line, from 1, of a text in the value at the end of a path; else of its key.

        Where the path leads nowhere, the line of the last key on it.
        """
        node, start = self.root, 0
        for part in path:
            if isinstance(part, int):
                items = node.value if isinstance(node, yaml.SequenceNode) else ()
                node = items[part - 1] if 0 < part <= len(items) else None
                start = int(node.start_mark.index) if node else start
            elif entry := find_entry(node, part):
                node, start = entry.value, entry.start
            else:
                break
        if text and node is not None:
            found = self.text.find(text, start, int(node.end_mark.index))
            start = start if found < 0 else found
        return 1 + self.text.count("\n", 0, start)

    def find(self, *path: str | int) -> Entry | None:
        """The key at the end of a path of names; a number is an entry of a list, from 1."""
        node, entry = self.root, None
        for part in path:
            if isinstance(part, int):
                node = node.value[part - 1] if isinstance(node, yaml.SequenceNode) else None
            else:
                entry = find_entry(node, part)
                node = entry.value if entry else None
        return entry

    def colon_end(self, entry: Entry) -> int:
        return self.text.index(":", entry.key.end_mark.index) + 1

    def content_end(self, entry: Entry) -> int:
        """The end of the last line that has text of the value; comments below it do not count."""
        return self.line_end(self._end(entry))

    def _end(self, entry: Entry) -> int:
        value, after_key = entry.value, self.colon_end(entry)
        if entry.is_alias:
            return after_key
        if isinstance(value, yaml.ScalarNode):
            return max(after_key, len(self.text[: value.end_mark.index].rstrip()))
        if is_flow(value):
            return int(value.end_mark.index)
        return max(after_key, self._last_end(value))

    def _last_end(self, node: yaml.Node) -> int:
        """The end of what stands last in a block collection."""
        if isinstance(node, yaml.MappingNode) and node.value:
            return self._end(Entry(*node.value[-1]))
        if isinstance(node, yaml.SequenceNode) and node.value and not is_flow(node):
            return self._last_end(node.value[-1])
        return len(self.text[: node.end_mark.index].rstrip())

    def comments_after(self, position: int, column: int) -> int:
        """The end of the comment lines below a line's end that are indented so far or farther."""
        end = position
        while True:
            start = self.next_line(end)
            line = self.text[start : self.line_end(start)]
            if start == len(self.text) or not is_comment(line) or indent_of(line) < column:
                return end
            end = self.line_end(start)

    def comments_before(self, position: int, column: int) -> int:
        """The start of the comment lines that stand directly above a line at this column."""
        start = self.line_start(position)
        while start:
            above = self.line_start(start - 1)
            line = self.text[above:start]
            if not is_comment(line) or indent_of(line) != column:
                break
            start = above
        return start

    def edited(self, edits: Iterable[Edit]) -> str:
        """The text with all edits; insertions at one place stand in the order given.

        Raises:
            InputError: two edits overlap.
        """
        parts, done = [], 0
        for edit in sorted(edits, key=lambda edit: (edit.start, edit.end)):
            if edit.start < done:
                raise InputError("two edits of the workflow overlap")
            parts += [self.text[done : edit.start], edit.text]
            done = edit.end
        return "".join([*parts, self.text[done:]])


def indent_of(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def is_comment(line: str) -> bool:
    return line.lstrip().startswith("#")


def entries(node: yaml.Node | None) -> Iterator[Entry]:
    """The keys of a mapping; none of any other node."""
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            yield Entry(key, value)


def find_entry(node: yaml.Node | None, name: str) -> Entry | None:
    """The key of a mapping; of two, the last one, as in the value."""
    return next((entry for entry in reversed(list(entries(node))) if entry.name == name), None)


def is_flow(node: yaml.Node) -> bool:
    """Say whether it is a collection in brackets."""
    return bool(getattr(node, "flow_style", False))


def is_block(node: yaml.Node, kind: type[yaml.CollectionNode]) -> bool:
    """Say whether the node is a collection of that kind with each entry on lines of its own."""
    return isinstance(node, kind) and not is_flow(node) and bool(node.value)
