"""`coverage.json` of the job that combines a run's coverage, and that runs code of the project."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Final, Literal

from pydantic import Field, TypeAdapter, ValidationError

from ciguard.errors import InputError

MAX_BYTES: Final = 1 << 24  # 100,000 files take 10 MB
WITH_BRANCHES: Final = "line and branch"
Count = Annotated[int, Field(ge=0, lt=1 << 53)]
Percent = Annotated[float, Field(ge=0, le=100)]


@dataclass(frozen=True, slots=True)
class Share:
    """The covered of all lines or statements; `percent` as the tool prints it."""

    covered: Count
    total: Count
    percent: Percent | None


@dataclass(frozen=True, slots=True)
class Coverage:
    """The content of `coverage.json`. Incomplete coverage has no total, or none of the diff.

    Attributes:
        unit: "line", "statement", or `WITH_BRANCHES`; files and diff count lines in each case.
        incomplete: what is missing or damaged, for people; `missing`: shards without a part.
        not_collected: suites and variants that collect none on purpose.
        files: covered and all, by path in the repository.
        diff: of the lines that the pull request adds or changes; None if they are not known.
        uncovered: of these lines, by path.
    """

    format: str
    unit: str
    incomplete: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    not_collected: tuple[str, ...] = ()
    total: Share | None = None
    files: dict[str, tuple[Count, Count]] = field(default_factory=dict)
    diff: Share | None = None
    uncovered: dict[str, list[Count]] = field(default_factory=dict)
    schema: Literal[1] = 1


NO_COVERAGE: Final = Coverage("", "line", incomplete=("no result of its job",))


def decode(content: bytes, source: str) -> Coverage:
    """Read `coverage.json`.

    Raises:
        InputError: the content is of another kind or schema, or too large.
    """
    fix = "pass the file that `ciguard coverage -o FILE` wrote"
    if len(content) > MAX_BYTES:
        raise InputError(f"{len(content):,} bytes, at most {MAX_BYTES:,}", where=source, fix=fix)
    try:
        return TypeAdapter(Coverage).validate_json(content)
    except ValidationError as error:
        detail = error.errors()[0]
        what = f"no coverage: {'.'.join(map(str, detail['loc'])):.200}: {detail['msg']:.200}"
        raise InputError(what, where=source, fix=fix) from None
