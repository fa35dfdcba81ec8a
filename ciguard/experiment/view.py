"""What `ciguard experiment` shows, of commands and of two commits: values -> blocks. Pure."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Final

from ciguard.document import (
    Bullets,
    Code,
    Column,
    Facts,
    Headline,
    Item,
    Paragraph,
    Section,
    Table,
    identifier,
)
from ciguard.experiment.commit_test import ALPHA as COMMIT_ALPHA
from ciguard.experiment.commit_test import key_of, row_verdict_of
from ciguard.experiment.measurement import PEAK, WALL, Measurement, Metric
from ciguard.experiment.result import external_cpu_ratio
from ciguard.experiment.schedule import ALPHA, Design, Step
from ciguard.model.machine_use import SWAPPED_BYTES
from ciguard.text import case_name, count_of, duration, one_line, percent, percents, size

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ciguard.document import Block, Content
    from ciguard.document import Row as Cells
    from ciguard.experiment.paired_test import Row
    from ciguard.experiment.result import CpuAnswer, Exclusion, Experiment, StopReason, Unpaired

MAX_NAMED: Final = 3  # metrics that another arm has not
MAX_SHOWN_RATIO: Final = 100.0  # of a: an interval up to there says no more than one beyond
SHOWN_METRICS: Final = (WALL, PEAK)  # of each run, while it goes on
STOP_TEXT: Final[Mapping[StopReason, str]] = {
    "all runs": "",
    "conclusive": "; stopped early: conclusive",
    "budget": "; stopped: the budget was spent (raise --budget, or measure fewer tests)",
    "failed": "; stopped: a run failed",
    "interrupted": "; incomplete: interrupted",
}
ERROR_RATE: Final = (
    f"Of 100 experiments without any difference at most {ALPHA * 100:.0f} report one in wall time, "
    f"and at most {ALPHA * 100:.0f} one in the other rows, over all arms, conditions and interim "
    "analyses together (Holm). A verdict of - is no significant difference; an interval is of its "
    "row alone, and so may exclude 0 all the same."
)
COMMIT_ERROR_RATE: Final = (
    "Paired t-test, its scale moderated over all tests; at most "
    f"{100 * COMMIT_ALPHA:.0f} % of the differences are expected to be chance."
)


def document(experiment: Experiment) -> tuple[Block, ...]:
    """Commands; the last line is the verdict, of several arms the last lines are."""
    design = experiment.design
    rows: list[tuple[str, Content]] = [
        (arm, Code(command)) for arm, command in experiment.arms.items()
    ]
    rows.append(("runs", coverage_text(experiment)))
    unpaired = tuple(Item(unpaired_text(one)) for one in experiment.unpaired)
    return (
        Headline(headline_text(experiment)),
        Facts(tuple(rows)),
        *(
            _condition(
                f"condition_{at}",
                design.condition_text(at),
                experiment,
                [row for row in experiment.rows if row.condition == at],
            )
            for at in range(len(design.conditions))
        ),
        *(Paragraph(cpu_answer_text(one, design)) for one in experiment.cpu_answers),
        *_failure(experiment.failed, design),
        *_machine(experiment),
        Bullets(unpaired, "note"),
        Bullets(tuple(map(Item, invalid_metric_texts(experiment))), "warning"),
        Paragraph(ERROR_RATE, is_note=True),
        *map(Paragraph, verdict_lines(experiment)),
    )


def headline_text(experiment: Experiment) -> str:
    """ "b compared with a: faster", "compared with a: b faster, c mixed"."""
    (first, *_), verdicts = experiment.design.arms, experiment.verdicts
    if len(verdicts) == 1:
        ((arm, verdict),) = verdicts.items()
        return f"{arm} compared with {first}: {verdict}"
    listed = ", ".join(f"{arm} {verdict}" for arm, verdict in verdicts.items())
    return f"compared with {first}: {listed}"


def verdict_lines(experiment: Experiment) -> tuple[str, ...]:
    """The verdict; of several arms "NAME: VERDICT" each."""
    if experiment.verdict is not None:
        return (experiment.verdict,)
    return tuple(f"{arm}: {verdict}" for arm, verdict in experiment.verdicts.items())


def commit_document(result: Experiment) -> tuple[Block, ...]:
    """Two commits; the last line is the verdict."""
    rows: list[tuple[str, Content]] = [(arm, Code(commit)) for arm, commit in result.arms.items()]
    rows.append(("runs", commit_coverage_text(result)))
    columns = (Column("test"), *_columns("base", "head"))
    cells = tuple(_commit_row(row) for row in result.rows)
    excluded = tuple(
        Item((identifier(case_name(key)), ": ", exclusion_text(one)))
        for key, one in result.exclusions.items()
    )
    return (
        Headline(headline_text(result)),
        Facts(tuple(rows)),
        Table(columns, cells, "test"),
        Section("excluded", (Bullets(excluded, "test"),), title="Not judged"),
        *_failure(result.failed, result.design),
        Paragraph(COMMIT_ERROR_RATE, is_note=True),
        *map(Paragraph, verdict_lines(result)),
    )


def _condition(name: str, title: str, experiment: Experiment, rows: list[Row]) -> Section:
    """A table of the rows; of more than two arms a column says which arm a row is about."""
    first, *others = experiment.design.arms
    named = len(others) > 1
    columns = (
        Column("metric"),
        *((Column("arm"),) if named else ()),
        *_columns(first, "value" if named else others[0]),
    )
    cells = tuple(
        (
            one_line(metric_text(row.metric), 200),
            *((row.arm,) if named else ()),
            *_row(row, experiment.row_verdict(row)),
        )
        for row in rows
    )
    table = Table(columns, cells, "metric")
    return Section(name, (table if cells else Paragraph("No block of runs."),), title)


def _columns(before: str, after: str) -> tuple[Column, ...]:
    return (
        Column(before, "right"),
        Column(after, "right"),
        Column("change", "right"),
        Column("95 % CI", "right"),
        Column("n", "right"),
        Column("verdict"),
    )


def _row(row: Row, verdict: str) -> Cells:
    """The numbers of a row, and what they come to; "-" without a difference."""
    return (
        value_text(row.metric, row.before),
        value_text(row.metric, row.after),
        "-" if row.ratio is None else percent(row.ratio),
        interval_text(row),
        str(row.n),
        "-" if verdict == "no significant difference" else verdict,
    )


def _commit_row(row: Row) -> Cells:
    name = identifier(case_name(key_of(row.metric)))
    measure = () if row.is_time else (" (memory)",)
    return ((name, *measure), *_row(row, row_verdict_of(row)))


def cpu_answer_text(one: CpuAnswer, design: Design) -> str:
    """ "b: wall time is not decided under load by other programs (61 % of ...). CPU time ..."."""
    where = f"{one.wall.arm}{_condition_suffix(design, one.wall.condition)}"
    return (
        f"{where}: wall time is not decided under load by other programs "
        f"({100 * one.external_cpu_ratio:.0f} % of the machine's CPU time): {_change(one.wall)}. "
        f"CPU time says {_change(one.cpu)}; it does not contain waiting."
    )


def _change(row: Row) -> str:
    """ "+5.1 % (95 % CI +4.6..+5.6, n=10)"."""
    change = "-" if row.ratio is None else percent(row.ratio)
    return f"{change} (95 % CI {interval_text(row)}, n={row.n})"


def _machine(experiment: Experiment) -> tuple[Block, ...]:
    """Tabulate the machine during the runs of each arm, and list runs in which it swapped."""
    columns = (
        Column("arm"),
        Column("least available memory", "right"),
        Column("swap growth", "right"),
        Column("stalled", "right"),
        Column("CPU of others", "right"),
    )
    rows = []
    for arm in experiment.design.arms:
        runs = [one for one in experiment.measurements if one.step.arm == arm]
        uses = [one.machine for one in runs]
        available = _known(use.least_available_bytes for use in uses)
        swap = _known(use.swap_growth_bytes for use in uses)
        stalled = _known(use.stalled_s for use in uses)
        others = external_cpu_ratio(runs)
        if available or swap or stalled or others is not None:
            rows.append((
                arm,
                size(min(available, default=None)),
                size(max(swap, default=None)),
                duration(max(stalled, default=None)),
                "-" if others is None else f"{100 * others:.0f} %",
            ))  # fmt: skip
    swapped = tuple(
        Item(f"{step_text(one.step, experiment.design)}: {measurement_text(one)}")
        for one in experiment.measurements
        if has_swapped(one)
    )
    if not rows:
        return ()
    blocks = (Table(columns, tuple(rows), "arm"), Bullets(swapped, "run"))
    return (Section("machine", blocks, "The machine meanwhile (memory: the worst run)"),)


def _known(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def has_swapped(one: Measurement) -> bool:
    """Say that the machine put memory of a notable size on disk during a run."""
    return (one.machine.swap_growth_bytes or 0) >= SWAPPED_BYTES


def invalid_metric_texts(experiment: Experiment) -> tuple[str, ...]:
    """ "warning: b: a metric that is no number is absent: process-001.jsonl:17: x = NaN"."""
    runs = Counter(
        (one.step.arm, text) for one in experiment.measurements for text in one.invalid_metrics
    )
    return tuple(
        f"warning: {arm}: a metric that is no number is absent: {text} ({count_of(number, 'run')})"
        for (arm, text), number in runs.items()
    )


def _failure(failed: Measurement | None, design: Design) -> tuple[Block, ...]:
    """The run that failed, with its last output."""
    if failed is None:
        return ()
    first, *output = failed.failure.splitlines()
    return (
        Paragraph(f"{step_text(failed.step, design)}: {first}"),
        Bullets(tuple(Item(Code(line, 400)) for line in output), "line"),
    )


def step_text(step: Step, design: Design) -> str:
    """ "b, run 3", "base, warm run 1", "b, run 3 (steps=4)"."""
    run = "warm run" if step.is_warm else "run"
    text = f"{step.arm}, {run} {step.block + 1}"
    return text + _condition_suffix(design, step.condition)


def _condition_suffix(design: Design, condition: int) -> str:
    several = len(design.conditions) > 1
    return f" ({design.condition_text(condition)})" if several else ""


def measurement_text(one: Measurement) -> str:
    """ "12.1 s, 204 MiB"; how it failed."""
    if one.hit_budget:
        return "stopped: the budget is spent"
    if one.failure:
        return f"failed: {one.failure.partition(chr(10))[0]}"
    found = [
        value_text(metric, one.values[metric]) for metric in SHOWN_METRICS if metric in one.values
    ]
    if has_swapped(one):
        found.append(f"swap grew by {size(one.machine.swap_growth_bytes)}")
    return ", ".join(found)


def metric_text(metric: Metric) -> str:
    """ "step (size=4, warm)"."""
    parts = [f"{name}={value}" for name, value in metric.key]
    parts += [metric.iteration_kind] if metric.iteration_kind else []
    return f"{metric.name} ({', '.join(parts)})" if parts else metric.name


def value_text(metric: Metric, value: float) -> str:
    """ "12.1 s", "512 MiB", "0.25 tokens/s"."""
    if math.isnan(value):
        return "-"
    if metric.unit == "bytes":
        return size(value)
    if metric.unit == "s":
        return duration(value) if value >= 0.1 else f"{1000 * value:.1f} ms"  # noqa: PLR2004
    return f"{value:.4g} {metric.unit}".rstrip()


def interval_text(row: Row) -> str:
    """ "+8..+12", in percent of a."""
    if row.low is None or row.high is None:
        return "-"
    return percents(row.low, row.high, most=MAX_SHOWN_RATIO)


def unpaired_text(one: Unpaired) -> str:
    """ "Measured only on a and not on b, not compared: score"."""
    names = [metric_text(metric) for metric in one.metrics]
    named = ", ".join(names[:MAX_NAMED]) + " and more" * (len(names) > MAX_NAMED)
    return f"Measured on {one.arm} and not on {one.missing_on}, not compared: {named}."


def exclusion_text(one: Exclusion) -> str:
    """ "failed on head: no such table", "no result on base"."""
    what = f"{one.outcome or 'no result'} on {one.arm}"
    return f"{what}: {one.message}" if one.message else what


def coverage_text(experiment: Experiment) -> str:
    """ "10 of each arm, in 4 min 02 s", and why there are not more."""
    least, most = min(experiment.blocks), max(experiment.blocks)
    conditions = len(experiment.design.conditions)
    text = f"{most} of each arm" if least == most else f"{least} to {most} of each arm"
    text += " in each condition" * (conditions > 1)
    warm = sum(one.step.is_warm and bool(one.values) for one in experiment.measurements)
    return _coverage(
        text,
        warm // (len(experiment.design.arms) * conditions),
        experiment.wall_s,
        experiment.stopped_because,
    )


def commit_coverage_text(result: Experiment) -> str:
    """ "5 of each commit with 3 tests after 1 warm run, in 1 min 01 s", and why not more."""
    text = f"{min(result.blocks)} of each commit with {count_of(result.units, 'test')}"
    return _coverage(text, result.design.warm, result.wall_s, result.stopped_because)


def _coverage(text: str, warm: int, wall_s: float, reason: StopReason) -> str:
    after = f" after {count_of(warm, 'warm run')}" if warm else ""
    return f"{text}{after}, in {duration(wall_s)}{STOP_TEXT[reason]}"
