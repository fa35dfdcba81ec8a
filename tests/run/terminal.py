"""What a terminal shows of the bytes that it is sent: as much of one as a leg needs."""

from __future__ import annotations

import re
from unicodedata import east_asian_width

SEQUENCE = re.compile(r"\x1b\[([0-9;]*)([A-Za-z])")


class Terminal:
    """Rows of a terminal that is never too short; a wide character takes two columns of its row."""

    def __init__(self, columns: int) -> None:
        self.columns = columns
        self.rows: list[list[str]] = [[]]
        self.row = self.column = 0

    def shown(self) -> list[str]:
        """Its rows; behind the last one that holds something there is nothing."""
        rows = ["".join(row).rstrip() for row in self.rows]
        while rows and not rows[-1]:
            rows.pop()
        return rows

    def write(self, text: str) -> None:
        place = 0
        while place < len(text):
            found = SEQUENCE.match(text, place)
            if found:
                self._obey(found[2])
                place = found.end()
                continue
            self._take(text[place])
            place += 1

    def _obey(self, word: str) -> None:
        if word == "A":
            self.row = max(0, self.row - 1)
        elif word == "K":
            del self.rows[self.row][self.column :]
        else:
            assert word == "m", "no other sequence is sent"

    def _take(self, char: str) -> None:
        if char == "\r":
            self.column = 0
        elif char == "\n":  # with a terminal's "onlcr"
            self._next_row()
        else:
            width = 2 if east_asian_width(char) in "WF" else 1
            if self.column + width > self.columns:
                self._next_row()
            cells = self.rows[self.row]
            cells.extend(" " * (self.column - len(cells)))
            cells[self.column : self.column + width] = [char, *[""] * (width - 1)]
            self.column += width

    def _next_row(self) -> None:
        self.row, self.column = self.row + 1, 0
        if self.row == len(self.rows):
            self.rows.append([])
