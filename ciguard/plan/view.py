"""A plan for people: table and bars for the terminal, Markdown for the job's summary. Pure."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Final

from ciguard.model import UnitKey
from ciguard.plan import key_facts
from ciguard.plan.wall_time_chart import mermaid
from ciguard.text import (
    code,
    count_of,
    distinct_lines,
    duration,
    escaped,
    one_line,
    table,
    unit_name,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ciguard.model import CulpritCandidate, MovedUnit, Plan, Prediction, Shard

WIDTH: Final = 80
POOL_WIDTH: Final = 18
KEY_WIDTH: Final = 12
FACT_WIDTH: Final = WIDTH - 13  # "lower bound" and two spaces
HEAD: Final = ("shard", "units", "predicted wall", "95 %", "peak", "pool")
RIGHT: Final = frozenset({1, 2, 3, 4})

BLOCKS: Final = ("█", "▌", "░")  # a whole, a half, and what the 95 % add
ASCII_BLOCKS: Final = ("#", "", ".")
BAR_HEAD: Final = "wall, then to 95 %"
WIDEST_BAR: Final = 24
NARROW_BAR: Final = 12
NARROW_FROM: Final = 40  # shards: less ink where there are so many rows
MIN_BAR: Final = 6

FOLDED_FROM: Final = 20  # shards
MAX_LISTED: Final = 20  # moved units and suspects


def terminal(plan: Plan, split: Sequence[str], *, encoding: str = "utf-8") -> str:
    """Shards with their bars, what bounds them, and what other numbers of shards would cost.

    80 columns unless a size is absurd. Every shard has its row, however many there are; the facts
    come last, where a long table leaves them in sight; a history that cannot be used comes first.

    Args:
        encoding: of what it is written to; bars are ASCII where it has no blocks.
    """
    units = f"{key_facts.unit_count(plan):,} in {count_of(len(plan.shards), 'shard')}"
    found: list[tuple[str, ...]] = [("units", units), *key_facts.key_facts(plan, split, FACT_WIDTH)]
    problem = (
        f"warning: {one_line(key_facts.history_problem(plan), 600)}"
        if key_facts.history_problem(plan)
        else ""
    )
    problem = textwrap.fill(problem, WIDTH, break_on_hyphens=False)
    parts = [problem, _shards(plan, _marks(encoding)), table(found), _choices(plan)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _marks(encoding: str) -> tuple[str, str, str]:
    try:
        "".join(BLOCKS).encode(encoding)
    except UnicodeEncodeError:
        return ASCII_BLOCKS
    return BLOCKS


def _columns(plan: Plan) -> int:
    """The pool is worth a column where there are several."""
    return len(HEAD) if len(plan.pools) > 1 else len(HEAD) - 1


def _rows(plan: Plan, measured: bool) -> list[tuple[str, ...]]:
    keys = distinct_lines([shard.key for shard in plan.shards], KEY_WIDTH)
    shards = zip(keys, plan.shards, strict=True)
    return [_row(key, shard, measured) for key, shard in shards]


def _row(key: str, shard: Shard, measured: bool) -> tuple[str, ...]:
    predicted = shard.predicted
    return (
        key,
        f"{len(shard.units):,}",
        duration(predicted.wall_s if measured else None),
        duration(predicted.wall_p95_s if measured else None),
        key_facts.peak(shard),
        one_line(shard.pool, POOL_WIDTH),
    )


def _shards(plan: Plan, marks: tuple[str, str, str]) -> str:
    measured = key_facts.is_measured(plan)
    columns = _columns(plan)
    rows = [HEAD, *_rows(plan, measured)]
    lines = table([row[:columns] for row in rows], right=RIGHT).splitlines()
    room = WIDTH - max(map(len, lines)) - 2
    width = min(room, NARROW_BAR if len(plan.shards) > NARROW_FROM else WIDEST_BAR)
    if not measured or width < MIN_BAR:
        return "\n".join(lines)
    scale_s = max(shard.predicted.wall_p95_s for shard in plan.shards)
    head = BAR_HEAD if len(BAR_HEAD) <= room else ""
    bars = [head, *(_bar(shard.predicted, scale_s, width, marks) for shard in plan.shards)]
    pairs: list[tuple[str, ...]] = [(line, bar) for line, bar in zip(lines, bars, strict=True)]
    return table(pairs)


def _bar(predicted: Prediction, scale_s: float, width: int, marks: tuple[str, str, str]) -> str:
    """As long as the wall time, then lighter up to the 95 %; `scale_s` is the whole width."""
    full, half, light = marks
    wall = predicted.wall_s / scale_s * width if scale_s else 0.0
    bar = full * int(wall) + half * (wall % 1 >= 0.5) if half else full * round(wall)  # noqa: PLR2004
    end = round(predicted.wall_p95_s / scale_s * width) if scale_s else 0
    return bar + light * (end - len(bar))


def _choices(plan: Plan) -> str:
    rows = key_facts.choice_rows(plan)
    if not rows:
        return ""
    head = ("", *key_facts.CHOICE_HEAD[: len(rows[0])])
    marked = [
        (">" if one.chosen else "", *row) for one, row in zip(plan.choices, rows, strict=True)
    ]
    right = frozenset(range(1, len(head)))
    return "\n".join([table([head, *marked], right=right), *key_facts.choice_notes(plan, WIDTH)])


def markdown(plan: Plan, split: Sequence[str]) -> str:
    """The same for `$GITHUB_STEP_SUMMARY`, with the warnings; every text from outside escaped."""
    found = key_facts.key_facts(plan, split, FACT_WIDTH)
    problem = key_facts.history_problem(plan)
    blocks = [
        f"### Plan {plan.id}",
        f"> :warning: **{escaped(problem)}**" if problem else "",
        f"**{escaped(key_facts.headline(plan))}**",
        "\n".join(f"- **{word}**: {escaped(text)}" for word, text in found),
        "\n>\n".join(f"> :warning: {escaped(text)}" for text in plan.warnings if text != problem),
        mermaid(plan) if key_facts.is_measured(plan) else "",
        *_choice_blocks(plan),
        *_shard_blocks(plan),
        *_moved_blocks(plan),
        *_suspect_blocks(plan),
    ]
    return "\n\n".join(block for block in blocks if block) + "\n"


def _choice_blocks(plan: Plan) -> Iterator[str]:
    rows = key_facts.choice_rows(plan)
    if not rows:
        return
    head = key_facts.CHOICE_HEAD[: len(rows[0])]
    lines = [f"| {' | '.join(head)} | |", f"|{'--:|' * len(head)}---|"]
    for one, row in zip(plan.choices, rows, strict=True):
        cells = [f"**{cell}**" if one.chosen else cell for cell in row]
        lines.append(f"| {' | '.join(cells)} | {'chosen' if one.chosen else ''} |")
    yield "\n".join(lines)
    yield "\n".join(f"- {escaped(note)}" for note in key_facts.choice_notes(plan, WIDTH))


def _shard_blocks(plan: Plan) -> Iterator[str]:
    measured = key_facts.is_measured(plan)
    columns = _columns(plan)
    align = ("---", "--:", "--:", "--:", "--:", "---")
    lines = [f"| {' | '.join(HEAD[:columns])} |", f"|{'|'.join(align[:columns])}|"]
    rows = [row[:columns] for row in _rows(plan, measured)]
    lines += [f"| {' | '.join(map(escaped, row))} |" for row in rows]
    text = "\n".join(lines)
    if len(plan.shards) > FOLDED_FROM:
        yield _details(count_of(len(plan.shards), "shard"), text)
    else:
        yield text


def _moved_blocks(plan: Plan) -> Iterator[str]:
    lines = [
        f"- {_name(one)}: shard {escaped(one.before)} → {escaped(one.now)}"
        for one in plan.moved[:MAX_LISTED]
    ]
    if lines:
        text = f"{count_of(len(plan.moved), 'unit')} moved from the base's shards"
        yield _details(text, _truncated(lines, len(plan.moved)))


def _suspect_blocks(plan: Plan) -> Iterator[str]:
    ordered = sorted(plan.suspects, key=lambda one: -one.losses)
    lines = [
        f"- {_name(one)}: in {count_of(one.losses, 'lost shard')}" for one in ordered[:MAX_LISTED]
    ]
    if lines:
        text = f"{count_of(len(ordered), 'unit')} that were in lost shards"
        yield _details(text, _truncated(lines, len(ordered)))


def _name(one: MovedUnit | CulpritCandidate) -> str:
    return code(unit_name(UnitKey(one.suite, one.variant, one.unit)))


def _truncated(lines: list[str], count: int) -> str:
    more = count - len(lines)
    return "\n".join([*lines, f"- and {more:,} more"] if more else lines)


def _details(summary_text: str, text: str) -> str:
    return f"<details><summary>{summary_text}</summary>\n\n{text}\n\n</details>"
