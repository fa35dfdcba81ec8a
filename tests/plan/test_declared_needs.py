from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import Ciguard
from plan.plan_factories import GIB, planned

from ciguard.codec import plan_file
from ciguard.config.declared_memory import Need, parse_size
from ciguard.model import Pool, UnitKey
from ciguard.plan.declared_needs import DeclaredNeeds, contradiction_notes, with_declared_peaks
from ciguard.plan.estimates import Estimates, Observations, estimate_units
from ciguard.plan.view import note_text
from ciguard.sources.local import read_record_tree

MIB = 1 << 20
NAN = float("nan")


def measured(*peaks: float, lower: float = NAN, upper: float = NAN) -> Observations:
    """Runs of unit 0, with the bounds of the last one; unit 1 has none."""
    count = len(peaks)
    bounds = np.full((2, count), NAN)
    bounds[:, -1:] = [[lower], [upper]]
    return Observations(
        unit=np.zeros(count, np.int32),
        wall_s=np.ones(count),
        peak_delta_bytes=np.array(peaks, np.float64) * MIB,
        retained_bytes=np.full(count, NAN),
        is_lower_bound=np.zeros(count, np.bool_),
        lower_bound_bytes=bounds[0] * MIB,
        upper_bound_bytes=bounds[1] * MIB,
    )


def declared(size: str, units: int = 2) -> DeclaredNeeds:
    return DeclaredNeeds(dict.fromkeys(range(units), Need("t*", parse_size(size))))


def estimated(observations: Observations) -> Estimates:
    found = estimate_units(observations, 2, lambda _: ["file", "all"], lambda _: range(2))
    return with_declared_peaks(found, observations, declared("100MiB"))


@pytest.mark.parametrize(
    ("peaks", "expected"),
    [((), 100), ((60,), 100), ((60, 160), 160), ((60, 70, 65), 70), ((160, 150, 140), 160)],
)
def test_three_measured_peaks_replace_the_declared_one(
    peaks: tuple[float, ...], expected: float
) -> None:
    found = estimated(measured(*peaks))
    assert found.peak_delta_bytes.tolist() == [expected * MIB, 100 * MIB], "no sibling's peak"


def test_declared_peak_is_off_by_the_tolerance() -> None:
    memory = estimated(measured(60, 160)).memory
    assert memory.peak_bytes.tolist() == [160 * MIB, 100 * MIB]
    assert np.sqrt(memory.peak_variance).tolist() == [40 * MIB, 25 * MIB]


def test_peaks_known_from_above_count_and_from_below_raise() -> None:
    bounded = measured(60, 60, NAN, lower=55, upper=90)
    assert estimated(bounded).peak_delta_bytes[0] == 60 * MIB
    open_ = measured(60, 60, NAN, lower=130)
    assert estimated(open_).peak_delta_bytes[0] == 130 * MIB


@pytest.mark.parametrize(
    ("observations", "found"),
    [
        (measured(100), None),
        (measured(125), None),
        (measured(75), None),
        (measured(126), 126),
        (measured(74), 74),
        (measured(10, 74), 74),
        (measured(NAN, lower=60, upper=300), None),
        (measured(NAN, lower=126, upper=300), 126),
        (measured(NAN, lower=1, upper=70), 70),
        (measured(NAN), None),
    ],
)
def test_peak_off_by_more_than_a_quarter_is_a_warning(
    observations: Observations, found: int | None
) -> None:
    keys = [UnitKey("", "", "t0"), UnitKey("", "", "t1")]
    notes = [*contradiction_notes(keys, observations, declared("100MiB"))]
    assert [note.facts["tests_bytes"] for note in notes] == ([{"t0": found * MIB}] if found else [])
    if found:
        (text,) = map(note_text, notes)
        assert text == (
            "tests of t* whose peaks differ from the declared 100 MiB by more than 25%: "
            f"t0 ({found}.0 MiB)".replace("126.0", "126")
        )


GPUS = {
    "linux": Pool("ubuntu-latest", memory_bytes=8 * GIB, reserve_bytes=GIB),
    "t4": Pool("t4", memory_bytes=16 * GIB, reserve_bytes=GIB),
    "a100": Pool("a100"),
}


def pools_of(needs: Mapping[str, tuple[str | None, str]], **options: Any) -> tuple[Any, ...]:
    """By unit its pool; and the warnings."""
    found = {
        place: Need(unit, parse_size(memory) if memory else None, parse_size(gpu) if gpu else None)
        for place, (unit, (memory, gpu)) in enumerate(sorted(needs.items()))
    }
    gpu_bytes = options.pop("gpu_bytes", {"t4": 16 * GIB, "a100": 80 * GIB})
    made = planned(
        dict.fromkeys(needs, 1.0),
        peaks={need.units: need.memory for need in found.values() if need.memory},
        pools=GPUS,
        declared=DeclaredNeeds(found, gpu_bytes),
        **options,
    ).plan
    pools = {unit.unit: shard.pool for shard in made.shards for unit in shard.units}
    return pools, [note_text(note) for note in made.warnings]


def test_test_with_a_gpu_gets_the_smallest_pool_with_room() -> None:
    pools, warnings = pools_of(
        {
            "cpu": ("1GiB", ""),
            "huge": (None, "sharded(400GiB, 4)"),
            "large": (None, "22GiB"),
            "memory": ("9GiB", ""),
            "sharded": ("2GiB", "sharded(22GiB, 4)"),
        }
    )
    assert pools == {
        "cpu": "linux",
        "huge": "linux",
        "large": "a100",
        "memory": "t4",
        "sharded": "t4",
    }
    assert warnings == ["tests that fit on no GPU of pool linux (0 B): huge (100 GiB)"]


def test_devices_are_not_compared_where_no_pool_declares_them() -> None:
    assert pools_of({"a": (None, "22GiB")}, gpu_bytes={}) == ({"a": "linux"}, [])


def test_unit_too_large_for_the_devices_of_its_pool_is_named() -> None:
    needs = {"a": (None, "99GiB"), "b": (None, "4GiB")}
    pools, warnings = pools_of(needs, pool_of={"": "a100"})
    assert pools == {"a": "a100", "b": "a100"}
    assert warnings == ["tests that fit on no GPU of pool a100 (80.0 GiB): a (99.0 GiB)"]


SUITE = """
import time
import pytest

@pytest.mark.parametrize("n", range(6))
def test_hold(n):
    held = bytearray(100 << 20)
    held[::4096] = b"x" * len(held[::4096])
    time.sleep(0.5)
"""
# A seventh of six tests of 700 MiB on a machine of 3 GiB.
CONFIGURATION = """
[suite.unit]
framework = "pytest"
[plan]
processes = 4
shards = 1
[policy]
guard_rail = "off"
[pool.default]
memory = "420MiB"
reserve = 0
"""
NEEDS = """
[[suite.unit.needs]]
units = "tests/diffusion/*"
memory = "{}"
"""
LAYERS = "20MiB + checkpointed(28, 5MiB, 2)"


def side_by_side(folder: Path, name: str, ciguard: Ciguard) -> int:
    """The most processes of a plan's only shard that ran at once."""
    plan = ["--plan", f"{name}.json", "--shard", "01"]
    ciguard("run", *plan, "--record", f"records/{name}", cwd=folder)
    (record,) = read_record_tree(str(folder / "records" / name))
    end_s = {line.process: line.at_s or 0.0 for line in record.process_ends}
    starts_s = [line.at_s or 0.0 for line in record.processes]
    return max(
        sum((one.at_s or 0.0) <= now_s < end_s[one.process] for one in record.processes)
        for now_s in starts_s
    )


@pytest.mark.soak
def test_first_plan_of_six_tests_runs_them_by_bytes(tmp_path: Path, ciguard: Ciguard) -> None:
    (tmp_path / "tests" / "diffusion").mkdir(parents=True)
    (tmp_path / "tests" / "diffusion" / "test_six.py").write_text(SUITE, "utf-8")
    history = ["--history", "history.ciguard"]

    def make(name: str, needs: str) -> tuple[list[int | None], str]:
        (tmp_path / "ciguard.toml").write_text(CONFIGURATION + needs, "utf-8")
        done = ciguard("plan", *history, "-o", f"{name}.json", cwd=tmp_path)
        found = plan_file.decode((tmp_path / f"{name}.json").read_bytes(), name)
        (shard,) = found.shards
        return [unit.peak_delta_bytes for unit in shard.units], done.stdout.replace("\n  ", " ")

    assert make("before", "")[0] == [None] * 6

    peaks, output = make("declared", NEEDS.format(LAYERS))
    assert peaks == [100 * MIB] * 6
    assert re.search(r"memory +300 MiB of 420 MiB, shard 01\nmemory risk +\d\.\d% that", output)
    assert side_by_side(tmp_path, "declared", ciguard) == 2, "each needs 150 of 420 MiB"

    for run_id in (1, 2, 3):
        where = ["records/declared", *history, "--run-id", str(run_id)]
        origin = ["--sha", f"{run_id:040x}", "--branch", "main", "--event", "push"]
        at = ["--at", f"2026-11-0{run_id}T10:00:00Z"]
        ciguard("history", "add", *where, *origin, *at, cwd=tmp_path)
        peaks, output = make("again", NEEDS.format("200MiB"))
        assert "whose peaks differ from the declared 200 MiB by more than 25%" in output
        decides = all(peak is not None and 95 * MIB < peak < 110 * MIB for peak in peaks)
        assert decides == (run_id == 3), peaks


def test_unused_entries_and_units_without_a_device_are_named(
    tmp_path: Path, ciguard: Ciguard
) -> None:
    (tmp_path / "ciguard.toml").write_text(
        """
        [suite.web]
        framework = "command"
        list = ["true"]
        command = ["true"]
        [[suite.web.needs]]
        units = "a*"
        gpu = "2GiB + sharded(checkpointed(8, 1GiB, 2), 4)"
        [[suite.web.needs]]
        units = "c*"
        memory = 5
        [pool.cpu]
        [pool.gpu]
        gpu_memory = "4GiB"
        memory = "16GiB"
        """
    )
    words = ["plan", "--inventory", "-", "--history", "none.ciguard", "--shards", "2"]
    done = ciguard(*words, "--format", "json", cwd=tmp_path, stdin="a1\nb\n")
    assert "warning: suite.web.needs.1: c* matches no further test" in done.stderr
    made = json.loads(done.stdout)
    assert [shard["pool"] for shard in made["shards"]] == ["cpu", "gpu"]
    given = "".join(json.dumps({"unit": unit, "shard": "one"}) + "\n" for unit in ("a1", "b"))
    done = ciguard(*words[:-2], "-o", "plan.json", cwd=tmp_path, stdin=given)
    assert "no GPU of pool cpu (0 B): a1 (3.50 GiB)" in done.stdout.replace("\n  ", " ")


SCRIPT = """
while read -r unit; do
    sleep 0.2
    echo "{\\"type\\":\\"result\\",\\"unit\\":\\"$unit\\",\\"outcome\\":\\"passed\\"}" >> "$2"
done < "$1"
"""


def test_tests_that_a_job_lists_have_their_declared_peaks(tmp_path: Path, ciguard: Ciguard) -> None:
    """The plan knows none: each job lists its tests, and then runs them by bytes."""
    (tmp_path / "units.txt").write_text("".join(f"big/{n}\n" for n in range(4)) + "small\n")
    (tmp_path / "suite.sh").write_text(SCRIPT)
    (tmp_path / "ciguard.toml").write_text(
        """
        [suite.web]
        framework = "command"
        list = ["cat", "units.txt"]
        command = ["sh", "suite.sh", "{units_file}", "{results_file}"]
        [[suite.web.needs]]
        units = "big/3"
        gpu = "1GiB"
        [[suite.web.needs]]
        units = "big/*"
        memory = "300MiB"
        [pool.default]
        memory = "1GiB"
        reserve = "200MiB"
        """
    )
    (tmp_path / "matrix.yml").write_text("")
    words = ["--matrix", "matrix.yml", "--collect", "history", "--history", "none.ciguard"]
    words += ["--shards", "1", "--processes", "4", "-o", "declared.json"]
    ciguard("plan", *words, cwd=tmp_path)
    found = plan_file.decode((tmp_path / "declared.json").read_bytes(), "plan")
    assert [one.peak_delta_bytes for one in found.suites["web"].declared_peaks] == [None, 300 * MIB]
    assert side_by_side(tmp_path, "declared", ciguard) == 3, "two large tests and a small one"
    (record,) = read_record_tree(str(tmp_path / "records" / "declared"))
    needs = sorted(line.predicted_peak_bytes or 0 for line in record.processes)
    assert needs == [100 * MIB] * 2 + [350 * MIB] * 3
