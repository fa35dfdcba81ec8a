"""Output of `ciguard experiment`, for commands and for two commits, as blocks and as JSON. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from typing import Any, Final

from ciguard.document import (
    Block,
    Bullets,
    Code,
    Column,
    Content,
    Facts,
    Headline,
    Item,
    Paragraph,
    Section,
    Table,
    identifier,
)
from ciguard.document import Row as Cells
from ciguard.experiment.commit_test import ALPHA as COMMIT_ALPHA
from ciguard.experiment.commit_test import key_of, row_verdict_of
from ciguard.experiment.measurement import PEAK, WALL, Measurement, Metric
from ciguard.experiment.paired_test import Row
from ciguard.experiment.result import (
    CpuAnswer,
    Exclusion,
    Experiment,
    StopReason,
    Unpaired,
    external_cpu_ratio,
    row_verdict,
)
from ciguard.experiment.schedule import ALPHA, Design, Step
from ciguard.render.changes import amount_text, estimated_change
from ciguard.text import case_name, count_of, duration, name_some, one_line, size

MAX_NAMED: Final = 3  # named metrics that only one arm has, or that changed
SHOWN_METRICS: Final = (WALL, PEAK)  # of each run, during the experiment
STOP_TEXT: Final[Mapping[StopReason, str]] = {
    "all runs": "",
    "conclusive": "; stopped early: conclusive",
    "budget": "; stopped: the budget was spent (raise --budget, or measure fewer tests)",
    "failed": "; stopped: a run failed",
    "interrupted": "; incomplete: interrupted",
}
ERROR_RATE: Final = (
    f"If nothing differs, at most {ALPHA * 100:.0f} of 100 experiments report a difference in wall "
    f"time, and at most {ALPHA * 100:.0f} in the other rows, over all arms, conditions and interim "
    'analyses together (Holm). The verdict "-" is no significant difference. Each interval is for '
    "its row alone, so it may exclude 0 without a verdict."
)
COMMIT_ERROR_RATE: Final = (
    "Paired t-test with a scale moderated over all tests; at most "
    f"{100 * COMMIT_ALPHA:.0f} % of the differences are expected to be chance."
)


def document(experiment: Experiment) -> tuple[Block, ...]:
    """Return the blocks of an experiment with commands; the verdicts are last."""
    design = experiment.design
    rows: list[tuple[str, Content]] = [
        (arm, Code(command)) for arm, command in experiment.arms.items()
    ]
    rows.append(("runs", coverage_text(experiment)))
    unpaired = tuple(Item(unpaired_text(each)) for each in experiment.unpaired)
    return (
        Headline(headline_text(experiment)),
        Facts(tuple(rows)),
        *(
            _condition(
                f"condition_{number}",
                design.condition_text(number),
                experiment,
                [row for row in experiment.rows if row.condition == number],
            )
            for number in range(len(design.conditions))
        ),
        *(Paragraph(cpu_answer_text(answer, design)) for answer in experiment.cpu_answers),
        *_failure(experiment.failed, design),
        *_machine(experiment),
        Bullets(unpaired, "note"),
        Bullets(tuple(map(Item, invalid_metric_texts(experiment))), "warning"),
        Paragraph(ERROR_RATE, is_note=True),
        *map(Paragraph, verdict_lines(experiment)),
    )


def headline_text(experiment: Experiment) -> str:
    """Return "b compared with a: faster", "compared with a: b faster, c mixed"."""
    first, *others = experiment.design.arms
    if len(others) == 1:
        return f"{others[0]} compared with {first}: {verdict_text(experiment, others[0])}"
    listed = ", ".join(f"{arm} {experiment.verdicts[arm]}" for arm in others)
    return f"compared with {first}: {listed}"


def verdict_lines(experiment: Experiment) -> tuple[str, ...]:
    """Return the verdict; with more than two arms a line "NAME: VERDICT" each."""
    lines = {arm: verdict_text(experiment, arm) for arm in experiment.verdicts}
    return tuple(lines.values() if len(lines) == 1 else map(": ".join, lines.items()))


def verdict_text(experiment: Experiment, arm: str) -> str:
    """Return "faster", or "time: faster; peak memory -43 %" if other measures changed."""

    def name_change(row: Row) -> str:
        suffix = _condition_suffix(experiment.design, row.condition)
        return f"{one_line(metric_text(row.metric), 60)} {change_text(row)[0]}{suffix}"

    verdict, changes = experiment.verdicts[arm], experiment.changes(arm)
    return f"time: {verdict}; {name_some(changes, name_change, MAX_NAMED)}" if changes else verdict


def commit_document(result: Experiment) -> tuple[Block, ...]:
    """Return the blocks of an experiment with two commits; the last one is the verdict."""
    rows: list[tuple[str, Content]] = [(arm, Code(commit)) for arm, commit in result.arms.items()]
    runs = f"{min(result.blocks)} of each commit with {count_of(result.units, 'test')}"
    coverage = _coverage(runs, result.design.warm, result.wall_s, result.stopped_because)
    rows.append(("runs", coverage))
    columns = (Column("test"), *_columns("base", "head"))
    cells = []
    for row in result.rows:
        name = identifier(case_name(key_of(row.metric)))
        measure = () if row.is_time else (" (memory)",)
        cells.append(((name, *measure), *_row(row, row_verdict_of(row))))
    excluded = tuple(
        Item((identifier(case_name(key)), ": ", exclusion_text(exclusion)))
        for key, exclusion in result.exclusions.items()
    )
    return (
        Headline(headline_text(result)),
        Facts(tuple(rows)),
        Table(columns, tuple(cells), "test"),
        Section("excluded", (Bullets(excluded, "test"),), title="Not judged"),
        *_failure(result.failed, result.design),
        Paragraph(COMMIT_ERROR_RATE, is_note=True),
        *map(Paragraph, verdict_lines(result)),
    )


def _condition(name: str, title: str, experiment: Experiment, rows: list[Row]) -> Section:
    """Return the table of a condition; with more than two arms it has a column for the arm."""
    first, *others = experiment.design.arms
    has_arm_column = len(others) > 1
    columns = (
        Column("metric"),
        *((Column("arm"),) if has_arm_column else ()),
        *_columns(first, "value" if has_arm_column else others[0]),
    )
    cells = tuple(
        (
            one_line(metric_text(row.metric), 200),
            *((row.arm,) if has_arm_column else ()),
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
    """Return the numbers of a row and its verdict; "-" without a difference."""
    return (
        value_text(row.metric, row.before),
        value_text(row.metric, row.after),
        *change_text(row),
        str(row.n),
        "-" if verdict == "no significant difference" else verdict,
    )


def cpu_answer_text(answer: CpuAnswer, design: Design) -> str:
    """Return "b: wall time is not decided under load by other programs (61 % of ...). CPU ..."."""
    where = f"{answer.wall.arm}{_condition_suffix(design, answer.wall.condition)}"
    load = f"{100 * answer.external_cpu_ratio:.0f} % of the machine's CPU time"
    return (
        f"{where}: wall time is not decided under load by other programs "
        f"({load}): {_change(answer.wall)}. "
        f"CPU time, without waiting: {_change(answer.cpu)}."
    )


def _change(row: Row) -> str:
    """Return "+5.1 % (95 % CI +4.6..+5.6, n=10)"."""
    change, interval = change_text(row)
    return f"{change} (95 % CI {interval}, n={row.n})"


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
        runs = [run for run in experiment.measurements if run.step.arm == arm]
        uses = [run.machine for run in runs]
        available = [use.least_available.size_bytes for use in uses if use.least_available]
        swap = [use.swap_growth.size_bytes for use in uses if use.swap_growth]
        stalled = [use.stalls.stalled_s for use in uses if use.stalls]
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
        Item(f"{step_text(run.step, experiment.design)}: {measurement_text(run)}")
        for run in experiment.measurements
        if run.machine.has_swapped
    )
    if not rows:
        return ()
    blocks = (Table(columns, tuple(rows), "arm"), Bullets(swapped, "run"))
    return (Section("machine", blocks, "The machine meanwhile (memory: the worst run)"),)


def invalid_metric_texts(experiment: Experiment) -> tuple[str, ...]:
    """Return "warning: b: a metric that is no number is absent: process-001.jsonl:17: x = NaN"."""
    runs = Counter(
        (run.step.arm, text) for run in experiment.measurements for text in run.invalid_metrics
    )
    return tuple(
        f"warning: {arm}: a metric that is no number is absent: {text} ({count_of(number, 'run')})"
        for (arm, text), number in runs.items()
    )


def _failure(failed: Measurement | None, design: Design) -> tuple[Block, ...]:
    """Return the failed run with its last output."""
    if failed is None:
        return ()
    first, *output = failed.failure.splitlines()
    return (
        Paragraph(f"{step_text(failed.step, design)}: {first}"),
        Bullets(tuple(Item(Code(line, 400)) for line in output), "line"),
    )


def step_text(step: Step, design: Design) -> str:
    """Return "b, run 3", "base, warm run 1", "b, run 3 (steps=4)"."""
    run = "warm run" if step.is_warm else "run"
    text = f"{step.arm}, {run} {step.block + 1}"
    return text + _condition_suffix(design, step.condition)


def _condition_suffix(design: Design, condition: int) -> str:
    several = len(design.conditions) > 1
    return f" ({design.condition_text(condition)})" if several else ""


def measurement_text(run: Measurement) -> str:
    """Return "12.1 s, 204 MiB", or the failure."""
    if run.hit_budget:
        return "stopped: the budget is spent"
    if run.failure:
        return f"failed: {run.failure.partition(chr(10))[0]}"
    shown = [metric for metric in SHOWN_METRICS if metric in run.values]
    texts = [value_text(metric, run.values[metric]) for metric in shown]
    if run.machine.has_swapped and run.machine.swap_growth is not None:
        texts.append(f"swap grew by {size(run.machine.swap_growth.size_bytes)}")
    return ", ".join(texts)


def metric_text(metric: Metric) -> str:
    """Return "step (size=4, warm)"."""
    parts = [f"{name}={value}" for name, value in metric.key]
    parts += [metric.iteration_kind] if metric.iteration_kind else []
    return f"{metric.name} ({', '.join(parts)})" if parts else metric.name


def value_text(metric: Metric, value: float) -> str:
    """Return "12.1 s", "512 MiB", "0.25 tokens/s"."""
    if math.isnan(value):
        return "-"
    if metric.unit == "s" and value < 0.1:  # noqa: PLR2004
        return f"{1000 * value:.1f} ms"
    return amount_text(value, metric.unit)


def change_text(row: Row) -> tuple[str, str]:
    """Return "+10 %" and "+8..+12", each "-" if unknown."""
    if row.ratio is None and row.p is None:
        return "-", "-"
    ratio, show = (row.ratio, row.low, row.high), partial(value_text, row.metric)
    change, interval = estimated_change(row.before, row.after, ratio, row.metric.unit, show)
    return change, interval or "-"


def unpaired_text(unpaired: Unpaired) -> str:
    """Return "Not compared: measured on a, but not on b: score."."""
    names = [metric_text(metric) for metric in unpaired.metrics]
    named = ", ".join(names[:MAX_NAMED]) + " and more" * (len(names) > MAX_NAMED)
    return f"Not compared: measured on {unpaired.arm}, but not on {unpaired.missing_on}: {named}."


def exclusion_text(exclusion: Exclusion) -> str:
    """Return "failed on head: no such table", "no result on base"."""
    what = f"{exclusion.outcome or 'no result'} on {exclusion.arm}"
    return f"{what}: {exclusion.message}" if exclusion.message else what


def coverage_text(experiment: Experiment) -> str:
    """Return the coverage of an experiment with commands: "9 to 10 of each arm, in 4 min 02 s"."""
    least, most = min(experiment.blocks), max(experiment.blocks)
    conditions = len(experiment.design.conditions)
    text = f"{most} of each arm" if least == most else f"{least} to {most} of each arm"
    text += " in each condition" * (conditions > 1)
    warm = sum(run.step.is_warm and bool(run.values) for run in experiment.measurements)
    warm_each = warm // (len(experiment.design.arms) * conditions)
    return _coverage(text, warm_each, experiment.wall_s, experiment.stopped_because)


def _coverage(text: str, warm: int, wall_s: float, reason: StopReason) -> str:
    """Return "10 of each arm after 1 warm run, in 4 min 02 s", with the reason of an early stop."""
    after = f" after {count_of(warm, 'warm run')}" if warm else ""
    return f"{text}{after}, in {duration(wall_s)}{STOP_TEXT[reason]}"


SCHEMA: Final = 1
NUMBERS: Final = ("n", "before", "after", "ratio", "low", "high", "p")  # of a row


def as_json(experiment: Experiment) -> dict[str, Any]:
    """Return the experiment as experiment.schema.json describes it; null means unknown."""
    return {
        "schema": SCHEMA,
        "verdict": experiment.verdict,
        "verdicts": dict(experiment.verdicts),
        "baseline": experiment.design.arms[0],
        "complete": experiment.is_complete,
        "stopped_because": experiment.stopped_because,
        "failure": experiment.failed and experiment.failed.failure,
        "commands": dict(experiment.arms),
        "conditions": [dict(condition) for condition in experiment.design.conditions],
        "planned_runs": experiment.design.runs,
        "pairs": list(experiment.blocks),
        "wall_s": experiment.wall_s,
        "alpha": experiment.level,
        "rows": [
            {
                "condition": row.condition,
                "arm": row.arm,
                **_metric_json(row.metric),
                **{name: getattr(row, name) for name in (*NUMBERS, "noise")},
                "verdict": experiment.row_verdict(row),
            }
            for row in experiment.rows
        ],
        "unpaired": [
            {
                "arm": unpaired.arm,
                "missing_on": unpaired.missing_on,
                "metrics": [_metric_json(metric) for metric in unpaired.metrics],
            }
            for unpaired in experiment.unpaired
        ],
        "cpu_time": [
            {
                "condition": answer.cpu.condition,
                "arm": answer.cpu.arm,
                "external_cpu_ratio": answer.external_cpu_ratio,
                **{name: getattr(answer.cpu, name) for name in ("n", "ratio", "low", "high", "p")},
                "verdict": row_verdict(answer.cpu),
            }
            for answer in experiment.cpu_answers
        ],
        "runs": [_run_json(run) for run in experiment.measurements],
    }


def commits_as_json(result: Experiment) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "verdict": result.verdict,
        "complete": result.is_complete,
        "stopped_because": result.stopped_because,
        "failure": result.failed and result.failed.failure,
        "base": result.arms["base"],
        "head": result.arms["head"],
        "pairs": list(result.blocks),
        "wall_s": result.wall_s,
        "rows": [
            {
                "key": key_of(row.metric)._asdict(),
                "measure": row.metric.name,
                **{name: getattr(row, name) for name in NUMBERS},
                "verdict": row_verdict_of(row),
            }
            for row in result.rows
        ],
        "excluded": [
            {"key": key._asdict(), **asdict(exclusion)}
            for key, exclusion in result.exclusions.items()
        ],
    }


def _metric_json(metric: Metric) -> dict[str, Any]:
    return {
        "name": metric.name,
        "unit": metric.unit,
        "key": dict(metric.key),
        "iterations": metric.iteration_kind or None,
    }


def _run_json(run: Measurement) -> dict[str, Any]:
    step, use = run.step, run.machine
    return {
        "condition": step.condition,
        "arm": step.arm,
        "run": step.block + 1,
        "position": step.position + 1,
        "is_warm": step.is_warm,
        "failure": run.failure or None,
        "machine": {
            "least_available_bytes": use.least_available and use.least_available.size_bytes,
            "swap_growth_bytes": use.swap_growth and use.swap_growth.size_bytes,
            "stalled_s": use.stalls and use.stalls.stalled_s,
            "external_cpu_ratio": run.external_cpu_ratio,
        },
        "invalid_metrics": list(run.invalid_metrics),
        "values": [
            {**_metric_json(metric), "value": value} for metric, value in run.values.items()
        ],
    }
