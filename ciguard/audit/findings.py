"""The tests that the shards of a matrix select: twice, once, not at all. Pure.

Counts are of what is sure: a test is in several shards where at least two surely select it, and in
none where no shard possibly does. Between them, `undecided` tests are those whose shards cannot be
known, as where a shard's filter is made by a script.

In `A&(x|y)` the term x decides nothing where A selects only tests that x selects: then y decides
nothing either. It happens where x is a part of a name that A requires already, as `~Tests.D` in
`~ModelTests.Diffusion&(~Tests.A|~Tests.D)`. What was meant continues the name that A requires; it
was meant in every shard whose alternatives have the same neighbours and the same beginning.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeGuard, get_args

from ciguard.audit.filters.expression import (
    And,
    Not,
    Or,
    Selection,
    Term,
    positions_in,
    terms,
    without_exclusions,
)
from ciguard.audit.shard_filters import HandMatrix, ShardFilter, is_placeholder, wrap
from ciguard.audit.test_set import TestSet, class_of
from ciguard.errors import InputError
from ciguard.model.plan import OrphanReason

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from ciguard.audit.filters.base import Evaluator
    from ciguard.audit.filters.expression import Expression

MissingReason = Literal["outside_projects", "common_filter", "label", "not_requested"]
OverlapKind = Literal["equal", "contained", "overlapping"]
REASONS: Final[tuple[MissingReason, ...]] = get_args(MissingReason)
# Another job may run what lies outside of the projects, and a rule for all shards is on purpose.
ORPHANS: Final[tuple[OrphanReason, ...]] = get_args(OrphanReason)


class UnsureTerm(NamedTuple):
    """A term, as written, of which it is not known what it selects; by a label or otherwise."""

    text: str
    is_label: bool


@dataclass(frozen=True, slots=True)
class SelectedShard:
    """A shard with its tests.

    Attributes:
        own: the tests that no other shard surely selects.
        unsure: terms of its filter, of which it is not known what they select.
        wall_s: their wall time by the history, seconds; None where no test has one.
    """

    shard: ShardFilter
    selected: Selection
    own: int
    unsure: tuple[UnsureTerm, ...] = ()
    wall_s: float | None = None

    @property
    def is_empty(self) -> bool:
        return not self.selected.possible

    @property
    def is_over_limit(self) -> bool:
        limit_s = self.shard.timeout_s
        return limit_s is not None and self.wall_s is not None and self.wall_s > limit_s


class Overlap(NamedTuple):
    """Two shards, by position, with the tests that both select; `kind` is what they are besides."""

    first: int
    second: int
    tests: int
    kind: OverlapKind


class EmptyTerm(NamedTuple):
    """A term, as written, that matches no test that exists; with the shards that have it."""

    text: str
    shards: tuple[int, ...]


class CutClass(NamedTuple):
    """A class of tests that no shard has whole; with the number of its tests by shard."""

    name: str
    shards: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Audit:
    """A matrix against its tests. Sets of tests are integers (`filters/expression.py`).

    Attributes:
        repeated: at each place k, the tests that more than k shards surely select.
        executions: how many tests run in all shards together.
        missing: the tests in no shard, by the first reason that holds.
        undecided: tests that no shard surely selects, and one may.
        unsure: terms of the common filter, as of `SelectedShard`; each is the whole filter.
        term_count: distinct terms of all shards.
    """

    tests: TestSet
    shards: tuple[SelectedShard, ...]
    repeated: tuple[int, ...]
    executions: int
    missing: Mapping[MissingReason, int]
    undecided: int
    unsure: tuple[UnsureTerm, ...]
    overlaps: tuple[Overlap, ...]
    empty_terms: tuple[EmptyTerm, ...]
    term_count: int
    cut_classes: tuple[CutClass, ...]
    corrections: tuple[Correction, ...]

    @property
    def in_several(self) -> int:
        """The tests that several shards select."""
        return self.repeated[1]

    @property
    def redundant(self) -> int:
        """The number of executions beyond one for each test that runs."""
        return self.executions - self.repeated[0].bit_count()

    @property
    def orphans(self) -> int:
        """The tests that no rule for all shards leaves out, and no shard runs."""
        found = 0
        for reason in ORPHANS:
            found |= self.missing[reason]
        return found


def audit(
    matrix: HandMatrix, evaluator: Evaluator, durations_s: Sequence[float | None] = ()
) -> Audit:
    """Compare a matrix with the tests that exist.

    O(terms x length of all names + pairs of shards x tests / 64).

    Args:
        durations_s: of each test by the history; empty without one.
    """
    tests = evaluator.tests
    folders = {name: tests.below(name) for name in {shard.project for shard in matrix.shards}}
    seen = [folders[shard.project] for shard in matrix.shards]
    selections = [
        _select(one, matrix.common, evaluator).intersect(
            Selection(folder if tests.has_files or not one.project else 0, folder)
        )
        for one, folder in zip(matrix.shards, seen, strict=True)
    ]
    sure = [selection.sure for selection in selections]
    repeated, possible = _repeated(sure), 0
    for one in selections:
        possible |= one.possible
    shards = tuple(
        SelectedShard(
            shard,
            selection,
            own=selection.sure & ~repeated[1],
            unsure=_unsure(shard.expression, shard.written, evaluator),
            wall_s=_wall_s(selection.sure, durations_s),
        )
        for shard, selection in zip(matrix.shards, selections, strict=True)
    )
    found_terms = _terms(matrix, evaluator)
    return Audit(
        tests=tests,
        shards=shards,
        repeated=repeated,
        executions=sum(one.bit_count() for one in sure),
        missing=_reasons(matrix, tests.everything & ~possible, folders, evaluator),
        undecided=possible & ~repeated[0],
        unsure=_unsure(matrix.common, lambda _: matrix.common_text, evaluator),
        overlaps=tuple(_overlaps(sure)),
        empty_terms=tuple(EmptyTerm(text, shards) for text, shards, empty in found_terms if empty),
        term_count=len(found_terms),
        cut_classes=_cut_classes(tests, sure, repeated[0]),
        corrections=corrections(matrix.shards, seen, evaluator),
    )


def _select(shard: ShardFilter, common: Expression, evaluator: Evaluator) -> Selection:
    if shard.expression is None:
        own = Selection(0, evaluator.tests.everything)
    else:
        own = evaluator.select(shard.expression)
    return wrap(common, own, evaluator)


def _unsure(
    expression: Expression | None, written: Callable[[Term], str], evaluator: Evaluator
) -> tuple[UnsureTerm, ...]:
    found = {
        UnsureTerm(written(term), evaluator.language.is_label(term)): None
        for term in (terms(expression) if expression is not None else ())
        if not is_placeholder(term) and not evaluator.term(term).is_known
    }
    return tuple(found)


def _repeated(sets: Sequence[int]) -> tuple[int, ...]:
    """The tests in more than 0, 1, 2, ... of the sets; at least two entries."""
    levels = [0, 0]
    for one in sets:
        carried = one
        for place, level in enumerate(levels):
            levels[place], carried = level | carried, level & carried
        if carried:
            levels.append(carried)
    return tuple(levels)


def _wall_s(tests: int, durations_s: Sequence[float | None]) -> float | None:
    known = [
        one
        for place in positions_in(tests)
        if durations_s and (one := durations_s[place]) is not None
    ]
    return sum(known) if known else None


def _reasons(
    matrix: HandMatrix, missing: int, folders: Mapping[str, int], evaluator: Evaluator
) -> dict[MissingReason, int]:
    in_projects = by_label = 0
    for folder in folders.values():
        in_projects |= folder
    common = wrap(matrix.common, evaluator.everything, evaluator).possible

    for shard in matrix.shards:
        if shard.expression is not None:
            relaxed = without_exclusions(shard.expression, evaluator.language.is_label)
            by_label |= evaluator.select(relaxed).possible & folders[shard.project]
    found: dict[MissingReason, int] = {"outside_projects": missing & ~in_projects}
    missing &= in_projects
    found["common_filter"] = missing & ~common
    missing &= common
    found["label"] = missing & by_label
    found["not_requested"] = missing & ~by_label
    return found


def _overlaps(sets: Sequence[int]) -> Iterator[Overlap]:
    for (first, left), (second, right) in combinations(enumerate(sets), 2):
        both = left & right
        if both:
            yield Overlap(first, second, both, _kind(both, left, right))


def _kind(both: int, left: int, right: int) -> OverlapKind:
    if left == right:
        return "equal"
    return "contained" if both in (left, right) else "overlapping"


def _terms(matrix: HandMatrix, evaluator: Evaluator) -> list[tuple[str, tuple[int, ...], bool]]:
    """Each distinct term: as first written, its shards, whether it selects nothing."""
    texts: dict[tuple[object, bool], str] = {}
    shards: dict[tuple[object, bool], dict[int, None]] = defaultdict(dict)
    empty: dict[tuple[object, bool], bool] = {}
    for place, shard in enumerate(matrix.shards):
        for term in terms(shard.expression) if shard.expression is not None else ():
            key = (term.condition, term.excludes)
            texts.setdefault(key, shard.written(term))
            shards[key][place] = None
            empty[key] = not evaluator.term(term).possible
    return [(text, tuple(shards[key]), empty[key]) for key, text in texts.items()]


def _cut_classes(tests: TestSet, sets: Sequence[int], running: int) -> tuple[CutClass, ...]:
    """Classes whose tests run, and of which no shard has every test that runs."""
    counts: dict[str, dict[int, int]] = defaultdict(dict)
    for shard, members in enumerate(sets):
        for place in positions_in(members):
            by_shard = counts[class_of(tests.units[place].unit)]
            by_shard[shard] = by_shard.get(shard, 0) + 1
    sizes = Counter(class_of(tests.units[place].unit) for place in positions_in(running))
    return tuple(
        CutClass(name, by_shard)
        for name, by_shard in sorted(counts.items())
        if name and max(by_shard.values()) < sizes[name]
    )


@dataclass(frozen=True, slots=True)
class Correction:
    """Alternatives that do not divide what their neighbours select.

    Attributes:
        shard: by position.
        vacuous: the texts of the terms that are true for all of it; empty where only the same
            alternatives of another shard have one.
        corrected: the whole filter with each alternative continuing a neighbour's name; "" where no
            such text suggests itself.
        tests: sets that the filter selects as it is and as corrected.
    """

    shard: int
    vacuous: tuple[str, ...]
    corrected: str
    tests: tuple[int, int]


class _Group(NamedTuple):
    """An `x|y|...` in a conjunction: the texts of its neighbours, and of its terms."""

    shard: int
    terms: tuple[Term, ...]
    vacuous: tuple[Term, ...]
    neighbours: tuple[str, ...]
    beginning: str


def corrections(
    shards: Sequence[ShardFilter], seen: Sequence[int], evaluator: Evaluator
) -> tuple[Correction, ...]:
    """Every group of alternatives with a vacuous term, and those like it, by shard.

    Args:
        seen: for each shard the tests that its filter can see.
    """
    groups = [
        group
        for place, shard in enumerate(shards)
        for group in _groups(place, shard, seen[place], evaluator)
    ]
    alike: dict[tuple[tuple[str, ...], str], list[_Group]] = defaultdict(list)
    for group in groups:
        alike[group.neighbours, group.beginning or repr(group)].append(group)
    found = [
        _correction(shards[group.shard], group, seen[group.shard], evaluator)
        for same in alike.values()
        if any(one.vacuous for one in same)
        for group in same
    ]
    return tuple(sorted(found, key=lambda one: one.shard))


def _conjunctions(expression: Expression) -> Iterator[tuple[Or, tuple[Expression, ...]]]:
    """Every `x|y|...` in a conjunction, with its neighbours there."""
    if isinstance(expression, And):
        for place, part in enumerate(expression.parts):
            if isinstance(part, Or):
                yield part, (*expression.parts[:place], *expression.parts[place + 1 :])
    if isinstance(expression, And | Or):
        for part in expression.parts:
            yield from _conjunctions(part)
    elif isinstance(expression, Not):
        yield from _conjunctions(expression.part)


def _groups(shard: int, filter_: ShardFilter, seen: int, evaluator: Evaluator) -> Iterator[_Group]:
    for alternatives, others in _conjunctions(filter_.expression or And(())):
        terms = tuple(part for part in alternatives.parts if _selects(part))
        # Alone, a term that is always true divides nothing, and is meant so: a catch-all.
        if len(terms) < max(2, len(alternatives.parts)):
            continue
        context = evaluator.select(And(others)).sure & seen
        vacuous = [term for term in terms if context and not context & ~evaluator.term(term).sure]
        beginnings = {filter_.written(term).rpartition(".")[0] for term in terms}
        yield _Group(
            shard,
            terms,
            tuple(vacuous),
            neighbours=tuple(sorted(filter_.written(other) for other in others if _selects(other))),
            beginning=beginnings.pop() if len(beginnings) == 1 else "",
        )


def _selects(part: Expression) -> TypeGuard[Term]:
    return isinstance(part, Term) and not part.excludes


def _correction(shard: ShardFilter, group: _Group, seen: int, evaluator: Evaluator) -> Correction:
    named = [neighbour for neighbour in group.neighbours if "." in neighbour]
    before = evaluator.select(shard.expression or And(())).sure & seen
    vacuous = tuple(map(shard.written, group.vacuous))
    uncorrected = Correction(group.shard, vacuous, "", (before, before))
    if not group.beginning or not named:
        return uncorrected
    text, neighbour = shard.text, max(named, key=len)
    for term in reversed(group.terms):
        tail = shard.written(term).rpartition(".")[2]
        text = f"{text[: term.start]}{neighbour}.{tail}{text[term.end :]}"
    try:
        corrected = evaluator.language.parse(text, shard.name)
    except InputError:  # what was put together is no filter of this language
        return uncorrected
    after = evaluator.select(corrected).sure & seen
    return Correction(group.shard, vacuous, text, (before, after))
