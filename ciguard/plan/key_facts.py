"""What a plan has to say beside its shards, in words, for terminal, Markdown and HTML. Pure."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

from ciguard.text import count_of, duration, one_line, price, size

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ciguard.model import Plan, Shard

MIN_MEASURED_RATIO: Final = 0.5  # share of a shard's units
MIN_NAME_WIDTH: Final = 12  # of a name, however little room there is
SMALL_RISK: Final = 0.001  # nobody has seen enough runs to tell less
CHOICE_HEAD: Final = ("shards", "wall of the run", "billed minutes", "price")


def history_problem(plan: Plan) -> str:
    """Why the history could not be used; "" where it was, or there is none yet."""
    return str(plan.history.get("problem") or "")


def is_measured(plan: Plan) -> bool:
    """Without any known unit all times are nominal, and none is worth showing."""
    return any(unit.known for shard in plan.shards for unit in shard.units)


def unit_count(plan: Plan) -> int:
    """How many units are planned."""
    return sum(len(shard.units) for shard in plan.shards)


def peak(shard: Shard) -> str:
    """The predicted peak; ">" where so few units were measured that the others may need more."""
    measured = sum(unit.peak_delta_bytes is not None for unit in shard.units)
    return ">" * (0 < measured < MIN_MEASURED_RATIO * len(shard.units)) + size(
        shard.predicted.peak_bytes
    )


def headline(plan: Plan) -> str:
    """The plan in one sentence."""
    text = f"{count_of(unit_count(plan), 'unit')} in {count_of(len(plan.shards), 'shard')}"
    if not is_measured(plan):
        return f"{text}; no times are known"
    wall_s = max(shard.predicted.wall_s for shard in plan.shards)
    return f"{text}, {duration(wall_s)} predicted, {plan.gap:.1%} over the lower bound"


def key_facts(plan: Plan, split: Sequence[str], width: int) -> list[tuple[str, str]]:
    """What the headline does not say, a word and a text each; long names are cut to `width`."""
    found = []
    if len(plan.pools) == 1:
        found.append(("pool", one_line(next(iter(plan.pools)), width)))
    if plan.inventory.excluded:
        found.append(("excluded", f"{len(plan.inventory.excluded):,} by rules"))
    found.append(("history", _history(plan, width)))
    if is_measured(plan):
        found += _times(plan, width)
    elif plan.policy.deadline_s is not None:
        found.append(("deadline", _deadline(plan, plan.policy.deadline_s)))
    if split:
        found.append(("split", name_fitting(split, width)))
    if plan.base is not None:
        found.append(("moved", _moved(plan, width)))
    return [*found, *(("suspects", text) for text in _suspects(plan, width))]


def _history(plan: Plan, width: int) -> str:
    if not plan.history.get("source"):
        why = "cannot be used" if history_problem(plan) else "none"
        return f"{why}: the units are taken for equal"
    known = [unit.known for shard in plan.shards for unit in shard.units]
    runs = count_of(int(plan.history.get("runs", 0)), "run")
    newest = str(plan.history.get("newest") or "")[:10]
    newest_suffix = f", newest {newest}" if newest else ""
    share = "all" if all(known) else f"{sum(known) / len(known):.1%} of the"
    newest_suffix += f"; knows {share} units"
    room = max(MIN_NAME_WIDTH, width - len(f"{runs} at {newest_suffix}"))
    return f"{runs} at {one_line(str(plan.history['source']), room)}{newest_suffix}"


def _times(plan: Plan, width: int) -> Iterator[tuple[str, str]]:
    longest = max(plan.shards, key=lambda shard: shard.predicted.wall_s)
    yield "makespan", f"{duration(longest.predicted.wall_s)}, shard {one_line(longest.key, 12)}"
    yield "lower bound", f"{duration(plan.lower_bound_s)}; gap {plan.gap:.1%}"
    if plan.floor is not None:
        text = duration(plan.floor.wall_s) + ("" if plan.floor.known else ", guessed")
        yield "floor", f"{text}, {one_line(plan.floor.unit, width - len(text) - 2)}"
    if plan.policy.deadline_s is not None:
        yield "deadline", _deadline(plan, plan.policy.deadline_s)
        if plan.risk is not None:
            yield "risk", f"{_risk_text(plan.risk)} that a shard meets it, on like machines"
    tight = _least_headroom(plan)
    if tight is not None:
        text = f"{peak(tight)} of {size(tight.budget_bytes)}"
        yield "memory", f"{text}, shard {one_line(tight.key, 12)}"


def _deadline(plan: Plan, deadline_s: float) -> str:
    """With what has no other limit: a unit that hangs keeps its leg until then."""
    free = sum(unit.timeout_s is None for shard in plan.shards for unit in shard.units)
    text = f"{duration(deadline_s)}, when a leg stops itself"
    if not free:
        return text
    who = "no unit has" if free == unit_count(plan) else f"{count_of(free, 'unit')} without"
    return f"{text}; {who} a timeout"


def _risk_text(risk: float) -> str:
    return "under 0.1%" if risk < SMALL_RISK else f"{risk:.1%}"


def _least_headroom(plan: Plan) -> Shard | None:
    """The shard that comes nearest to its budget."""
    ratios = [
        (shard.predicted.peak_bytes / shard.budget_bytes, shard)
        for shard in plan.shards
        if shard.predicted.peak_bytes is not None and shard.budget_bytes
    ]
    return max(ratios, key=lambda one: one[0])[1] if ratios else None


def name_fitting(names: Sequence[str], width: int) -> str:
    """As many names as fit, at least one; the rest is counted."""
    more = f" and {len(names):,} more" if len(names) > 1 else ""
    room = max(MIN_NAME_WIDTH, width - len(more))
    shown: list[str] = []
    for name in names:
        short = one_line(name, room)
        if shown and len(", ".join([*shown, short])) > room:
            break
        shown.append(short)
    left = len(names) - len(shown)
    return ", ".join(shown) + (f" and {left:,} more" if left else "")


def _moved(plan: Plan, width: int) -> str:
    moved = f"{len(plan.moved):,}" if plan.moved else "none"
    text = f"{moved} of {count_of(unit_count(plan), 'unit')} moved from the base's shards"
    return f"{text} ({one_line(plan.base or '', width - len(text) - 3)})"


def _suspects(plan: Plan, width: int) -> Iterator[str]:
    """A line for each number of losses: who is spread, who runs apart, and where."""
    suspected = {(one.suite, one.variant, one.unit): one for one in plan.suspects}
    spread: dict[int, int] = defaultdict(int)
    apart: dict[int, list[str]] = defaultdict(list)
    for shard in plan.shards if suspected else ():
        here = [suspected.get(unit.key) for unit in shard.units]
        is_own = all(one is not None and one.alone for one in here)
        for one in filter(None, here):
            if is_own:
                apart[one.losses].append(shard.key)
            else:
                spread[one.losses] += 1
    for losses in sorted({*spread, *apart}):
        lost = "a lost shard" if losses == 1 else f"{losses} lost shards"
        if spread[losses]:
            are = "is" if spread[losses] == 1 else "are"
            yield f"{count_of(spread[losses], 'unit')} of {lost} {are} spread over the others"
        if apart[losses]:
            keys = sorted(set(apart[losses]))
            text = f"{count_of(len(apart[losses]), 'unit')} of {lost} run"
            text += f"{'s' * (len(apart[losses]) == 1)} apart in shard{'s' * (len(keys) > 1)} "
            yield text + name_fitting(keys, width - len(text))


def choice_rows(plan: Plan) -> list[tuple[str, ...]]:
    """Number of shards, wall, minutes, and the price where there is one; none without times."""
    if not is_measured(plan):
        return []
    priced = any(one.price_usd is not None for one in plan.choices)
    return [
        (f"{one.shards:,}", duration(one.wall_s), f"{one.minutes:,}", price(one.price_usd))[
            : 3 + priced
        ]
        for one in plan.choices
    ]


def choice_notes(plan: Plan, width: int) -> list[str]:
    """Why so many shards, and what the numbers leave out; nothing without times."""
    if not is_measured(plan):
        return []
    found = []
    if plan.stopped_by:
        why = f"why {count_of(len(plan.shards), 'shard')}: "
        found.append(why + one_line(plan.stopped_by, width - len(why)))
    for name, pool in plan.pools.items():
        if pool.concurrency is not None:
            text = f": {count_of(pool.concurrency, 'job')} at once"
            found.append(f"pool {one_line(name, width - len(text) - 5)}{text}")
    silent = [f"pool.{name}.setup" for name, pool in plan.pools.items() if pool.setup_s is None]
    if silent:
        text = "without the jobs' set-up: set "
        found.append(text + name_fitting(silent, width - len(text)))
    if len(plan.choices) > 1:
        found.append("other numbers of shards are worked out by sums, without memory")
    return found
