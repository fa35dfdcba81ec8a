"""The coverage of a run: what the part of any shard covers is covered. Pure."""

from __future__ import annotations

import posixpath
from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from typing import TYPE_CHECKING

from ciguard.codec.coverage_file import Coverage, Share

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ciguard.coverage.formats import Block


def _share(covered: int, total: int, format_: str = "") -> Share:
    """Return a share; Go rounds its percentage to a tenth, other tools cut it to a hundredth."""
    if format_ == "go":
        return Share(covered, total, float(f"{100 * covered / (total or 1):.1f}"))
    return Share(covered, total, covered * 10_000 // total / 100 if total else None)


@dataclass(frozen=True, slots=True)
class Files:
    """The blocks of all parts, by path in the repository."""

    is_file: Callable[[str], bool]
    blocks: dict[str, dict[Block, bool]] = field(default_factory=dict)
    paths: dict[tuple[str, str], str] = field(default_factory=dict)

    def add(self, folder: str, path: str, block: Block, covered: bool) -> None:
        """Add a block of a file whose path is absolute, of a Go package, or below a folder."""
        key = (folder, path)
        name = self.paths.get(key) or self.paths.setdefault(key, self._repository_path(*key))
        blocks = self.blocks.setdefault(name, {})
        blocks[block] = covered or blocks.get(block, False)

    def _repository_path(self, folder: str, path: str) -> str:
        """Return the longest end of a path that is a file of the checkout; without one, all."""
        whole = posixpath.normpath(posixpath.join(folder, path[:4096].replace("\\", "/")))
        names = [name for name in whole.split("/") if name not in ("", ".", "..")]
        ends = ["/".join(names[begin:]) for begin in range(len(names))]
        found = (posixpath.normpath(f"{base}/{end}") for end in ends for base in (folder, "."))
        return next(filter(self.is_file, found), ends[0] if ends else path)

    def measure(
        self,
        coverage: Coverage,
        total: Share | None,
        diff: Mapping[str, tuple[bytes, bytes]] | None,
    ) -> Coverage:
        """Return the coverage with its numbers, that of the diff included.

        Args:
            total: that of the tool; None: the sum of the files.
            diff: by path of a measured file, its content before and after; None if not known.
        """
        counts = {
            path: (sum(key[2] for key in blocks if blocks[key]), sum(key[2] for key in blocks))
            for path, blocks in sorted(self.blocks.items())
        }
        covered, every = (sum(count[at] for count in counts.values()) for at in (0, 1))
        total = total or _share(covered, every, coverage.format)
        lines = dict[tuple[str, int], bool]()
        for path, (before, after) in sorted((diff or {}).items()):
            changed = changed_lines(before, after)
            for (begin, end, *_), is_covered in sorted(self.blocks[path].items()):
                for line in changed[bisect_left(changed, begin) : bisect_right(changed, end)]:
                    lines[path, line] = is_covered or lines.get((path, line), False)
        uncovered: dict[str, list[int]] = {}
        for path, line in (key for key, is_covered in lines.items() if not is_covered):
            uncovered.setdefault(path, []).append(line)
        share = _share(sum(lines.values()), len(lines)) if diff is not None else None
        return replace(coverage, total=total, files=counts, diff=share, uncovered=uncovered)


def changed_lines(before: bytes, after: bytes) -> list[int]:
    """Return the numbers of lines that the second content adds or changes, from 1."""
    matcher = SequenceMatcher(None, before.split(b"\n"), after.split(b"\n"))
    blocks = (code[3:] for code in matcher.get_opcodes() if code[0] != "equal")
    return [line + 1 for begin, end in blocks for line in range(begin, end)]
