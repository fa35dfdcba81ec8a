"""A plan for people: a table for the terminal, Markdown for the job's summary. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ciguard.text import duration, escaped, one_line, size, table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ciguard.model import Plan, Shard

WIDTH: Final = 80
POOL_WIDTH: Final = 18
LEAST_MEASURED: Final = 0.5  # share of a shard's units
HEAD: Final = ("shard", "units", "predicted wall", "95 %", "peak", "pool")
RIGHT: Final = frozenset({1, 2, 3, 4})
PLAIN: Final = frozenset(" /.,;-()%'")  # what no Markdown reader takes for markup within a line


def _is_measured(plan: Plan) -> bool:
    """Without any known unit all times are nominal, and none is worth showing."""
    return any(unit.known for shard in plan.shards for unit in shard.units)


def _row(shard: Shard, measured: bool) -> tuple[str, ...]:
    predicted = shard.predicted
    return (
        shard.key,
        f"{len(shard.units):,}",
        duration(predicted.wall_s if measured else None),
        duration(predicted.wall_p95_s if measured else None),
        _peak(shard),
        one_line(shard.pool, POOL_WIDTH),
    )


def _peak(shard: Shard) -> str:
    """The predicted peak; ">" where so few units were measured that the others may need more."""
    measured = sum(unit.peak_delta_bytes is not None for unit in shard.units)
    return ">" * (0 < measured < LEAST_MEASURED * len(shard.units)) + size(
        shard.predicted.peak_bytes
    )


def _facts(plan: Plan, split: Sequence[str]) -> list[tuple[str, str]]:
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
            ("makespan", f"{duration(longest.predicted.wall_s)}, shard {longest.key}"),
            ("lower bound", f"{duration(plan.lower_bound_s)}; gap {plan.gap:.1%}"),
        ]
        if plan.floor is not None:
            guessed = "" if plan.floor.known else ", guessed"
            unit = one_line(plan.floor.unit, WIDTH - 28 - len(guessed))
            facts.append(("floor", f"{duration(plan.floor.wall_s)}{guessed}, {unit}"))
    if split:
        facts.append(("split", _some(split, WIDTH - 15)))
    return facts


def _some(names: Sequence[str], width: int) -> str:
    """As many names as fit a line, at least one; the rest is counted."""
    shown = [one_line(names[0], width - 20)]
    for name in names[1:]:
        if len(", ".join([*shown, name])) > width - 20:
            break
        shown.append(one_line(name, width))
    more = len(names) - len(shown)
    return ", ".join(shown) + (f" and {more:,} more" if more else "")


def _history(plan: Plan, known_ratio: float) -> str:
    if not plan.history.get("source"):
        return "none: the units are taken for equal"
    source = one_line(str(plan.history["source"]), WIDTH // 3)
    runs = plan.history.get("runs", 0)
    counted = "1 run" if runs == 1 else f"{runs} runs"
    return f"{counted} at {source}; knows {known_ratio:.1%} of the units"


def terminal(plan: Plan, split: Sequence[str]) -> str:
    """Shards as a table, then what bounds them; 80 columns unless a key or a size is absurd."""
    measured = _is_measured(plan)
    rows = [HEAD, *(_row(shard, measured) for shard in plan.shards)]
    facts: list[tuple[str, ...]] = list(_facts(plan, split))
    return f"{table(rows, right=RIGHT)}\n\n{table(facts, right=frozenset())}\n"


def markdown(plan: Plan, split: Sequence[str]) -> str:
    """The same for `$GITHUB_STEP_SUMMARY`, with the warnings; every text from outside escaped."""
    measured = _is_measured(plan)
    lines = [f"### Plan {plan.id}", ""]
    lines += [f"- **{word}**: {escaped(text)}" for word, text in _facts(plan, split)]
    if plan.warnings:
        lines += ["", "\n>\n".join(f"> :warning: {escaped(text)}" for text in plan.warnings)]
    lines += ["", f"| {' | '.join(HEAD)} |", "|---|--:|--:|--:|--:|---|"]
    for shard in plan.shards:
        lines.append(f"| {' | '.join(map(escaped, _row(shard, measured)))} |")
    return "\n".join([*lines, ""])
