"""Positions of the nodes of a YAML text, and edits of that text. Pure.

Positions are offsets of characters in the text. No YAML library writes the text: characters that
no edit covers stay, with comments, quotes, line ends and a byte order mark.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import yaml

from ciguard.errors import InputError
from ciguard.workflow.yaml_values import CoreLoader, replace_tabs


@dataclass(frozen=True, slots=True)
class Edit:
    """Replacement of the characters from `start` up to `end`; an insertion if both are equal."""

    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class Entry:
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
        """Return whether the value is an alias: `key: *anchor`."""
        return bool(self.value.start_mark.index < self.key.end_mark.index)


class SourceText:
    """A YAML text with one document, its nodes and its lines."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.root: yaml.Node | None = yaml.compose(replace_tabs(text), CoreLoader)
        self.line_break = "\r\n" if "\r\n" in text else "\n"

    def line_start(self, position: int) -> int:
        return self.text.rfind("\n", 0, position) + 1

    def line_end(self, position: int) -> int:
        """Return the end of the line, before its line break."""
        end = self.text.find("\n", position)
        end = len(self.text) if end < 0 else end
        return end - 1 if end > position and self.text[end - 1] == "\r" else end

    def next_line(self, position: int) -> int:
        """Return the start of the following line; the end of the text after the last line."""
        end = self.text.find("\n", position)
        return len(self.text) if end < 0 else end + 1

    def line_number(self, *path: str | int, text: str = "") -> int:
        """Return the line, from 1, of a text in the value at the end of a path, or of its key.

        If a part of the path does not exist, the line of the last existing key.
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
            position = self.text.find(text, start, int(node.end_mark.index))
            start = start if position < 0 else position
        return 1 + self.text.count("\n", 0, start)

    def find(self, *path: str | int) -> Entry | None:
        """Return the entry at the end of a path of names; a number is an item of a list, from 1."""
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
        """Return the end of the last line with text of the value, without comments below it."""
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
        """Return the end of the last value in a block collection."""
        if isinstance(node, yaml.MappingNode) and node.value:
            return self._end(Entry(*node.value[-1]))
        if isinstance(node, yaml.SequenceNode) and node.value and not is_flow(node):
            return self._last_end(node.value[-1])
        return len(self.text[: node.end_mark.index].rstrip())

    def comments_after(self, position: int, column: int) -> int:
        """Return the end of the comment lines below a position, indented by `column` or more."""
        end = position
        while True:
            start = self.next_line(end)
            line = self.text[start : self.line_end(start)]
            if start == len(self.text) or not is_comment(line) or indent_of(line) < column:
                return end
            end = self.line_end(start)

    def comments_before(self, position: int, column: int) -> int:
        """Return the start of the comment lines directly above a line, at this column."""
        start = self.line_start(position)
        while start:
            above = self.line_start(start - 1)
            line = self.text[above:start]
            if not is_comment(line) or indent_of(line) != column:
                break
            start = above
        return start

    def edited(self, edits: Iterable[Edit]) -> str:
        """Return the text with all edits; insertions at one position keep their order.

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
    """Yield the entries of a mapping; nothing for another node."""
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            yield Entry(key, value)


def find_entry(node: yaml.Node | None, name: str) -> Entry | None:
    """Return the entry of a mapping by its key; the last of equal keys, as in the value."""
    return next((entry for entry in reversed(list(entries(node))) if entry.name == name), None)


def is_flow(node: yaml.Node) -> bool:
    """Return whether a node is a collection in brackets."""
    return bool(getattr(node, "flow_style", False))


def is_block(node: yaml.Node, kind: type[yaml.CollectionNode]) -> bool:
    """Return whether a node is a collection of that kind with each entry on separate lines."""
    return isinstance(node, kind) and not is_flow(node) and bool(node.value)
