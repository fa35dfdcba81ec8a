"""What a run leaves to the next one of its pull request, read again."""

from __future__ import annotations

import numpy as np
from compare.compare_factories import MIB, case, files_of
from guard.fixtures import World

from ciguard.codec.record.reader import read_records
from ciguard.compare.run_columns import runs_from_records
from ciguard.sources.previous_run import INTERRUPTED, encode_values

LEGS = {
    "01": [
        case("a", 1.25, 20, retained_bytes=3 * MIB),
        case("b", None, None, outcome="failed", message="long" * 1000),
        case("b", 2.0, 30, try_number=2),
    ],
    "02": [case("c", 0.5, 10, case="c[1]", concurrent=2, suite="s", variant="v")],
}


def test_values_match_the_records() -> None:
    records = read_records(files_of(LEGS, run_id=9, event="pull_request").items())
    rerun = read_records([("values.jsonl", encode_values(records))])
    (before,), (after,) = runs_from_records(records, "run"), runs_from_records(rerun, "run")
    assert (after.keys, after.run_id, after.event) == (before.keys, 9, "pull_request")
    for name in ("outcome", "ending", "measured_by", "leg", "wall_s", "peak_delta_bytes"):
        assert np.array_equal(getattr(after, name), getattr(before, name), equal_nan=True)
    assert np.array_equal(after.retained_bytes, before.retained_bytes, equal_nan=True)  # type: ignore[arg-type]
    assert np.array_equal(after.process, before.process)  # type: ignore[arg-type]
    assert after.flaky == before.flaky
    assert [(leg.name, leg.complete, leg.wall_s, leg.probe_s) for leg in after.legs] == [
        (leg.name, leg.complete, leg.wall_s, leg.probe_s) for leg in before.legs
    ]
    assert b"long" not in encode_values(records)


def test_values_have_the_bounds_of_memory_and_the_use_of_gpus_and_swap() -> None:
    bounds = {"rss_before_bytes": MIB, "peak_lower_bytes": 5 * MIB, "peak_upper_bytes": 9 * MIB}
    legs = {"01": [case("a", mib=None, **bounds)]}
    files = files_of(legs, run_id=9, gpu_mib={"0": 7, "1": 9}, swap_mib=300)
    values = encode_values(read_records(files.items()))
    (run,) = runs_from_records(read_records([("values.jsonl", values)]), "run")
    assert run.measured("peak_lower_bytes").tolist() == [4 * MIB]
    assert run.measured("peak_upper_bytes").tolist() == [8 * MIB]
    (leg,) = run.legs
    assert leg.machine.gpu_bytes == {"0": 7 * MIB, "1": 9 * MIB}
    assert leg.machine.swap_growth is not None
    assert leg.machine.swap_growth.size_bytes == 300 * MIB


def test_truncated_leg_stays_incomplete_in_values() -> None:
    files = files_of({"01": LEGS["01"]}, ending=None)
    (record,) = read_records([("values.jsonl", encode_values(read_records(files.items())))])
    assert (record.end.ending if record.end else "", record.damage) == ("unknown", ())
    (run,) = runs_from_records([record], "run")
    assert not run.complete


def test_cancelled_run_gives_no_usable_values() -> None:
    world = World()
    assert INTERRUPTED.isdisjoint(leg.ending for leg in world.prove().legs)
    world.end("02", ending="cancelled")
    assert not INTERRUPTED.isdisjoint(leg.ending for leg in world.prove().legs)
