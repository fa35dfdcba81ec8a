"""Terms that are true for everything that their neighbours select, and what was meant. Pure.

In `A&(x|y)` the term x decides nothing where A selects only tests that x selects: then y decides
nothing either. It happens where x is a part of a name that A requires already, as `~Tests.D` in
`~ModelTests.Diffusion&(~Tests.A|~Tests.D)`. What was meant continues the name that A requires; it
was meant in every shard whose alternatives have the same neighbours and the same beginning.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from ciguard.audit.filters.expression import And, Not, Or, Term
from ciguard.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import TypeGuard

    from ciguard.audit.evaluator import Evaluator
    from ciguard.audit.filters.expression import Expression
    from ciguard.audit.shard_filters import ShardFilter


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
        vacuous = [one for one in terms if context and not context & ~evaluator.term(one).sure]
        beginnings = {filter_.written(term).rpartition(".")[0] for term in terms}
        yield _Group(
            shard,
            terms,
            tuple(vacuous),
            neighbours=tuple(sorted(filter_.written(one) for one in others if _selects(one))),
            beginning=beginnings.pop() if len(beginnings) == 1 else "",
        )


def _selects(part: Expression) -> TypeGuard[Term]:
    return isinstance(part, Term) and not part.excludes


def _correction(shard: ShardFilter, group: _Group, seen: int, evaluator: Evaluator) -> Correction:
    named = [one for one in group.neighbours if "." in one]
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
