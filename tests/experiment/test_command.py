"""The real command with real programs: what it measures, prints, and ends with."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from conftest import Ciguard, Golden, clean_environment
from experiment.simulated_programs import Program
from markdown_it import MarkdownIt

from ciguard.config.options import parse_budget
from ciguard.errors import UsageError
from ciguard.experiment import view
from ciguard.experiment.command import parse_arms, parse_conditions
from ciguard.experiment.result import Experiment
from ciguard.experiment.view import as_json, verdict_lines
from ciguard.render.markdown import as_markdown
from ciguard.render.plaintext import COLUMNS, as_text

SCHEMA_FILE = Path(__file__).parents[2] / "docs/reference/schemas/experiment.schema.json"
SCHEMA = jsonschema.Draft202012Validator(json.loads(SCHEMA_FILE.read_text("utf-8")))
SAMPLES = Path(__file__).parents[1] / "samples" / "experiment"
VERDICTS = {
    *("faster", "slower", "less memory", "more memory", "mixed"),
    *("no significant difference", "not enough data", "too noisy"),
}
MIB = 1024 * 1024


def python(code: str) -> str:
    return shlex.join([sys.executable, "-S", "-c", code])


def answer(ciguard: Ciguard, folder: Path, *options: str, expect: int = 0) -> dict[str, Any]:
    done = ciguard(
        "experiment", *options, "--format", "json", "-o", "x.json", cwd=folder, expect=expect
    )
    found: dict[str, Any] = json.loads((folder / "x.json").read_text("utf-8"))
    verdict, _, changes = done.stdout.rstrip().partition("; ")
    assert verdict == ("time: " if changes else "") + found["verdict"]
    assert found["verdict"] in VERDICTS
    SCHEMA.validate(found)
    return found


@pytest.mark.soak
def test_short_memory_spike_is_measured(tmp_path: Path, ciguard: Ciguard) -> None:
    """200 MB that are there for 30 ms."""
    calm = python("import time; time.sleep(0.25)")
    spike = python(
        "import time; time.sleep(0.1); x = bytearray(200_000_000); time.sleep(0.03); del x\n"
        "time.sleep(0.05)"
    )
    found = answer(ciguard, tmp_path, "--a", calm, "--b", spike, "--runs", "2", "--warmup", "0")
    (peak,) = [row for row in found["rows"] if row["name"] == "peak memory"]
    assert 180 * MIB < peak["after"] - peak["before"] < 220 * MIB
    assert (peak["verdict"], peak["arm"], found["baseline"]) == ("more memory", "b", "a")
    runs = [(run["run"], run["position"]) for run in found["runs"]]
    assert runs == [(1, 1), (1, 2), (2, 1), (2, 2)]
    assert "".join(run["arm"] for run in found["runs"]) in {"abba", "baab"}


NVIDIA_SMI = """#!/bin/sh
if [ "$1" = --query-gpu=uuid,index ]; then
    printf 'GPU-x, 0\\nGPU-y, 1\\n'
else
    while [ ! -s pid ]; do sleep 0.02; done
    printf 'GPU-x, %s, %s\\nGPU-y, %s, 100\\n' "$(cat pid)" "$(cat mib)" "$(cat pid)"
fi
"""


@pytest.mark.soak
def test_gpu_memory_is_judged_by_device_and_in_total(tmp_path: Path, ciguard: Ciguard) -> None:
    """A made-up `nvidia-smi` that counts what a command says it holds."""
    program = tmp_path / "bin" / "nvidia-smi"
    program.parent.mkdir()
    program.write_text(NVIDIA_SMI)
    program.chmod(0o755)
    holds = "echo {mib} > mib; echo $$ > pid; sleep 1; rm pid"
    reported = ("--a", holds.format(mib=300), "--b", holds.format(mib=500))
    done = ciguard(
        *("experiment", *reported, "--runs", "2", "--warmup", "0"),
        *("--format", "json", "-o", "x.json"),
        cwd=tmp_path,
        PATH=f"{program.parent}:{os.environ['PATH']}",
    )
    found = json.loads((tmp_path / "x.json").read_text("utf-8"))
    SCHEMA.validate(found)
    rows = {
        row["key"].get("gpu"): (row["before"] / MIB, row["after"] / MIB, row["verdict"])
        for row in found["rows"]
        if row["name"] == "GPU memory"
    }
    assert {name: (round(a), round(b)) for name, (a, b, _) in rows.items()} == {
        None: (400, 600), "0": (300, 500), "1": (100, 100)
    }  # fmt: skip
    assert rows[None][2] == rows["0"][2] == "more memory"
    assert rows["1"][2] == found["verdict"] == "no significant difference"
    assert done.stdout == "time: no significant difference; GPU memory +50 %\n"


@pytest.mark.soak
def test_metric_that_is_no_number_is_a_warning(tmp_path: Path, ciguard: Ciguard) -> None:
    line = '{"type":"metric","name":"%s","value":%s}'
    command = f"printf '{line}\\n{line}\\n' steps 7 hits nan >> $CIGUARD_RECORD_FILE"
    words = ("experiment", "--a", command, "--b", command, "--runs", "2", "--warmup", "0")
    done = ciguard(*words, cwd=tmp_path)
    text = " ".join(done.stdout.split())
    assert "warning: b: a metric that is no number is absent: process-001.jsonl:" in text
    assert ": hits = nan (2 runs)" in text
    assert "steps" in done.stdout
    found = answer(ciguard, tmp_path, *words[1:])
    invalid = [one for run in found["runs"] for one in run["invalid_metrics"]]
    assert {one.partition(": ")[2] for one in invalid} == {"hits = nan"}
    assert len(invalid) == 4
    assert "hits" not in {row["name"] for row in found["rows"]}


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_each_run_says_what_the_machine_was_like(tmp_path: Path, ciguard: Ciguard) -> None:
    words = ("--a", "sleep 0.2", "--b", "sleep 0.2", "--runs", "1", "--warmup", "0")
    found = answer(ciguard, tmp_path, *words)
    for run in found["runs"]:
        assert run["machine"]["least_available_bytes"] > 10 * MIB
        assert run["machine"]["swap_growth_bytes"] >= 0
        assert 0 <= run["machine"]["external_cpu_ratio"] <= 1


METRIC_SCRIPT = """
for n in 1 2 3; do
  printf '{"type":"metric","name":"step","unit":"s","value":%s%s,"key":{"iteration":"%s"}}\\n' \
    $steps $n $n >> "$CIGUARD_RECORD_FILE"
done
"""


@pytest.mark.soak
def test_conditions_and_iterations_are_separate_rows(tmp_path: Path, ciguard: Ciguard) -> None:
    reported = ("--condition", "steps=4", "--condition", "steps=10")
    arms = ("--a", METRIC_SCRIPT, "--b", METRIC_SCRIPT, "--runs", "2", "--warmup", "0")
    found = answer(ciguard, tmp_path, *arms, *reported)
    assert found["conditions"] == [{"steps": "4"}, {"steps": "10"}]
    steps = [
        (row["condition"], row["iterations"], row["n"], round(row["before"], 3))
        for row in found["rows"]
        if row["name"] == "step"
    ]
    assert steps == [
        (0, "cold", 2, 41), (0, "warm", 2, 42.5), (1, "cold", 2, 101), (1, "warm", 2, 102.5)
    ]  # fmt: skip
    assert [run["condition"] for run in found["runs"]] == [0, 0, 1, 1, 0, 0, 1, 1]


def test_three_arms_are_compared_with_the_first(tmp_path: Path, ciguard: Ciguard) -> None:
    """The last one is faster by more than a busy machine could hide."""
    arms = ("--arm", "old=sleep 0.6", "--arm", "same=sleep 0.6", "--arm", "new=sleep 0.05")
    reported = (*arms, "--runs", "4", "--warmup", "0", "--format", "json", "-o", "x.json")
    done = ciguard("experiment", *reported, cwd=tmp_path)
    assert done.stdout == "same: no significant difference\nnew: faster\n"
    found = json.loads((tmp_path / "x.json").read_text("utf-8"))
    SCHEMA.validate(found)
    assert found["verdicts"] == {"same": "no significant difference", "new": "faster"}
    assert (found["verdict"], found["baseline"]) == (None, "old")
    assert list(found["commands"]) == ["old", "same", "new"]
    walls = [row for row in found["rows"] if row["name"] == "wall time"]
    assert [(row["arm"], row["n"]) for row in walls] == [("same", 4), ("new", 4)]
    order = [run["arm"] for run in found["runs"]]
    blocks = ["".join(name[0] for name in order[at : at + 3]) for at in range(0, 12, 3)]
    assert [sorted(block) for block in blocks] == [["n", "o", "s"]] * 4
    assert (blocks[1], blocks[3]) == (blocks[0][::-1], blocks[2][::-1])


@pytest.mark.parametrize(
    ("texts", "both", "expected"),
    [
        ((), ("x", None), "nothing to compare"),
        ((), (None, None), "nothing to compare"),
        (("a=x",), (None, None), "1 arms, expected 2 to 8"),
        (tuple(f"a{n}=x" for n in range(9)), (None, None), "9 arms"),
        (("a=x", "b=y"), ("z", None), "--arm, and --a or --b"),
        (("a=x", "a=y"), (None, None), "'a=y' is given twice"),
        (("a=x", "make"), (None, None), "'make' is not NAME=CMD"),
        (("a=x", "b= "), (None, None), "'b= ' is not NAME=CMD"),
        (("a=x", f"{'n' * 21}=y"), (None, None), "is not NAME=CMD"),
        (("a=x", "two words=y"), (None, None), "is not NAME=CMD"),
    ],
)
def test_invalid_arms_are_usage_errors(
    texts: tuple[str, ...], both: tuple[str | None, str | None], expected: str
) -> None:
    with pytest.raises(UsageError, match=re.escape(expected)):
        parse_arms(texts, *both)


def test_two_commands_are_two_arms() -> None:
    assert parse_arms((), "x", "y") == parse_arms(("a=x", "b=y"), None, None)
    assert parse_arms(("py3.12=A=1 x\ny", "O=x=1"), None, None) == {
        "py3.12": "A=1 x\ny", "O": "x=1"
    }  # fmt: skip


def test_failing_command_is_reported_with_its_last_output(tmp_path: Path, ciguard: Ciguard) -> None:
    done = ciguard(
        *("experiment", "--a", "true", "--b", "echo no such table; exit 3", "--runs", "3"),
        cwd=tmp_path,
        expect=10,
    )
    assert "b, warm run 1: exit code 3\n\n- no such table\n" in done.stdout
    assert done.stdout.splitlines()[-1] == "not enough data"
    assert "failed: exit code 3" in done.stderr


def test_budget_stops_a_run(tmp_path: Path, ciguard: Ciguard) -> None:
    done = ciguard(
        *("experiment", "--a", "sleep 60", "--b", "true", "--budget", "1.5s"), cwd=tmp_path
    )
    assert "the budget was spent" in done.stdout
    assert done.stdout.splitlines()[-1] == "not enough data"


@pytest.mark.soak
def test_budget_without_runs_sets_the_planned_runs(tmp_path: Path, ciguard: Ciguard) -> None:
    words = ("experiment", "--a", "true", "--b", "true", "--warmup", "0", "--format", "json")
    for more, planned in (
        ((), 10),
        (("--budget", "0.3s"), 200),
        (("--budget", "0.3s", "--runs", "7"), 7),
    ):
        found = json.loads(ciguard(*words, *more, cwd=tmp_path).stdout)
        assert found["planned_runs"] == planned


SIGNALS = [pytest.param(signal.SIGINT, 130, marks=pytest.mark.soak), (signal.SIGTERM, 143)]


def interrupt(folder: Path, words: Sequence[str], at: str, number: int, code: int) -> None:
    """Signal an experiment that has begun to print; it gives a partial result and cleans up."""
    temporary = folder / "temporary"
    temporary.mkdir()
    running = subprocess.Popen(
        [sys.executable, "-m", "ciguard", "experiment", *words],
        cwd=folder,
        env=clean_environment(TMPDIR=str(temporary)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert running.stderr is not None
    assert at in running.stderr.readline()
    running.send_signal(number)
    output, _ = running.communicate(timeout=60)
    assert running.returncode == code
    assert "incomplete: interrupted" in " ".join(output.split())
    assert output.splitlines()[-1] == "not enough data"
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize(("number", "code"), SIGNALS)
def test_interrupted_experiment_prints_a_partial_result(
    number: int, code: int, tmp_path: Path
) -> None:
    second = "test ! -e ran || sleep 600; touch ran"
    interrupt(tmp_path, ("--a", second, "--b", second), ", warm run 1", number, code)


@pytest.mark.parametrize(
    ("reported", "expected"),
    [
        (["steps"], "not a condition: 'steps'"),
        (["a=1 a=2"], "not a condition: 'a=1 a=2'"),
        (["2=1"], "not a condition: '2=1'"),
        ([""], "'' is empty"),
        (["'"], "No closing quotation"),
        (["a=1", "a=1"], "'a=1' is given twice"),
    ],
)
def test_invalid_condition_is_a_usage_error(reported: list[str], expected: str) -> None:
    with pytest.raises(UsageError, match=re.escape(expected)):
        parse_conditions(reported)


def test_conditions_are_name_value_pairs() -> None:
    assert parse_conditions(()) == ({},)
    assert parse_conditions(("steps=4 name='a b'", "steps=10")) == (
        {"steps": "4", "name": "a b"},
        {"steps": "10"},
    )


def test_budget_is_a_duration() -> None:
    assert [*map(parse_budget, ("90s", "1h30m", "12"))] == [90.0, 5400.0, 12.0]
    for text in ("-1s", "soon", "0s"):
        with pytest.raises(UsageError, match="--budget: expected"):
            parse_budget(text)


SHOWN = {
    "same": Program(1).experiment(),
    "faster_and_larger": Program(2, time=0.8, memory=1.3, noise=0.02).experiment(10, 2),
    "loaded": Program(4, time=1.05, noise=0.15, load=0.6).experiment(),
    "four_arms": Program(3, time=0.9, noise=0.02, arms=4).experiment(),
}


def rendered(found: Experiment) -> Mapping[str, str]:
    return {
        "txt": as_text(view.document(found)),
        "md": as_markdown(view.document(found)),
        "json": json.dumps(as_json(found), indent=2, allow_nan=False) + "\n",
    }


@pytest.mark.parametrize(("name", "found"), list(SHOWN.items()))
def test_all_formats(name: str, found: Experiment, golden: Golden) -> None:
    for suffix, text in rendered(found).items():
        # Numbers of libraries differ in their last digits.
        rounded = {r"(\d\.\d{6})\d+": r"\1"}
        golden(text, SAMPLES / f"{name}.{suffix}", scrub=rounded if suffix == "json" else {})
        assert suffix == "json" or text.splitlines()[-1] == verdict_lines(found)[-1]
    assert max(map(len, rendered(found)["txt"].splitlines())) <= COLUMNS
    html = MarkdownIt("commonmark").enable("table").render(rendered(found)["md"])
    assert html.count("<table>") == len(found.design.conditions) + (name == "loaded")
