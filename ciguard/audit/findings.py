"""The tests that the shards of a matrix select: twice, once, not at all. Pure.

A test is in several shards if at least two shards surely select it, and in none if no shard may
select it. A test is `undecided` if no shard surely selects it and one may, as with a filter that a
script computes.

In `A&(x|y)` the term x is vacuous if x selects every test that A selects: then y has no effect
either. The cause is a term that is part of a name that A requires already, as `~Tests.D` in
`~ModelTests.Diffusion&(~Tests.A|~Tests.D)`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final, Literal, NamedTuple, get_args

from ciguard.audit.filters.base import Evaluator
from ciguard.audit.filters.expression import (
    And,
    Expression,
    Not,
    Or,
    Selection,
    Term,
    TestSet,
    positions_in,
    terms,
    without_exclusions,
)
from ciguard.audit.shard_filters import HandMatrix, ShardFilter, is_placeholder, wrap
from ciguard.model.plan import OrphanReason

MissingReason = Literal["outside_projects", "common_filter", "label", "not_requested"]
OverlapKind = Literal["equal", "contained", "overlapping"]
REASONS: Final[tuple[MissingReason, ...]] = get_args(MissingReason)
# Tests outside of the projects may have another job, and a rule for all shards is on purpose.
ORPHANS: Final[tuple[OrphanReason, ...]] = get_args(OrphanReason)


class UnsureTerm(NamedTuple):
    """A term, as written, whose tests are not known; it selects by a label or otherwise."""

    text: str
    is_label: bool


@dataclass(frozen=True, slots=True)
class SelectedShard:
    """A shard with its tests.

    Attributes:
        own: the tests that no other shard surely selects.
        unsure: terms of the filter whose tests are not known.
        wall_s: wall time of the tests by the history, seconds; None if no test has a time.
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
    """Two shards, by position, with the tests that both select; `kind` compares their tests."""

    first: int
    second: int
    tests: int
    kind: OverlapKind


class EmptyTerm(NamedTuple):
    """A term, as written, that matches no test, with the shards that have the term."""

    text: str
    shards: tuple[int, ...]


class VacuousTerms(NamedTuple):
    """Alternatives, as written, that divide nothing; the shard is by position."""

    shard: int
    terms: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Audit:
    """A matrix compared with its tests. Sets of tests are integers (`filters/expression.py`).

    Attributes:
        in_several, in_any: the tests that at least two shards, and at least one, surely select.
        executions: sum of the numbers of tests of all shards.
        missing: the tests in no shard, by the first reason that holds.
        undecided: tests that no shard surely selects, and a shard may select.
        unsure: terms of the common filter whose tests are not known; each is the whole filter.
        term_count: number of distinct terms of all shards.
    """

    tests: TestSet
    shards: tuple[SelectedShard, ...]
    in_several: int
    in_any: int
    executions: int
    missing: Mapping[MissingReason, int]
    undecided: int
    unsure: tuple[UnsureTerm, ...]
    overlaps: tuple[Overlap, ...]
    empty_terms: tuple[EmptyTerm, ...]
    term_count: int
    vacuous_terms: tuple[VacuousTerms, ...]

    @property
    def redundant(self) -> int:
        """The number of executions beyond one for each test that runs."""
        return self.executions - self.in_any.bit_count()

    @property
    def orphans(self) -> int:
        """The set of tests that no shard runs and no rule for all shards excludes."""
        tests = 0
        for reason in ORPHANS:
            tests |= self.missing[reason]
        return tests


def audit(
    matrix: HandMatrix, evaluator: Evaluator, durations_s: Sequence[float | None] = ()
) -> Audit:
    """Compare a matrix with the tests that exist.

    O(terms x length of all names + pairs of shards x tests / 64).

    Args:
        durations_s: of each test by the history; empty without a history.
    """
    tests = evaluator.tests
    folders = {name: tests.below(name) for name in {shard.project for shard in matrix.shards}}
    visible = [folders[shard.project] for shard in matrix.shards]
    selections = [
        _select(shard, matrix.common, evaluator).intersect(
            Selection(folder if tests.has_files or not shard.project else 0, folder)
        )
        for shard, folder in zip(matrix.shards, visible, strict=True)
    ]
    sure = [selection.sure for selection in selections]
    once = several = possible = 0
    for selection in selections:
        several |= once & selection.sure
        once |= selection.sure
        possible |= selection.possible
    shards = tuple(
        SelectedShard(
            shard,
            selection,
            own=selection.sure & ~several,
            unsure=_unsure(shard.expression, shard.written, evaluator),
            wall_s=_wall_s(selection.sure, durations_s),
        )
        for shard, selection in zip(matrix.shards, selections, strict=True)
    )
    all_terms = _terms(matrix, evaluator)
    return Audit(
        tests=tests,
        shards=shards,
        in_several=several,
        in_any=once,
        executions=sum(members.bit_count() for members in sure),
        missing=_reasons(matrix, tests.everything & ~possible, folders, evaluator),
        undecided=possible & ~once,
        unsure=_unsure(matrix.common, lambda _: matrix.common_text, evaluator),
        overlaps=tuple(_overlaps(sure)),
        empty_terms=tuple(EmptyTerm(text, shards) for text, shards, empty in all_terms if empty),
        term_count=len(all_terms),
        vacuous_terms=tuple(
            vacuous
            for position, shard in enumerate(matrix.shards)
            for vacuous in _vacuous_terms(position, shard, visible[position], evaluator)
        ),
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
    unsure = {
        UnsureTerm(written(term), term.is_label): None
        for term in (terms(expression) if expression is not None else ())
        if not is_placeholder(term) and not evaluator.term(term).is_known
    }
    return tuple(unsure)


def _wall_s(tests: int, durations_s: Sequence[float | None]) -> float | None:
    walls_s = [durations_s[position] for position in positions_in(tests)] if durations_s else []
    measured_s = [wall_s for wall_s in walls_s if wall_s is not None]
    return sum(measured_s) if measured_s else None


def _reasons(
    matrix: HandMatrix, missing: int, folders: Mapping[str, int], evaluator: Evaluator
) -> dict[MissingReason, int]:
    in_projects = by_label = 0
    for folder in folders.values():
        in_projects |= folder
    common = wrap(matrix.common, evaluator.everything, evaluator).possible

    for shard in matrix.shards:
        if shard.expression is not None:
            relaxed = without_exclusions(shard.expression)
            by_label |= evaluator.select(relaxed).possible & folders[shard.project]
    reasons: dict[MissingReason, int] = {"outside_projects": missing & ~in_projects}
    missing &= in_projects
    reasons["common_filter"] = missing & ~common
    missing &= common
    reasons["label"] = missing & by_label
    reasons["not_requested"] = missing & ~by_label
    return reasons


def _overlaps(sets: Sequence[int]) -> Iterator[Overlap]:
    for (first, left), (second, right) in combinations(enumerate(sets), 2):
        both = left & right
        if both:
            kind: OverlapKind = "contained" if both in (left, right) else "overlapping"
            yield Overlap(first, second, both, "equal" if left == right else kind)


def _terms(matrix: HandMatrix, evaluator: Evaluator) -> list[tuple[str, tuple[int, ...], bool]]:
    """Return (text as first written, shards, whether it selects no test) of each distinct term."""
    texts: dict[tuple[object, bool], str] = {}
    shards: dict[tuple[object, bool], dict[int, None]] = defaultdict(dict)
    empty: dict[tuple[object, bool], bool] = {}
    for position, shard in enumerate(matrix.shards):
        for term in terms(shard.expression) if shard.expression is not None else ():
            key = (term.condition, term.excludes)
            texts.setdefault(key, shard.written(term))
            shards[key][position] = None
            empty[key] = not evaluator.term(term).possible
    return [(text, tuple(shards[key]), empty[key]) for key, text in texts.items()]


def _vacuous_terms(
    position: int, shard: ShardFilter, visible: int, evaluator: Evaluator
) -> Iterator[VacuousTerms]:
    """Yield the vacuous terms of each group of alternatives.

    Args:
        position: of the shard.
        visible: the tests of the shard's project, from which its filter selects.
    """
    for alternatives, neighbours in _conjunctions(shard.expression or And(())):
        parts = (part for part in alternatives.parts if isinstance(part, Term))
        terms = [term for term in parts if not term.excludes]
        # A single term that is always true is a catch-all, on purpose.
        if len(terms) < max(2, len(alternatives.parts)):
            continue
        context = evaluator.select(And(neighbours)).sure & visible
        vacuous = [term for term in terms if context and not context & ~evaluator.term(term).sure]
        if vacuous:
            yield VacuousTerms(position, tuple(map(shard.written, vacuous)))


def _conjunctions(expression: Expression) -> Iterator[tuple[Or, tuple[Expression, ...]]]:
    """Yield every `x|y|...` in a conjunction, with its neighbours there."""
    if isinstance(expression, And):
        for position, part in enumerate(expression.parts):
            if isinstance(part, Or):
                yield part, (*expression.parts[:position], *expression.parts[position + 1 :])
    if isinstance(expression, And | Or):
        for part in expression.parts:
            yield from _conjunctions(part)
    elif isinstance(expression, Not):
        yield from _conjunctions(expression.part)
