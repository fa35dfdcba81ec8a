"""Metrics in the logs of real legs' processes, read by whoever compares their records."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from conftest import Ciguard
from run.leg_runner import start

from ciguard.logs import process_logs
from ciguard.logs.pattern_table import PATTERNS
from ciguard.logs.process_logs import ProcessLogs, is_process_log
from ciguard.sources.local import read_record_tree

REMAT = (
    "W xla/hlo/transforms/hlo_rematerialization.cc:3005] Can't reduce memory use below 10.64GiB "
    "(11429599125 bytes) by rematerialization; only reduced to 1GiB ({after} bytes), down from "
    "2GiB ({before} bytes) originally"
)
CONFIG = """
[metrics.heap]
pattern = 'heap after the run: (?P<value>\\d+) (?P<value_unit>[KM]iB)'
key = []
[metrics."xla.out_of_memory"]
at_most = 0
"""
OOM = "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 5 bytes"


def test_only_logs_of_processes_are_read() -> None:
    names = "process-001.log a/b/process-1234.log process-1.log process-001.log.gz log"
    assert [is_process_log(name) for name in names.split()] == [True, True, False, False, False]


def record(folder: Path, name: str, script: str) -> None:
    start(folder, "--record", name, "--", "sh", "-c", script).wait(0)


def test_metrics_of_two_records_are_compared(ciguard: Ciguard, tmp_path: Path) -> None:
    (tmp_path / "ciguard.toml").write_text(CONFIG)
    for name, heap, took in (("before", 100, 60), ("after", 150, 30)):
        lines = (f"heap after the run: {heap} MiB", f"took {took} s", OOM)
        record(tmp_path, name, "; ".join(f"echo '{line}'" for line in lines))
    done = ciguard("compare", "before", "after", "--format", "json", cwd=tmp_path)
    metrics = json.loads(done.stdout)["metrics"]
    (found, _), (bound,) = metrics["changes"], metrics["violations"]
    assert (bound["name"], bound["value"]) == ("xla.out_of_memory", 1)
    facts = tuple(found[key] for key in ("name", "unit", "before", "after"))
    assert facts == ("heap", "bytes", 100 << 20, 150 << 20)


def test_printed_metrics_stand_behind_those_of_the_record(tmp_path: Path) -> None:
    line = '{"type":"metric","name":"own","value":1}'
    memory = REMAT.format(before=12 << 30, after=11 << 30)
    start(
        tmp_path, "--record", "r", "--", "sh", "-c",
        'echo "$0"; echo "$1" >> "$CIGUARD_RECORD_FILE"', memory, line,
    ).wait(0)  # fmt: skip
    (without,) = read_record_tree(tmp_path / "r")
    assert [one.name for one in without.metrics] == ["own"]
    (found,) = read_record_tree(tmp_path / "r", ProcessLogs(PATTERNS))
    printed = {one.name: one.value for one in found.metrics}
    assert printed["xla.rematerialization.before_bytes"] == 12 << 30
    assert printed["xla.rematerialization.after_bytes"] == 11 << 30
    assert {one.unit for one in found.metrics[1:]} == {"bytes"}
    assert {one.line for one in found.metrics[1:]} == {1}


def test_metrics_are_of_the_record_in_whose_folder_their_log_is(tmp_path: Path) -> None:
    for name, gib in (("a", 11), ("b", 12)):
        memory = REMAT.format(before=gib << 30, after=gib << 30)
        start(tmp_path, "--record", f"all/{name}", "--", "echo", memory).wait(0)
    found = read_record_tree(tmp_path / "all", ProcessLogs(PATTERNS))
    values = {
        one.source[0]: {line.value for line in one.metrics if line.name.endswith("_bytes")}
        for one in found
    }
    assert values == {"a": {11 << 30}, "b": {12 << 30}}


def test_what_is_no_number_is_named_and_too_many_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_logs, "MAX_METRICS", 3)
    logs = ProcessLogs(PATTERNS)
    memory = REMAT.format(before=1, after=2)
    logs.add("r/process-001.log", io.BytesIO(f"{memory}\n{memory}\n".encode()))
    assert logs.problems == ["r/process-001.log: more than 3 metrics in all logs"]


def test_metric_that_is_no_number_is_a_warning_with_its_side(
    ciguard: Ciguard, tmp_path: Path
) -> None:
    config = "[metrics.hits]\npattern = 'pool hits: (?P<value>\\S+)'\n"
    (tmp_path / "ciguard.toml").write_text(config)
    line = '{"type":"metric","name":"rate","value":NaN}'
    script = f"echo '{line}' >> $CIGUARD_RECORD_FILE; echo 'pool hits: nan'; echo 'pool hits: nan'"
    record(tmp_path, "before", "true")
    record(tmp_path, "after", script)
    done = ciguard("compare", "before", "after", cwd=tmp_path)
    absent = "warning: after: a metric that is no number is absent: process-001"
    warnings = [text for text in done.stderr.splitlines() if text.startswith("warning")]
    assert warnings == [f"{absent}.log:1: hits = nan and 1 more", f"{absent}.jsonl:2: rate = NaN"]


def test_values_that_only_look_alike_are_refused_as_in_logs(
    ciguard: Ciguard, tmp_path: Path
) -> None:
    other = REMAT.replace("11429599125", "11429599132")
    first, second = (one.format(before=12 << 30, after=11 << 30) for one in (REMAT, other))
    for name, lines in (("before", (first, second)), ("after", (second,))):
        words = " ".join(f'"{line}"' for line in lines)
        record(tmp_path, name, f"printf '%s\\n' {words}")
    text = " ".join(ciguard("compare", "before", "after", cwd=tmp_path).stdout.split())
    assert "No verdict: the keys differ" in text
    assert "(before:process-001.log:1) and" in text
    assert "limit_bytes 11429599125, not 11429599132 (both are printed as 10.64GiB); not" in text
    assert "values of 2 exact metrics missing" in text
