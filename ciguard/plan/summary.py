"""A plan for people: a table for the terminal, Markdown for the job's summary. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from ciguard.plan.inventory import shortened

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ciguard.model import Plan, Shard

WIDTH: Final = 80
POOL_WIDTH: Final = 18
HEAD: Final = ("shard", "units", "predicted wall", "95 %", "peak", "pool")
RIGHT: Final = frozenset({1, 2, 3, 4})
PLAIN: Final = frozenset(" /.,;-()%'")  # what no Markdown reader takes for markup within a line


class Table(Protocol):
    """Aligns columns."""

    def __call__(self, rows: list[tuple[str, ...]], *, right: frozenset[int]) -> str: ...


class Formats(NamedTuple):
    """How numbers are written; the console's own."""

    duration: Duration
    size: Duration
    table: Table


class Duration(Protocol):
    """A number, or None where nothing was measured, for people."""

    def __call__(self, value: float | None, /) -> str: ...


def _is_measured(plan: Plan) -> bool:
    """Without any known unit all times are nominal, and none is worth showing."""
    return any(unit.known for shard in plan.shards for unit in shard.units)


def _row(shard: Shard, formats: Formats, measured: bool) -> tuple[str, ...]:
    predicted = shard.predicted
    return (
        shard.key,
        f"{len(shard.units):,}",
        formats.duration(predicted.wall_s if measured else None),
        formats.duration(predicted.wall_p95_s if measured else None),
        formats.size(predicted.peak_bytes),
        shortened(shard.pool, POOL_WIDTH),
    )


def _facts(plan: Plan, split: Sequence[str], formats: Formats) -> list[tuple[str, str]]:
    """What there is to say besides the shards: a word and a text each."""
    units = [unit for shard in plan.shards for unit in shard.units]
    known = sum(unit.known for unit in units)
    facts = [("units", f"{len(units):,} in {len(plan.shards)} shard{'s' * (len(plan.shards) > 1)}")]
    if plan.inventory.excluded:
        facts.append(("excluded", f"{len(plan.inventory.excluded):,} by rules"))
    facts.append(("history", _history(plan, known / len(units))))
    if known:
        longest = max(plan.shards, key=lambda shard: shard.predicted.wall_s)
        facts += [
            ("makespan", f"{formats.duration(longest.predicted.wall_s)}, shard {longest.key}"),
            ("lower bound", f"{formats.duration(plan.lower_bound_s)}; gap {plan.gap:.1%}"),
        ]
        if plan.floor is not None:
            unit = shortened(plan.floor.unit, WIDTH - 28)
            facts.append(("floor", f"{formats.duration(plan.floor.wall_s)}, {unit}"))
    if split:
        facts.append(("split", _some(split, WIDTH - 15)))
    return facts


def _some(names: Sequence[str], width: int) -> str:
    """As many names as fit a line, at least one; the rest is counted."""
    shown = [shortened(names[0], width - 20)]
    for name in names[1:]:
        if len(", ".join([*shown, name])) > width - 20:
            break
        shown.append(shortened(name, width))
    more = len(names) - len(shown)
    return ", ".join(shown) + (f" and {more:,} more" if more else "")


def _history(plan: Plan, known_ratio: float) -> str:
    if not plan.history.get("source"):
        return "none: the units are taken for equal"
    source = shortened(str(plan.history["source"]), WIDTH // 3)
    runs = plan.history.get("runs", 0)
    counted = "1 run" if runs == 1 else f"{runs} runs"
    return f"{counted} at {source}; knows {known_ratio:.1%} of the units"


def terminal(plan: Plan, split: Sequence[str], formats: Formats) -> str:
    """Shards as a table, then what bounds them; 80 columns unless a key or a size is absurd."""
    measured = _is_measured(plan)
    rows = [HEAD, *(_row(shard, formats, measured) for shard in plan.shards)]
    facts: list[tuple[str, ...]] = list(_facts(plan, split, formats))
    return f"{formats.table(rows, right=RIGHT)}\n\n{formats.table(facts, right=frozenset())}\n"


def markdown(plan: Plan, split: Sequence[str], formats: Formats) -> str:
    """The same for `$GITHUB_STEP_SUMMARY`, with the warnings; every text from outside escaped."""
    measured = _is_measured(plan)
    lines = [f"### Plan {plan.id}", ""]
    lines += [f"- **{word}**: {escaped(text)}" for word, text in _facts(plan, split, formats)]
    if plan.warnings:
        lines += ["", "\n>\n".join(f"> :warning: {escaped(text)}" for text in plan.warnings)]
    lines += ["", f"| {' | '.join(HEAD)} |", "|---|--:|--:|--:|--:|---|"]
    for shard in plan.shards:
        lines.append(f"| {' | '.join(map(escaped, _row(shard, formats, measured)))} |")
    return "\n".join([*lines, ""])


def escaped(text: str) -> str:
    """A text that shows as it is in Markdown, in one line: marks become character references."""
    return "".join(
        character if character.isalnum() or character in PLAIN else f"&#{ord(character)};"
        for character in shortened(text, 2000)
    )
