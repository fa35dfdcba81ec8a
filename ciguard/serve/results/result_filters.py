"""What a page may ask of a run's results: filters, order and page, out of a URL's query."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ciguard.errors import UsageError, combine
from ciguard.serve.results.queries import SORT_COLUMNS
from ciguard.serve.results.rows import OUTCOME_CODES

if TYPE_CHECKING:
    from collections.abc import Mapping

PAGE_SIZES: Final = (25, 100, 500, 1000)
MAX_PAGE: Final = 100_000
MAX_TEXT: Final = 500  # characters of a search
_TEXTS: Final = ("text", "suite", "variant", "shard")


@dataclass(frozen=True, slots=True)
class ResultFilters:
    """Which rows of a run, in which order; None does not filter.

    `text` is a part of the name of a unit or case, of whichever case its letters are. The worst
    outcomes come first: people open a run to see what went wrong.
    """

    text: str | None = None
    outcome: str | None = None
    suite: str | None = None
    variant: str | None = None
    shard: str | None = None
    sort: str = "outcome"
    is_descending: bool = True
    page: int = 1
    page_size: int = 100

    @property
    def values(self) -> dict[str, Any]:
        """The values of the conditions, by the name of their parameter."""
        found: dict[str, Any] = {name: getattr(self, name) for name in _TEXTS}
        found["text"] = self.text.lower() if self.text else None
        found["outcome"] = OUTCOME_CODES[self.outcome] if self.outcome is not None else None
        return {name: value for name, value in found.items() if value is not None}


def parse_filters(query: Mapping[str, str]) -> ResultFilters:
    """Read a URL's query: `text`, `outcome`, `suite`, `variant`, `shard`, `sort` ("-wall" is
    descending), `page` and `size`; other names are left to others, "" is as if it were not there.

    Raises:
        UsageError: with everything that is wrong with it.
    """
    wrong: list[UsageError] = []
    found: dict[str, Any] = {}
    for name in _TEXTS:
        if query.get(name) or (name != "text" and name in query):
            found[name] = query[name]
            if len(query[name]) > MAX_TEXT:
                wrong.append(UsageError(f"expected at most {MAX_TEXT} characters", where=name))
    if outcome := query.get("outcome"):
        found["outcome"] = outcome
        if outcome not in OUTCOME_CODES:
            wrong.append(_expected("outcome", " or ".join(OUTCOME_CODES), outcome))
    if sort := query.get("sort"):
        found["sort"] = sort.removeprefix("-")
        found["is_descending"] = sort.startswith("-")
        if found["sort"] not in SORT_COLUMNS:
            names = ", ".join(SORT_COLUMNS)
            wrong.append(_expected("sort", f"one of {names}, or one with - before it", sort))
    found["page"] = _number(query, "page", 1, wrong)
    if not 1 <= found["page"] <= MAX_PAGE:
        wrong.append(_expected("page", f"a number from 1 to {MAX_PAGE}", query["page"]))
    found["page_size"] = _number(query, "size", 100, wrong)
    if found["page_size"] not in PAGE_SIZES:
        wrong.append(_expected("size", f"one of {', '.join(map(str, PAGE_SIZES))}", query["size"]))
    if wrong:
        raise combine(wrong)
    return ResultFilters(**found)


def _number(query: Mapping[str, str], name: str, default: int, wrong: list[UsageError]) -> int:
    text = query.get(name) or str(default)
    if text.isascii() and text.isdecimal() and len(text) <= len(str(MAX_PAGE)):
        return int(text)
    wrong.append(_expected(name, "a whole number", text))
    return default


def _expected(name: str, what: str, found: str) -> UsageError:
    return UsageError(f"expected {what}, found {found[:80]!r}", where=name)
