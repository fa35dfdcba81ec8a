"""Tests that are the same under another name: moved to another file or class, or renamed. Pure.

Both have the same parameters, and one name is the likeliest. A test that is taken for another one
is judged by what it never was: so only what moved under its own name is sure, and the one function
of a place with the same several parameters; a like name in the same place is doubtful. What would
decide, the lines and the body of a test, no history keeps.
"""

from __future__ import annotations

import re
from collections import defaultdict
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from ciguard.compare.run_columns import Run
    from ciguard.model import CaseKey, UnitKey

MIN_SIMILARITY: Final = 0.8  # of names in one place; 1 is the same
PAIRS: Final = 10_000  # of one group: a whole file of new names is no renamed test
_PARAMETERS: Final = re.compile(r"\s*[\[(].*$", re.DOTALL)
_BEGIN: Final = re.compile(r"^test_?", re.IGNORECASE)


class Renames(NamedTuple):
    """Cases of the candidate that the base has under another name: the new key -> the old one."""

    sure: dict[CaseKey, CaseKey]
    perhaps: dict[CaseKey, CaseKey]

    @property
    def old_keys(self) -> frozenset[CaseKey]:
        """The cases of the base that are not gone, surely or perhaps."""
        return frozenset((*self.sure.values(), *self.perhaps.values()))


NO_RENAMES: Final = Renames({}, {})


class _TestName(NamedTuple):
    key: CaseKey
    path: str
    name: str
    parameters: str
    row: tuple[str, ...] = ()  # the parameters of all cases of this name

    @property
    def last(self) -> str:
        """The name without its class."""
        return self.name.rpartition("::")[2]


def _spelled(key: CaseKey) -> _TestName:
    found = _PARAMETERS.search(key.case)
    head = key.case[: found.start()] if found else key.case
    place, mark, name = head.partition("::")
    if not key.case.startswith(key.unit):  # a sentence in a file, as Jest has it
        place, name = key.unit, head
    elif not mark:
        place, _, name = head.rpartition(".")
    # JUnit XML has "tests.test_a" for "tests/test_a.py": of two spellings one place is one place.
    place = place.removesuffix(".py").replace("/", ".")
    return _TestName(key, place, name, found[0].strip() if found else "")


def match_renames(
    base: Run, candidate: Run, planned: Mapping[UnitKey, str] | None = None
) -> Renames:
    """Find the cases of the candidate that the base has under another name.

    Args:
        planned: units of the candidate's plan: those are not gone, whether they ran or not.
    """
    # Most runs have the same tests: that is known without a unit's name being made of any key.
    if base.keys == candidate.keys or not set(candidate.keys) - set(base.keys):
        return NO_RENAMES
    removed = _only_in(base, candidate, set(planned or ()))
    new = _only_in(candidate, base, set())
    found = Renames({}, {})
    if removed and new:
        for likeness in (_same_name, _same_name_in_file, _same_row, _same_place):
            pairs = _pairs(removed, new, likeness)
            for old, now, is_sure in pairs:
                (found.sure if is_sure else found.perhaps)[now.key] = old.key
            taken = {one.key for old, now, _ in pairs for one in (old, now)}
            removed = [one for one in removed if one.key not in taken]
            new = [one for one in new if one.key not in taken]
    return found


def _only_in(run: Run, other: Run, planned: set[UnitKey]) -> list[_TestName]:
    """The cases that the other run lacks, and not because their unit died or did not run there."""
    others = set(other.keys)
    units = {key.unit_key for key in other.keys}
    whole = {key.unit_key for key in (*run.keys, *others) if key.case == key.unit}
    rows: dict[tuple[str, ...], list[_TestName]] = defaultdict(list)
    for key in run.keys:
        if key not in others and key.unit_key not in (whole if key.unit_key in units else planned):
            one = _spelled(key)
            rows[(*key[:2], one.path, one.name)].append(one)
    return [
        one._replace(row=tuple(sorted(two.parameters for two in row)))
        for row in rows.values()
        for one in row
    ]


def _same_name(one: _TestName) -> tuple[str, ...]:
    return (one.name, one.parameters)


def _same_name_in_file(one: _TestName) -> tuple[str, ...]:
    return (one.last, one.parameters)


def _same_place(one: _TestName) -> tuple[str, ...]:
    return (one.path, one.name.rpartition("::")[0], one.parameters)


def _same_row(one: _TestName) -> tuple[str, ...]:
    return (*_same_place(one), *(one.row if len(one.row) > 1 else [one.name]))


def _pairs(
    removed: Iterable[_TestName],
    new: Iterable[_TestName],
    match_key: Callable[[_TestName], tuple[str, ...]],
) -> list[tuple[_TestName, _TestName, bool]]:
    """Each old case with the new one that is its likeliest, where it is that one's, too.

    Sure is what has its own name in its own file, or is one of as many as there were.
    """
    groups: dict[tuple[str, ...], tuple[list[_TestName], list[_TestName]]]
    groups = defaultdict(lambda: ([], []))
    pairs = []
    for side, cases in enumerate((removed, new)):
        for one in cases:
            groups[(one.key.suite, one.key.variant, *match_key(one))][side].append(one)
    for old, now in groups.values():
        is_row = match_key is _same_row
        if not old or not now or len(old) * len(now) > (1 if is_row else PAIRS):
            continue
        scores = [[_score(a, b, same_name=match_key is not _same_place) for b in now] for a in old]
        for row, a in enumerate(old):
            column = _best(scores[row])
            if column is not None and _best([line[column] for line in scores]) == row:
                b = now[column]
                same = match_key in (_same_name, _same_row) or (
                    match_key is _same_name_in_file and a.path == b.path
                )
                pairs.append((a, b, same and len(old) == len(now)))
    return pairs


def _best(scores: Sequence[float]) -> int | None:
    """Where the one highest score is; None where it is too low, or two are the same."""
    top = max(scores)
    return scores.index(top) if top > 0 and scores.count(top) == 1 else None


def _score(old: _TestName, new: _TestName, *, same_name: bool) -> float:
    if same_name:  # of several places that have a test of this name, the likest
        return 0.01 + _ratio(f"{old.path}.{old.name}", f"{new.path}.{new.name}")
    a, b = (_BEGIN.sub("", one.last) for one in (old, new))
    if re.findall(r"\d+", a) != re.findall(r"\d+", b):  # the second of a row is not the first
        return 0.0
    ratio = _ratio(a, b)
    return ratio if ratio >= MIN_SIMILARITY else 0.0


def _ratio(a: str, b: str) -> float:
    return SequenceMatcher(None, a, b, autojunk=False).ratio()
