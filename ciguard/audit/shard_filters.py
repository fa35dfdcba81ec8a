"""A matrix written by hand: its shards, each with the filter that selects its tests. Pure."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, Final

from ciguard.audit.filters import vstest
from ciguard.audit.filters.expression import Expression, Selection, Term, terms
from ciguard.codec.results.base import read_limited
from ciguard.errors import InputError

if TYPE_CHECKING:
    from ciguard.audit.filters.base import Evaluator, FilterLanguage

MAX_BYTES: Final = 10 << 20  # of a matrix
MAX_SHARDS: Final = 10_000
HOLE: Final = "<shard filter>"  # what stands for a shard's own filter in the common one
_NAME: Final = "ciguard-shard-filter"  # the same as a word of each language
_MINUTE_S: Final = 60


@dataclass(frozen=True, slots=True)
class ShardFilter:
    """A shard, and what it selects.

    Attributes:
        name: as GitHub shows the job.
        text: its own filter, as written; "" where it has none.
        expression: of that text; None where it cannot be known, and then `unknown` says why.
        project: the folder below which its tests lie, "" for all.
        artifact: that its job uploads test results as; "" where none is known.
        line: of the workflow.
    """

    name: str
    text: str
    expression: Expression | None
    project: str = ""
    timeout_s: float | None = None
    runner: str = ""
    artifact: str = ""
    line: int | None = None
    unknown: str = ""

    def written(self, term: Term) -> str:
        """A term of the filter as it stands there."""
        return self.text[term.start : term.end]


@dataclass(frozen=True, slots=True)
class HandMatrix:
    """Shards, and what the command adds to the filter of each.

    Attributes:
        common: with a term in the place of the shard's own filter.
        common_text: the same as written.
    """

    shards: tuple[ShardFilter, ...]
    common: Expression
    common_text: str = ""
    language: FilterLanguage = vstest

    @property
    def has_labels(self) -> bool:
        """A filter asks for a category, marker or trait."""
        written = [self.common, *(shard.expression for shard in self.shards if shard.expression)]
        every = (term for expression in written for term in terms(expression))
        return any(self.language.is_label(term) for term in every if not is_placeholder(term))


def is_placeholder(term: Term) -> bool:
    """Return whether a term of `common` stands for the shard's own filter."""
    return term.condition == _HOLE_CONDITION


_HOLE_CONDITION: Final = vstest.Condition(vstest.FULL_NAME, contains=True, value=_NAME)
NO_COMMON: Final = Term(_HOLE_CONDITION, 0, 0)


def wrap(common: Expression, own: Selection, evaluator: Evaluator) -> Selection:
    """The tests that the common filter selects where a shard's own one selects `own`."""
    return evaluator.select(
        common, lambda term: own if is_placeholder(term) else evaluator.term(term)
    )


def read_json(stream: IO[bytes], source: str) -> HandMatrix:
    """A matrix as JSON: `{"global_filter": "(<shard filter>)&B!=c", "shards": [{"name", "filter",
    "project", "timeout_minutes", "runner"}]}`, of which a shard needs its name.

    Raises:
        InputError: not such JSON, no shard, two of one name, or a filter that cannot be read.
    """
    try:
        content = json.loads(read_limited(stream, source, MAX_BYTES))
    except (ValueError, RecursionError) as error:
        raise InputError(f"not JSON: {error}", where=source) from None
    items = content.get("shards") if isinstance(content, dict) else content
    if not isinstance(items, list) or not items or len(items) > MAX_SHARDS:
        fix = 'write {"shards": [{"name": "unit", "filter": "FullyQualifiedName~Unit"}]}'
        raise InputError("no list of shards", where=source, fix=fix)
    common_text = content.get("global_filter", "") if isinstance(content, dict) else ""
    shards = tuple(_shard(item, f"{source}: shards[{place}]") for place, item in enumerate(items))
    reject_equal_names(shards, source)
    return HandMatrix(shards, parse_common(common_text, f"{source}: global_filter"), common_text)


def parse_common(text: object, where: str) -> Expression:
    """The filter that wraps each shard's own one, which stands in it as `<shard filter>`.

    Raises:
        InputError: no text, no place for the shard's own filter, or no filter.
    """
    if text == "":
        return NO_COMMON
    if not isinstance(text, str) or text.count(HOLE) != 1:
        raise InputError(f"{HOLE} does not stand in it once", where=where)
    return vstest.parse(text.replace(HOLE, _NAME), where)


def reject_equal_names(shards: tuple[ShardFilter, ...], where: str) -> None:
    """Refuse two shards of one name: a report could not tell them apart.

    Raises:
        InputError: names one.
    """
    seen: set[str] = set()
    for shard in shards:
        if shard.name in seen:
            fix = "give each shard a name of its own"
            raise InputError(f"two shards are named {shard.name!r:.120}", where=where, fix=fix)
        seen.add(shard.name)


def _shard(item: Any, where: str) -> ShardFilter:
    if not isinstance(item, dict):
        raise InputError(f"a shard is an object, not {item!r:.60}", where=where)
    texts = {}
    for key in ("name", "filter", "project", "runner"):
        value = item.get(key) or ""
        if not isinstance(value, str):
            raise InputError(f"{key} is no text: {value!r:.60}", where=where)
        texts[key] = value
    minutes = item.get("timeout_minutes")
    if minutes is not None and (isinstance(minutes, bool) or not isinstance(minutes, int | float)):
        raise InputError(f"timeout_minutes is no number: {minutes!r:.60}", where=where)
    if not texts["name"]:
        raise InputError("a shard has no name", where=where)
    return ShardFilter(
        name=texts["name"],
        text=texts["filter"],
        expression=vstest.parse(texts["filter"], f"{where} ({texts['name']})"),
        project=texts["project"],
        timeout_s=None if minutes is None else minutes * _MINUTE_S,
        runner=texts["runner"],
    )
