"""Damage at random never passes, and the order of files means nothing."""

from __future__ import annotations

from guard import damages
from guard.world import SHARDS, World
from hypothesis import given, settings
from hypothesis import strategies as st

from ciguard.codec.gathering import read_records
from ciguard.guard.proof import prove


@settings(max_examples=25, deadline=None)
@given(st.permutations(sorted(World().files())))
def test_the_order_of_files_does_not_matter(order: list[str]) -> None:
    world = World()
    damages.failed_and_a_record_removed(world)
    files = world.files()
    records = read_records((path, files[path]) for path in order if path in files)
    assert prove(world.plan, reversed(records)) == world.prove()


@st.composite
def damaged(draw: st.DrawFn) -> dict[str, bytes]:
    """The files of a green run after one to three of: drop, cut, swap, double, overwrite."""
    files = World().files()
    for _ in range(draw(st.integers(1, 3))):
        path = draw(st.sampled_from(sorted(files))) if files else ""
        if not path:
            break
        lines = files[path].splitlines(keepends=True)
        at = draw(st.integers(0, max(0, len(lines) - 1)))
        kind = draw(st.sampled_from(["file", "line", "cut", "swap", "double", "byte"]))
        if kind == "file" or not lines:
            del files[path]
        elif kind == "line":
            files[path] = b"".join(lines[:at] + lines[at + 1 :])
        elif kind == "cut":
            files[path] = files[path][: draw(st.integers(0, len(files[path])))]
        elif kind == "swap":
            other = draw(st.sampled_from(sorted(files)))
            files[path], files[other] = files[other], files[path]
        elif kind == "double":
            files[path + ".2.jsonl"] = files[path]
        else:
            place = draw(st.integers(0, len(files[path]) - 1))
            new = bytes([draw(st.integers(0, 255))])
            files[path] = files[path][:place] + new + files[path][place + 1 :]
    return files


@settings(max_examples=150, deadline=None)
@given(damaged())
def test_no_damage_passes_unless_every_unit_still_has_its_result(files: dict[str, bytes]) -> None:
    world = World()
    records = read_records(files.items())
    verdict = prove(world.plan, records)
    units = {result.unit for record in records for result in record.results}
    if verdict.state == "passed":
        assert units >= {unit for planned in SHARDS.values() for unit in planned}
    assert verdict.exit_code in (0, 10, 13)
